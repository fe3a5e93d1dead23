//! Roles.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::application_credentials::records as application_credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::schema::roles;
use crate::identity::{statements, storable};

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

statements::named!(roles, Role, "role");

/// Stores a new role. Conflict if another role's name differs at most in case.
pub fn insert(conn: &mut Conn, role: &Role) -> Result<(), DbError> {
    check_name_is_free(conn, &role.name, &role.id)?;
    diesel::insert_into(roles::table).values(role).execute(conn)?;
    Ok(())
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

/// Refuses a name that another role has, also in other case: rights compare names exactly, but such names would mislead people.
fn check_name_is_free(conn: &mut Conn, name: &str, id: &str) -> Result<(), DbError> {
    let folded = name.to_lowercase();
    let holder = list(conn)?.into_iter().find(|role| role.id != id && role.name.to_lowercase() == folded);
    statements::refuse_holder("role", holder.map(|role| role.name))
}

/// Changes a role and returns its new state. Conflict as in [`insert`].
pub fn update(conn: &mut Conn, id: &str, changes: &RoleChanges) -> Result<Role, DbError> {
    let mut role = find(conn, id)?;
    if let Some(name) = &changes.name {
        check_name_is_free(conn, name, id)?;
        role.name.clone_from(name);
    }
    role.description = changes.description.clone().unwrap_or(role.description);
    diesel::update(roles::table.find(id)).set((roles::name.eq(&role.name), roles::description.eq(&role.description))).execute(conn)?;
    Ok(role)
}

/// Deletes a role, all its assignments, and the application credentials that give it.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    application_credentials::delete_of_role(conn, id)?;
    assignments::delete_of_role(conn, id)?;
    diesel::delete(roles::table.find(id)).execute(conn)?;
    Ok(())
}
