//! The records of projects' default volume types.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::volume::schema::project_default_types;

/// Returns each project with its default type, ordered by project.
pub fn list(conn: &mut Conn) -> Result<Vec<(String, String)>, DbError> {
    Ok(project_default_types::table.order(project_default_types::project_id).load(conn)?)
}

/// Returns the project's default type, if it has one.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<Option<String>, DbError> {
    Ok(project_default_types::table.find(project).select(project_default_types::type_id).first(conn).optional()?)
}

/// Returns the number of projects whose default type this is.
pub fn used(conn: &mut Conn, type_id: &str) -> Result<i64, DbError> {
    Ok(project_default_types::table.filter(project_default_types::type_id.eq(type_id)).count().get_result(conn)?)
}

/// Sets the project's default type.
pub fn set(conn: &mut Conn, project: &str, type_id: &str) -> Result<(), DbError> {
    let put = "INSERT INTO project_default_types (project_id, type_id) VALUES ($1, $2) \
               ON CONFLICT (project_id) DO UPDATE SET type_id = EXCLUDED.type_id";
    diesel::sql_query(put).bind::<Text, _>(project).bind::<Text, _>(type_id).execute(conn)?;
    Ok(())
}

/// Forgets the project's default type. Does nothing if it has none.
pub fn unset(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    diesel::delete(project_default_types::table.find(project)).execute(conn)?;
    Ok(())
}
