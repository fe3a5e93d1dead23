//! The records of what operators have set of the volume service's processes.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::volume::schema::volume_services;

/// A process's row.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_services)]
pub struct ProcessRow {
    /// The program, such as `cinder-volume`.
    pub process: String,
    pub host: String,
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    pub frozen: bool,
}

/// Returns the processes of which something was set.
pub fn list(conn: &mut Conn) -> Result<Vec<ProcessRow>, DbError> {
    Ok(volume_services::table.order((volume_services::process, volume_services::host)).select(ProcessRow::as_select()).load(conn)?)
}

/// Saves what was set of a process.
pub fn save(conn: &mut Conn, row: &ProcessRow) -> Result<(), DbError> {
    diesel::delete(volume_services::table.find((&row.process, &row.host))).execute(conn)?;
    diesel::insert_into(volume_services::table).values(row).execute(conn)?;
    Ok(())
}
