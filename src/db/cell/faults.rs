//! Faults: the reasons why a server went to ERROR. Users see the newest fault.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema::instance_faults as faults;
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};

/// The maximum length of a stored message, as in Nova.
pub const MESSAGE_MAX: usize = 255;

/// A fault's row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = faults)]
pub struct InstanceFault {
    #[diesel(serialize_as = Sql<Uuid>)]
    pub instance_uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    /// The HTTP status code.
    pub code: i32,
    /// Cut to [`MESSAGE_MAX`] characters when stored.
    pub message: String,
    /// Only administrators see them.
    pub details: Option<String>,
    pub host: Option<String>,
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
    Ok(of_it.order(faults::id.desc()).select(InstanceFault::as_select()).first(conn).optional()?)
}

/// Returns all faults of the server, oldest first.
pub(super) fn all(conn: &mut Conn, instance: Uuid) -> Result<Vec<InstanceFault>, DbError> {
    Ok(faults::table.filter(faults::instance_uuid.eq(Sql(instance))).order(faults::id).select(InstanceFault::as_select()).load(conn)?)
}

pub(super) fn insert(conn: &mut Conn, mut fault: InstanceFault) -> Result<(), DbError> {
    fault.message = fault.message.chars().take(MESSAGE_MAX).collect();
    diesel::insert_into(faults::table).values(fault).execute(conn)?;
    Ok(())
}
