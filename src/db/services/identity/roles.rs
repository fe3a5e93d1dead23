//! Roles.

use diesel::prelude::*;

use super::schema::{role_assignments, roles};
use crate::db::{Conn, DbError};

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
pub struct Role {
    pub id: String,
    pub name: String,
    pub description: String,
}

/// Stores a new role; a conflict when the name is taken.
pub fn insert(conn: &mut Conn, role: &Role) -> Result<(), DbError> {
    if by_name(conn, &role.name)?.is_some() {
        return Err(DbError::Conflict(format!("Conflict occurred attempting to store role: the name {} is taken", role.name)));
    }
    diesel::insert_into(roles::table).values(role).execute(conn)?;
    Ok(())
}

/// The role of this id.
pub fn find(conn: &mut Conn, id: &str) -> Result<Role, DbError> {
    let role = roles::table.find(id).select(Role::as_select()).first(conn).optional()?;
    role.ok_or_else(|| DbError::NotFound(format!("role {id}")))
}

/// The role of this name, if there is one.
pub fn by_name(conn: &mut Conn, name: &str) -> Result<Option<Role>, DbError> {
    Ok(roles::table.filter(roles::name.eq(name)).select(Role::as_select()).first(conn).optional()?)
}

/// All roles by name.
pub fn list(conn: &mut Conn) -> Result<Vec<Role>, DbError> {
    Ok(roles::table.order(roles::name).select(Role::as_select()).load(conn)?)
}

/// Deletes a role; whoever had it has it no longer.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    diesel::delete(role_assignments::table.filter(role_assignments::role_id.eq(id))).execute(conn)?;
    diesel::delete(roles::table.find(id)).execute(conn)?;
    Ok(())
}
