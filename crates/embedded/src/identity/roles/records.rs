//! Roles.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::application_credentials::records as application_credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::schema::roles;
use crate::identity::storable;

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
pub struct Role {
    pub id: String,
    pub name: String,
    pub description: String,
}

/// The changes of an update. `None` leaves a field unchanged.
#[derive(Clone, Default, Debug)]
pub struct RoleChanges {
    pub name: Option<String>,
    pub description: Option<String>,
}

/// Stores a new role. Conflict if another role's name differs at most in case.
pub fn insert(conn: &mut Conn, role: &Role) -> Result<(), DbError> {
    name_is_free(conn, &role.name, &role.id)?;
    diesel::insert_into(roles::table).values(role).execute(conn)?;
    Ok(())
}

/// Returns the role with this id. NotFound if there is none.
pub fn find(conn: &mut Conn, id: &str) -> Result<Role, DbError> {
    if !storable(id) {
        return Err(DbError::NotFound("role".into()));
    }
    let role = roles::table.find(id).select(Role::as_select()).first(conn).optional()?;
    role.ok_or_else(|| DbError::NotFound(format!("role {id}")))
}

/// Returns the role with this name, if any.
pub fn by_name(conn: &mut Conn, name: &str) -> Result<Option<Role>, DbError> {
    if !storable(name) {
        return Ok(None);
    }
    Ok(roles::table.filter(roles::name.eq(name)).select(Role::as_select()).first(conn).optional()?)
}

/// Stores a built-in role. A role of an older release whose name differs in case stays beside it.
pub fn insert_built_in(conn: &mut Conn, role: &Role) -> Result<(), DbError> {
    diesel::insert_into(roles::table).values(role).execute(conn)?;
    Ok(())
}

/// Rights compare role names exactly, but names that differ only in case would mislead people.
fn name_is_free(conn: &mut Conn, name: &str, id: &str) -> Result<(), DbError> {
    let folded = name.to_lowercase();
    match list(conn)?.into_iter().find(|role| role.id != id && role.name.to_lowercase() == folded) {
        None => Ok(()),
        Some(taken) => Err(DbError::Conflict(format!("Conflict occurred attempting to store role: the name {} is taken", taken.name))),
    }
}

/// Changes a role and returns its new state. Conflict as in [`insert`].
pub fn update(conn: &mut Conn, id: &str, changes: &RoleChanges) -> Result<Role, DbError> {
    let mut role = find(conn, id)?;
    if let Some(name) = &changes.name {
        name_is_free(conn, name, id)?;
        role.name.clone_from(name);
    }
    role.description = changes.description.clone().unwrap_or(role.description);
    diesel::update(roles::table.find(id)).set((roles::name.eq(&role.name), roles::description.eq(&role.description))).execute(conn)?;
    Ok(role)
}

/// Returns all roles, ordered by name.
pub fn list(conn: &mut Conn) -> Result<Vec<Role>, DbError> {
    Ok(roles::table.order(roles::name).select(Role::as_select()).load(conn)?)
}

/// Deletes a role, all its assignments, and the application credentials that give it.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    application_credentials::delete_of_role(conn, id)?;
    assignments::delete_of_role(conn, id)?;
    diesel::delete(roles::table.find(id)).execute(conn)?;
    Ok(())
}
