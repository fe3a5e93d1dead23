//! The records that the audit reads from a cell, in one transaction.

use std::collections::BTreeMap;

use diesel::Connection;
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::block_devices::BlockDeviceRow;
use super::compute_nodes::ComputeNodeRow;
use super::instance_row::InstanceRow;
use super::migrations::MigrationRow;
use super::schema::{block_device_mappings as bdms, compute_nodes as nodes, instance_actions as actions, instances, migrations};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, fence, row};
use crate::domain::block_device::BlockDevice;
use crate::domain::compute_node::ComputeNode;
use crate::domain::instance::Instance;
use crate::domain::migration::{Migration, MigrationStatus};

/// The names of the actions of forced moves.
const FORCED: [&str; 2] = ["FORCED_MIGRATE", "FORCED_REBUILD"];

/// The records of a cell that invariants speak of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CellRecords {
    /// Undeleted instances, hidden or not.
    pub instances: Vec<Instance>,
    pub block_devices: Vec<BlockDevice>,
    /// Migrations that may still change: all but those that are over ([`MigrationStatus::OVER`]).
    pub migrations: Vec<Migration>,
    pub compute_nodes: Vec<ComputeNode>,
    /// The servers and requests of moves past the scheduler, by the history of actions.
    pub forced_actions: Vec<(Uuid, String)>,
    /// The highest `(epoch, attempt)` that has written here, per server.
    pub fences: BTreeMap<Uuid, (i64, i64)>,
}

impl CellDb {
    /// Reads all records that the audit checks.
    pub async fn audit_records(&self) -> Result<CellRecords, DbError> {
        self.db
            .read(|conn| {
                conn.transaction(|conn| {
                    let live = migrations::table.filter(migrations::status.ne_all(MigrationStatus::OVER.iter().map(Sql)));
                    let undeleted = instances::table.filter(instances::deleted.eq(false)).order(instances::uuid);
                    Ok(CellRecords {
                        instances: row::load(conn, undeleted.select(InstanceRow::as_select()))?,
                        block_devices: row::load(conn, bdms::table.order(bdms::id).select(BlockDeviceRow::as_select()))?,
                        migrations: row::load(conn, live.order(migrations::id).select(MigrationRow::as_select()))?,
                        compute_nodes: row::load(conn, nodes::table.order(nodes::host).select(ComputeNodeRow::as_select()))?,
                        forced_actions: forced_actions(conn)?,
                        fences: fence::all(conn)?,
                    })
                })
            })
            .await
    }
}

fn forced_actions(conn: &mut Conn) -> Result<Vec<(Uuid, String)>, DbError> {
    let forced = actions::table.filter(actions::action.eq_any(FORCED)).order(actions::id);
    Ok(forced.select((actions::instance_uuid, actions::request_id)).load(conn)?)
}
