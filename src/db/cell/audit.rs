//! The records that the audit reads from a cell, in one transaction.

use std::collections::BTreeMap;

use diesel::Connection;
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::block_devices::BlockDevice;
use super::compute_nodes::ComputeNode;
use super::instance_row::{self, InstanceRow};
use super::migrations::Migration;
use super::schema::{block_device_mappings as bdms, compute_nodes as nodes, instance_actions as actions, instances, migrations};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, fence};
use crate::domain::instance::Instance;
use crate::domain::migration::MigrationStatus;

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
                        instances: instance_row::load(conn, undeleted.select(InstanceRow::as_select()))?,
                        block_devices: bdms::table.order(bdms::id).select(BlockDevice::as_select()).load(conn)?,
                        migrations: live.order(migrations::id).select(Migration::as_select()).load(conn)?,
                        compute_nodes: nodes::table.order(nodes::host).select(ComputeNode::as_select()).load(conn)?,
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
