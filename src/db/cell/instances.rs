//! Instances: one row per server in its cell, and a second, hidden row in the other cell of a move.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::instance_row::InstanceRow;
use super::schema::{instance_info_caches, instances};
use super::{CellDb, CellTxn, bundle, metadata};
use crate::db::columns::{Sql, StringList, StringMap};
use crate::db::{Conn, DbError, Of, row, rows};
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::network_info::NetworkInfo;
use crate::domain::server::{PowerState, TaskState, VmState};

/// Servers in one query by their ids.
pub(super) const READ_AT_ONCE: usize = 500;

impl CellDb {
    /// Returns the server's row, hidden or not. [`DbError::NotFound`] if it is absent or deleted.
    pub async fn instance(&self, uuid: Uuid) -> Result<Instance, DbError> {
        self.db.read(move |conn| get(conn, uuid)).await
    }

    /// Returns the server's row, even if it is hidden or deleted.
    pub async fn instance_even_deleted(&self, uuid: Uuid) -> Result<Instance, DbError> {
        self.db.read(move |conn| find(conn, uuid)?.ok_or_else(|| not_found(uuid))).await
    }

    /// Returns all undeleted servers on the host, hidden copies included, because they use its resources (INVARIANTS D2).
    pub async fn instances_on_host(&self, host: &str) -> Result<Vec<Instance>, DbError> {
        let host = host.to_owned();
        self.db
            .read(move |conn| {
                let on_host = instances::table.filter(instances::host.eq(host)).filter(instances::deleted.eq(false));
                row::load(conn, on_host.order(instances::uuid).select(InstanceRow::as_select()))
            })
            .await
    }

    /// Returns the number of servers on each host that has any, without hidden copies.
    pub async fn servers_per_host(&self) -> Result<BTreeMap<String, i64>, DbError> {
        self.db
            .read(move |conn| {
                let seen = instances::table.filter(instances::deleted.eq(false)).filter(instances::hidden.eq(false));
                let counted = seen
                    .filter(instances::host.is_not_null())
                    .group_by(instances::host)
                    .select((instances::host, diesel::dsl::count_star()));
                let rows: Vec<(Option<String>, i64)> = counted.load(conn)?;
                Ok(rows.into_iter().filter_map(|(host, servers)| Some((host?, servers))).collect())
            })
            .await
    }

    /// Returns the undeleted servers on hosts without a task, without hidden copies.
    pub async fn servers_at_rest_on_hosts(&self) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(|conn| {
                let seen = instances::table.filter(instances::deleted.eq(false)).filter(instances::hidden.eq(false));
                let at_rest = seen.filter(instances::host.is_not_null()).filter(instances::task_state.is_null());
                row::load(conn, at_rest.order(instances::uuid).select(InstanceRow::as_select()))
            })
            .await
    }

    /// Returns those of these servers that are not deleted.
    pub async fn instances_of(&self, servers: Vec<Uuid>) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(move |conn| {
                let mut list = Vec::new();
                for some in servers.chunks(READ_AT_ONCE) {
                    let rows = instances::table.filter(instances::uuid.eq_any(some.iter().copied().map(Sql)));
                    let undeleted = rows.filter(instances::deleted.eq(false)).select(InstanceRow::as_select());
                    list.extend(row::load::<Instance>(conn, undeleted)?);
                }
                Ok(list)
            })
            .await
    }

    /// Returns the hosts of undeleted servers, hidden copies included.
    pub async fn hosts_with_servers(&self) -> Result<Vec<String>, DbError> {
        self.db.read(|conn| hosts_of_servers(conn, Of::All)).await
    }

    /// Returns those of these servers whose guests should not be off, with their states: no task, and active, paused, suspended or rescued, or resized
    /// with a guest that ran.
    pub async fn expected_to_run(&self, servers: Vec<Uuid>) -> Result<Vec<(Uuid, VmState)>, DbError> {
        self.db
            .read(move |conn| {
                let mut running = Vec::new();
                for some in servers.chunks(READ_AT_ONCE) {
                    let resized = instances::vm_state.eq(Sql(VmState::Resized)).and(instances::power_state.eq(Sql(PowerState::Running)));
                    let rows = instances::table
                        .filter(instances::uuid.eq_any(some.iter().copied().map(Sql)))
                        .filter(instances::deleted.eq(false))
                        .filter(instances::task_state.is_null())
                        .filter(
                            instances::vm_state
                                .eq_any([VmState::Active, VmState::Paused, VmState::Suspended, VmState::Rescued].map(Sql))
                                .or(resized),
                        )
                        .select((instances::uuid, instances::vm_state))
                        .load::<(Uuid, VmState)>(conn)?;
                    running.extend(rows);
                }
                Ok(running)
            })
            .await
    }

    /// Returns the visible servers that are shelved on their hosts, without a task.
    pub async fn shelved_on_hosts(&self) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(|conn| {
                let shelved = instances::table
                    .filter(instances::vm_state.eq(Sql(VmState::Shelved)))
                    .filter(instances::task_state.is_null())
                    .filter(instances::deleted.eq(false))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)));
                row::load(conn, shelved.order(instances::uuid).select(InstanceRow::as_select()))
            })
            .await
    }

    /// Returns the servers, without a task, that were soft-deleted at or before this moment.
    pub async fn soft_deleted_until(&self, latest: DateTime<Utc>) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(move |conn| {
                let soft_deleted = instances::table
                    .filter(instances::vm_state.eq(Sql(VmState::SoftDeleted)))
                    .filter(instances::task_state.is_null())
                    .filter(instances::deleted.eq(false))
                    .filter(instances::deleted_at.le(Sql(Some(latest))));
                row::load(conn, soft_deleted.order(instances::uuid).select(InstanceRow::as_select()))
            })
            .await
    }
}

/// Returns the hosts of undeleted servers, each once; of very many hosts all, whichever were asked for.
pub(super) fn hosts_of_servers(conn: &mut Conn, among: Of<'_>) -> Result<Vec<String>, DbError> {
    let hosts = instances::table.filter(instances::deleted.eq(false)).filter(instances::host.is_not_null());
    let hosts = hosts.select(instances::host.assume_not_null()).distinct();
    Ok(match among.ids() {
        None => hosts.load(conn)?,
        Some(names) => hosts.filter(instances::host.eq_any(names)).load(conn)?,
    })
}

impl CellTxn {
    /// Creates a server with all its records. Conflict if the cell has any row of the server, even a deleted one.
    pub fn create_instance(self, new: InstanceBundle) -> CellTxn {
        self.with(move |conn, now| bundle::insert(conn, new, now))
    }

    /// Hides or shows a server (INVARIANTS D2).
    pub fn hidden(self, uuid: Uuid, hidden: bool) -> CellTxn {
        self.with(move |conn, now| {
            let changed = diesel::update(instances::table.filter(instances::uuid.eq(Sql(uuid))))
                .set((instances::hidden.eq(hidden), instances::updated_at.eq(Sql(Some(now)))))
                .execute(conn)?;
            if changed == 0 { Err(not_found(uuid)) } else { Ok(()) }
        })
    }

    /// Marks the server deleted. Its row and history stay; its user data and its volumes' and ports' records are removed. Succeeds if it is
    /// deleted already or absent.
    pub fn soft_delete_instance(self, uuid: Uuid, at: DateTime<Utc>) -> CellTxn {
        self.with(move |conn, now| {
            erase_user_data(conn, uuid)?;
            let changed = diesel::update(instances::table.filter(instances::uuid.eq(Sql(uuid))).filter(instances::deleted.eq(false)))
                .set((
                    instances::deleted.eq(true),
                    instances::deleted_at.eq(Sql(Some(at))),
                    instances::terminated_at.eq(Sql(Some(at))),
                    instances::vm_state.eq(Sql(VmState::Deleted)),
                    instances::task_state.eq(Sql(None::<TaskState>)),
                    instances::power_state.eq(Sql(PowerState::NoState)),
                    instances::updated_at.eq(Sql(Some(now))),
                ))
                .execute(conn)?;
            if changed > 0 {
                rows::delete(conn, &OF_A_GUEST, &uuid.to_string())?;
            }
            Ok(())
        })
    }

    /// Removes the server and all its records, including deleted leftovers (INVARIANTS D3). Succeeds if there is none.
    pub fn hard_delete_instance(self, uuid: Uuid) -> CellTxn {
        self.with(move |conn, _| hard_delete(conn, uuid))
    }
}

/// Returns the row, even if it is hidden or deleted.
pub(super) fn find(conn: &mut Conn, uuid: Uuid) -> Result<Option<Instance>, DbError> {
    row::first(conn, instances::table.filter(instances::uuid.eq(Sql(uuid))).select(InstanceRow::as_select()))
}

pub(super) fn get(conn: &mut Conn, uuid: Uuid) -> Result<Instance, DbError> {
    find(conn, uuid)?.filter(|instance| !instance.deleted).ok_or_else(|| not_found(uuid))
}

/// A server's row with what users have set on it, and the cell's copy of its ports.
pub(super) struct Described {
    pub instance: Instance,
    pub network_info: NetworkInfo,
    pub metadata: StringMap,
    /// Sorted.
    pub tags: Vec<String>,
}

type DescribedRow = (InstanceRow, Option<NetworkInfo>, StringMap, StringList);

/// Returns an undeleted server with its descriptions, in one statement.
pub(super) fn described(conn: &mut Conn, uuid: Uuid) -> Result<Described, DbError> {
    let (metadata, tags) = metadata::columns(conn);
    let described_row: Option<DescribedRow> = instances::table
        .left_join(instance_info_caches::table.on(instance_info_caches::instance_uuid.eq(instances::uuid)))
        .filter(instances::uuid.eq(Sql(uuid)))
        .filter(instances::deleted.eq(false))
        .select((InstanceRow::as_select(), instance_info_caches::network_info.nullable(), metadata, tags))
        .first(conn)
        .optional()?;
    let (row, networks, metadata, StringList(mut tags)) = described_row.ok_or_else(|| not_found(uuid))?;
    tags.sort_unstable();
    Ok(Described { instance: row.into(), network_info: networks.unwrap_or_default(), metadata, tags })
}

pub(super) fn not_found(uuid: Uuid) -> DbError {
    DbError::NotFound(format!("Instance {uuid}"))
}

/// Erases the user data, and notes the erasure so that the database's log is cleaned too.
fn erase_user_data(conn: &mut Conn, uuid: Uuid) -> Result<(), DbError> {
    let with_user_data = instances::table.filter(instances::uuid.eq(Sql(uuid))).filter(instances::user_data.is_not_null());
    if diesel::update(with_user_data).set(instances::user_data.eq(None::<String>)).execute(conn)? > 0 {
        conn.note_erasure();
    }
    Ok(())
}

/// The tables whose rows of a server go with its guest, and the columns that name the server.
const OF_A_GUEST: [(&str, &str); 4] = [
    ("block_device_mappings", "instance_uuid"),
    ("virtual_interfaces", "instance_uuid"),
    ("instance_info_caches", "instance_uuid"),
    ("migration_contexts", "instance_uuid"),
];

/// All tables with rows of a server. With an action its events go, too.
const OF_A_SERVER: [(&str, &str); 10] = [
    ("instance_actions", "instance_uuid"),
    ("block_device_mappings", "instance_uuid"),
    ("instance_faults", "instance_uuid"),
    ("migrations", "instance_uuid"),
    ("migration_contexts", "instance_uuid"),
    ("virtual_interfaces", "instance_uuid"),
    ("instance_info_caches", "instance_uuid"),
    ("instance_metadata", "instance_uuid"),
    ("tags", "instance_uuid"),
    ("instances", "uuid"),
];

pub(super) fn hard_delete(conn: &mut Conn, uuid: Uuid) -> Result<(), DbError> {
    erase_user_data(conn, uuid)?;
    rows::delete(conn, &OF_A_SERVER, &uuid.to_string())
}
