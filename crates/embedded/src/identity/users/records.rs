//! Users.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::application_credentials::records as application_credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::credentials::records as credentials;
use crate::identity::schema::users;
use crate::identity::statements;

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

statements::in_domains!(users, User, "user");

/// Changes a user and returns the new state.
pub fn update(conn: &mut Conn, id: &str, changes: &UserChanges) -> Result<User, DbError> {
    let mut user = find(conn, id)?;
    let changes = changes.clone();
    if let Some(name) = &changes.name {
        check_name_is_free(conn, &user.domain_id, name, id)?;
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
