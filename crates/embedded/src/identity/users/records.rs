//! Users.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::application_credentials::records as application_credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::credentials::records as credentials;
use crate::identity::domains::records as domains;
use crate::identity::schema::users;
use crate::identity::storable;

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
pub struct User {
    pub id: String,
    pub domain_id: String,
    pub name: String,
    pub description: String,
    pub email: Option<String>,
    pub enabled: bool,
    /// The scope of a token that was requested without a scope.
    pub default_project_id: Option<String>,
    /// The password's hash as a PHC string.
    pub password_hash: String,
    /// Tokens issued before this moment are void.
    pub password_changed_at: NaiveDateTime,
    pub created_at: NaiveDateTime,
}

/// The changes of an update. `None` leaves a field unchanged; `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct UserChanges {
    pub name: Option<String>,
    pub description: Option<String>,
    pub email: Option<Option<String>>,
    pub enabled: Option<bool>,
    pub default_project_id: Option<Option<String>>,
    pub password_hash: Option<String>,
    pub password_changed_at: Option<NaiveDateTime>,
}

/// Stores a new user. Conflict if the name is taken in the user's domain; NotFound if there is no such domain.
pub fn insert(conn: &mut Conn, user: &User) -> Result<(), DbError> {
    domains::find(conn, &user.domain_id)?;
    name_is_free(conn, &user.domain_id, &user.name, &user.id)?;
    diesel::insert_into(users::table).values(user).execute(conn)?;
    Ok(())
}

fn name_is_free(conn: &mut Conn, domain_id: &str, name: &str, id: &str) -> Result<(), DbError> {
    match by_name(conn, domain_id, name)? {
        Some(other) if other.id != id => {
            Err(DbError::Conflict(format!("Conflict occurred attempting to store user: the name {name} is taken")))
        }
        _ => Ok(()),
    }
}

/// Returns the user with this id. NotFound if there is none.
pub fn find(conn: &mut Conn, id: &str) -> Result<User, DbError> {
    by_id(conn, id)?.ok_or_else(|| DbError::NotFound(format!("user {id}")))
}

/// Returns the user with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<User>, DbError> {
    if !storable(id) {
        return Ok(None);
    }
    Ok(users::table.find(id).select(User::as_select()).first(conn).optional()?)
}

/// Returns the domain's user with this name, if any.
pub fn by_name(conn: &mut Conn, domain_id: &str, name: &str) -> Result<Option<User>, DbError> {
    if !storable(name) {
        return Ok(None);
    }
    let named = users::table.filter(users::domain_id.eq(domain_id)).filter(users::name.eq(name));
    Ok(named.select(User::as_select()).first(conn).optional()?)
}

/// Returns all users, ordered by name.
pub fn list(conn: &mut Conn) -> Result<Vec<User>, DbError> {
    Ok(users::table.order(users::name).select(User::as_select()).load(conn)?)
}

/// Changes a user and returns the new state.
pub fn update(conn: &mut Conn, id: &str, changes: &UserChanges) -> Result<User, DbError> {
    let mut user = find(conn, id)?;
    let changes = changes.clone();
    if let Some(name) = &changes.name {
        name_is_free(conn, &user.domain_id, name, id)?;
    }
    user.name = changes.name.unwrap_or(user.name);
    user.description = changes.description.unwrap_or(user.description);
    user.email = changes.email.unwrap_or(user.email);
    user.enabled = changes.enabled.unwrap_or(user.enabled);
    user.default_project_id = changes.default_project_id.unwrap_or(user.default_project_id);
    user.password_hash = changes.password_hash.unwrap_or(user.password_hash);
    user.password_changed_at = changes.password_changed_at.unwrap_or(user.password_changed_at);
    diesel::update(users::table.find(id))
        .set((
            users::name.eq(&user.name),
            users::description.eq(&user.description),
            users::email.eq(&user.email),
            users::enabled.eq(user.enabled),
            users::default_project_id.eq(&user.default_project_id),
            users::password_hash.eq(&user.password_hash),
            users::password_changed_at.eq(user.password_changed_at),
        ))
        .execute(conn)?;
    Ok(user)
}

/// Stores a newer hash of the same password, unless the password has changed meanwhile.
pub fn replace_hash(conn: &mut Conn, id: &str, before: &str, after: &str) -> Result<(), DbError> {
    diesel::update(users::table.find(id).filter(users::password_hash.eq(before))).set(users::password_hash.eq(after)).execute(conn)?;
    Ok(())
}

/// Deletes a user and all the user's roles and credentials.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    application_credentials::delete_of_user(conn, id)?;
    credentials::delete_of_user(conn, id)?;
    assignments::delete_of_user(conn, id)?;
    diesel::delete(users::table.find(id)).execute(conn)?;
    Ok(())
}
