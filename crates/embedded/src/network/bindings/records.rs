//! Bindings of ports to hosts. A unique index prevents a second ACTIVE binding of a port.

use cellshift_store::{Conn, DbError, Of};
use diesel::prelude::*;

use crate::network::schema::port_bindings;
use crate::of::load_of;

/// The status of the binding that carries the port's traffic.
pub const ACTIVE: &str = "ACTIVE";
/// The status of a binding that is prepared, or kept for a way back.
pub const INACTIVE: &str = "INACTIVE";

/// A port's binding to one host.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = port_bindings)]
pub struct BindingRow {
    pub port_id: String,
    pub host: String,
    pub status: String,
    pub vnic_type: String,
    pub vif_type: String,
    pub profile: String,
    pub plugged: bool,
}

/// Returns bindings, ordered by port and host.
pub fn list(conn: &mut Conn, of: Of<'_>) -> Result<Vec<BindingRow>, DbError> {
    let query = port_bindings::table.order((port_bindings::port_id.asc(), port_bindings::host.asc()));
    load_of!(conn, query, port_bindings::port_id, of, |row| &row.port_id)
}

/// Returns the port's binding to this host.
pub fn find(conn: &mut Conn, port: &str, host: &str) -> Result<Option<BindingRow>, DbError> {
    Ok(port_bindings::table.find((port, host)).first(conn).optional()?)
}

/// Returns the port's active binding.
pub fn active(conn: &mut Conn, port: &str) -> Result<Option<BindingRow>, DbError> {
    Ok(port_bindings::table.filter(port_bindings::port_id.eq(port)).filter(port_bindings::status.eq(ACTIVE)).first(conn).optional()?)
}

/// Adds a binding. Conflict if it exists, or would be the port's second active binding.
pub fn insert(conn: &mut Conn, row: &BindingRow) -> Result<(), DbError> {
    diesel::insert_into(port_bindings::table).values(row).execute(conn)?;
    Ok(())
}

/// Makes the host's binding active and the port's other bindings inactive. Changes the others first, so that there is never a second active
/// binding.
pub fn activate(conn: &mut Conn, port: &str, host: &str) -> Result<(), DbError> {
    diesel::update(port_bindings::table.filter(port_bindings::port_id.eq(port)).filter(port_bindings::host.ne(host)))
        .set(port_bindings::status.eq(INACTIVE))
        .execute(conn)?;
    diesel::update(port_bindings::table.find((port, host))).set(port_bindings::status.eq(ACTIVE)).execute(conn)?;
    Ok(())
}

/// Changes the VNIC type and profile of a binding.
pub fn set_details(conn: &mut Conn, port: &str, host: &str, vnic_type: &str, profile: &str) -> Result<(), DbError> {
    diesel::update(port_bindings::table.find((port, host)))
        .set((port_bindings::vnic_type.eq(vnic_type), port_bindings::profile.eq(profile)))
        .execute(conn)?;
    Ok(())
}

/// Records whether the host's agent has plugged the binding. False if there is no such binding.
pub fn set_plugged(conn: &mut Conn, port: &str, host: &str, plugged: bool) -> Result<bool, DbError> {
    Ok(diesel::update(port_bindings::table.find((port, host))).set(port_bindings::plugged.eq(plugged)).execute(conn)? == 1)
}

/// Removes a binding. False if there was none.
pub fn delete(conn: &mut Conn, port: &str, host: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(port_bindings::table.find((port, host))).execute(conn)? == 1)
}

/// Removes all bindings of a port.
pub fn clear(conn: &mut Conn, port: &str) -> Result<(), DbError> {
    diesel::delete(port_bindings::table.filter(port_bindings::port_id.eq(port))).execute(conn)?;
    Ok(())
}
