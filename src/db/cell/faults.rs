//! Faults: the reasons why a server went to ERROR. Users see the newest fault.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::instance_faults as faults;
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError};
use crate::domain::instance_fault::InstanceFault;

/// The maximum length of a stored message, as in Nova.
pub const MESSAGE_MAX: usize = 255;

row! {
    #[diesel(table_name = faults)]
    InstanceFaultRow of InstanceFault {
        instance_uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        code: i32,
        message: String,
        details: Option<String>,
        host: Option<String>,
    }
}

impl CellDb {
    /// Returns the server's newest fault.
    pub async fn latest_fault(&self, instance: Uuid) -> Result<Option<InstanceFault>, DbError> {
        self.db.read(move |conn| newest(conn, instance)).await
    }
}

impl CellTxn {
    /// Adds a fault.
    pub fn fault(self, fault: InstanceFault) -> CellTxn {
        self.with(move |conn, _| insert(conn, fault))
    }
}

/// Returns the server's newest fault.
pub(super) fn newest(conn: &mut Conn, instance: Uuid) -> Result<Option<InstanceFault>, DbError> {
    let of_it = faults::table.filter(faults::instance_uuid.eq(Sql(instance)));
    row::first(conn, of_it.order(faults::id.desc()).select(InstanceFaultRow::as_select()))
}

/// Returns all faults of the server, oldest first.
pub(super) fn all(conn: &mut Conn, instance: Uuid) -> Result<Vec<InstanceFault>, DbError> {
    let of_server = faults::table.filter(faults::instance_uuid.eq(Sql(instance))).order(faults::id);
    row::load(conn, of_server.select(InstanceFaultRow::as_select()))
}

pub(super) fn insert(conn: &mut Conn, mut fault: InstanceFault) -> Result<(), DbError> {
    fault.message = fault.message.chars().take(MESSAGE_MAX).collect();
    diesel::insert_into(faults::table).values(InstanceFaultRow::from(fault)).execute(conn)?;
    Ok(())
}
