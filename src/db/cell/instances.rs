//! Instances: one row per server in its cell, and a second, hidden row in the other cell of a move.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema::{instance_info_caches, instances};
use super::{CellDb, CellTxn, bundle, metadata};
use crate::db::columns::{NullIsFalse, Sql, StringList, StringMap};
use crate::db::{Conn, DbError, Of, rows};
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::network_info::NetworkInfo;
use crate::domain::server::{PowerState, TaskState, VmState};

/// A server's row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = instances)]
pub struct Instance {
    /// The id in this cell's database; each cell gives its own.
    #[diesel(skip_insertion)]
    pub id: i32,
    /// The server's uuid.
    #[diesel(serialize_as = Sql<Uuid>)]
    pub uuid: Uuid,
    /// The moment of the user's request; moves keep it.
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    /// The moment of the last change.
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub updated_at: Option<DateTime<Utc>>,
    /// The moment of the delete.
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub deleted_at: Option<DateTime<Utc>>,
    /// A deleted row is kept for the history.
    pub deleted: bool,
    /// Marks the hidden copy of a server in a move (INVARIANTS D2). Null reads as false.
    #[diesel(deserialize_as = NullIsFalse)]
    pub hidden: bool,
    pub project_id: String,
    pub user_id: String,
    pub display_name: String,
    pub display_description: Option<String>,
    pub hostname: Option<String>,
    /// The compute host.
    pub host: Option<String>,
    /// The host's hypervisor name.
    pub node: Option<String>,
    pub availability_zone: Option<String>,
    #[diesel(serialize_as = Sql<VmState>)]
    pub vm_state: VmState,
    #[diesel(serialize_as = Sql<Option<TaskState>>)]
    pub task_state: Option<TaskState>,
    #[diesel(serialize_as = Sql<PowerState>)]
    pub power_state: PowerState,
    /// Percent of the running task.
    pub progress: i32,
    /// The flavor that the guest runs with.
    #[diesel(serialize_as = Sql<Flavor>)]
    pub flavor: Flavor,
    /// The flavor before a move; none at rest.
    #[diesel(serialize_as = Sql<Option<Flavor>>)]
    pub old_flavor: Option<Flavor>,
    /// The flavor after a move; none at rest.
    #[diesel(serialize_as = Sql<Option<Flavor>>)]
    pub new_flavor: Option<Flavor>,
    /// The state that a move restores; none at rest.
    #[diesel(serialize_as = Sql<Option<VmState>>)]
    pub old_vm_state: Option<VmState>,
    /// The image's id; empty for a volume-backed server.
    pub image_ref: String,
    pub key_name: Option<String>,
    /// The public key.
    pub key_data: Option<String>,
    pub config_drive: bool,
    pub locked: bool,
    /// `owner` or `admin`.
    pub locked_by: Option<String>,
    pub locked_reason: Option<String>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub launched_at: Option<DateTime<Utc>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub terminated_at: Option<DateTime<Utc>>,
    /// The index in the request that created the server.
    pub launch_index: i32,
    pub reservation_id: Option<String>,
    pub root_device_name: Option<String>,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    /// Base64, as the user sent it.
    pub user_data: Option<String>,
    /// `personality`, as the user sent it.
    #[diesel(serialize_as = Sql<serde_json::Value>)]
    pub injected_files: serde_json::Value,
    #[diesel(serialize_as = Sql<StringMap>)]
    pub system_metadata: StringMap,
    /// Names, as the user gave them at creation.
    pub security_groups: StringList,
    pub trusted_certs: Option<StringList>,
    /// The key pair as it was at creation.
    #[diesel(serialize_as = Sql<Option<serde_json::Value>>)]
    pub keypair: Option<serde_json::Value>,
    /// `OS-DCF:diskConfig` AUTO.
    pub auto_disk_config: bool,
}

impl Instance {
    /// Makes a new server's row: no host, `building`/`scheduling`, and empty optional fields.
    pub fn new(uuid: Uuid, project_id: &str, user_id: &str, name: &str, flavor: Flavor, now: DateTime<Utc>) -> Instance {
        Instance {
            id: 0,
            uuid,
            created_at: now,
            updated_at: None,
            deleted_at: None,
            deleted: false,
            hidden: false,
            project_id: project_id.to_owned(),
            user_id: user_id.to_owned(),
            display_name: name.to_owned(),
            display_description: None,
            hostname: None,
            host: None,
            node: None,
            availability_zone: None,
            vm_state: VmState::Building,
            task_state: Some(TaskState::Scheduling),
            power_state: PowerState::NoState,
            progress: 0,
            flavor,
            old_flavor: None,
            new_flavor: None,
            old_vm_state: None,
            image_ref: String::new(),
            key_name: None,
            key_data: None,
            config_drive: false,
            locked: false,
            locked_by: None,
            locked_reason: None,
            launched_at: None,
            terminated_at: None,
            launch_index: 0,
            reservation_id: None,
            root_device_name: None,
            access_ip_v4: None,
            access_ip_v6: None,
            user_data: None,
            injected_files: serde_json::Value::Array(Vec::new()),
            system_metadata: StringMap::new(),
            security_groups: StringList::default(),
            trusted_certs: None,
            keypair: None,
            auto_disk_config: false,
        }
    }

    /// Returns the name in the hypervisor, which contains the id in this cell.
    pub fn instance_name(&self) -> String {
        format!("instance-{:08x}", self.id)
    }

    /// True if users see the newest fault.
    pub fn shows_fault(&self) -> bool {
        self.deleted || matches!(self.vm_state, VmState::Error | VmState::Deleted)
    }

    /// True if the root disk is a volume.
    pub fn is_volume_backed(&self) -> bool {
        self.image_ref.is_empty()
    }
}

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
                Ok(instances::table
                    .filter(instances::host.eq(host))
                    .filter(instances::deleted.eq(false))
                    .order(instances::uuid)
                    .select(Instance::as_select())
                    .load(conn)?)
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
                Ok(at_rest.order(instances::uuid).select(Instance::as_select()).load(conn)?)
            })
            .await
    }

    /// Returns those of these servers that are not deleted.
    pub async fn instances_of(&self, servers: Vec<Uuid>) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(move |conn| {
                let mut found = Vec::new();
                for some in servers.chunks(READ_AT_ONCE) {
                    let rows = instances::table.filter(instances::uuid.eq_any(some.iter().copied().map(Sql)));
                    found.extend(rows.filter(instances::deleted.eq(false)).select(Instance::as_select()).load(conn)?);
                }
                Ok(found)
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
                let mut found = Vec::new();
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
                    found.extend(rows);
                }
                Ok(found)
            })
            .await
    }

    /// Returns the visible servers that are shelved on their hosts, without a task.
    pub async fn shelved_on_hosts(&self) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(|conn| {
                Ok(instances::table
                    .filter(instances::vm_state.eq(Sql(VmState::Shelved)))
                    .filter(instances::task_state.is_null())
                    .filter(instances::deleted.eq(false))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .order(instances::uuid)
                    .select(Instance::as_select())
                    .load(conn)?)
            })
            .await
    }

    /// Returns the servers, without a task, that were soft-deleted at or before this moment.
    pub async fn soft_deleted_until(&self, latest: DateTime<Utc>) -> Result<Vec<Instance>, DbError> {
        self.db
            .read(move |conn| {
                Ok(instances::table
                    .filter(instances::vm_state.eq(Sql(VmState::SoftDeleted)))
                    .filter(instances::task_state.is_null())
                    .filter(instances::deleted.eq(false))
                    .filter(instances::deleted_at.le(Sql(Some(latest))))
                    .order(instances::uuid)
                    .select(Instance::as_select())
                    .load(conn)?)
            })
            .await
    }

    /// Creates a server with all its records. [`DbError::Conflict`] if the cell has the server already.
    pub async fn create_instance(&self, fence: Fence, new: bundle::InstanceBundle) -> Result<(), DbError> {
        self.apply(fence, CellTxn::new().create_instance(new)).await
    }

    /// Commits [`CellTxn::soft_delete_instance`] alone.
    pub async fn soft_delete_instance(&self, fence: Fence, uuid: Uuid, at: DateTime<Utc>) -> Result<(), DbError> {
        self.apply(fence, CellTxn::new().soft_delete_instance(uuid, at)).await
    }

    /// Commits [`CellTxn::hidden`] alone.
    pub async fn set_hidden(&self, fence: Fence, uuid: Uuid, hidden: bool) -> Result<(), DbError> {
        self.apply(fence, CellTxn::new().hidden(uuid, hidden)).await
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
    pub fn create_instance(self, new: bundle::InstanceBundle) -> CellTxn {
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
    Ok(instances::table.filter(instances::uuid.eq(Sql(uuid))).select(Instance::as_select()).first(conn).optional()?)
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

type DescribedRow = (Instance, Option<NetworkInfo>, StringMap, StringList);

/// Returns an undeleted server with its descriptions, in one statement.
pub(super) fn described(conn: &mut Conn, uuid: Uuid) -> Result<Described, DbError> {
    let (metadata, tags) = metadata::columns(conn);
    let found: Option<DescribedRow> = instances::table
        .left_join(instance_info_caches::table.on(instance_info_caches::instance_uuid.eq(instances::uuid)))
        .filter(instances::uuid.eq(Sql(uuid)))
        .filter(instances::deleted.eq(false))
        .select((Instance::as_select(), instance_info_caches::network_info.nullable(), metadata, tags))
        .first(conn)
        .optional()?;
    let (instance, networks, metadata, StringList(mut tags)) = found.ok_or_else(|| not_found(uuid))?;
    tags.sort_unstable();
    Ok(Described { instance, network_info: networks.unwrap_or_default(), metadata, tags })
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
