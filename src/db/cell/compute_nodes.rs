//! Compute nodes: the resources of each host's hypervisor, and their usage.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::instances::hosts_of_servers;
use super::schema::{compute_nodes as nodes, instances};
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, Of};
use crate::domain::flavor::Flavor;
use crate::domain::server::TaskState;

/// A hypervisor's row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = nodes)]
#[diesel(treat_none_as_null = true)]
pub struct ComputeNode {
    /// The id in this cell's database, which old microversions show.
    #[diesel(skip_insertion)]
    pub id: i32,
    /// Also the uuid of the node's resource provider.
    #[diesel(serialize_as = Sql<Uuid>)]
    pub uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub updated_at: Option<DateTime<Utc>>,
    pub host: String,
    pub hypervisor_hostname: String,
    pub hypervisor_type: String,
    pub hypervisor_version: i32,
    pub host_ip: String,
    pub vcpus: i32,
    pub memory_mb: i32,
    pub local_gb: i32,
    pub vcpus_used: i32,
    pub memory_mb_used: i32,
    pub local_gb_used: i32,
    pub running_vms: i32,
    /// The number of servers with a task state.
    pub current_workload: i32,
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// JSON text, as the hypervisor reports it.
    pub cpu_info: String,
    /// The uuid of the host's compute service.
    #[diesel(serialize_as = Sql<Uuid>)]
    pub service_id: Uuid,
    /// True if the API database has a mapping of the host.
    pub mapped: bool,
}

impl ComputeNode {
    /// Makes the row of a host's simulated hypervisor, without resources yet and without overcommit.
    pub fn new(uuid: Uuid, host: &str, service_id: Uuid, created_at: DateTime<Utc>) -> ComputeNode {
        ComputeNode {
            id: 0,
            uuid,
            created_at,
            updated_at: None,
            host: host.to_owned(),
            hypervisor_hostname: host.to_owned(),
            hypervisor_type: "simulated".to_owned(),
            hypervisor_version: 1,
            host_ip: "127.0.0.1".to_owned(),
            vcpus: 0,
            memory_mb: 0,
            local_gb: 0,
            vcpus_used: 0,
            memory_mb_used: 0,
            local_gb_used: 0,
            running_vms: 0,
            current_workload: 0,
            cpu_allocation_ratio: 1.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            cpu_info: "{}".to_owned(),
            service_id,
            mapped: true,
        }
    }
}

impl CellDb {
    /// Returns all compute nodes, ordered by host.
    pub async fn compute_nodes(&self) -> Result<Vec<ComputeNode>, DbError> {
        self.db
            .read(|conn| Ok(nodes::table.order((nodes::host, nodes::hypervisor_hostname)).select(ComputeNode::as_select()).load(conn)?))
            .await
    }

    /// Returns the compute node with this uuid.
    pub async fn compute_node(&self, uuid: Uuid) -> Result<ComputeNode, DbError> {
        self.db
            .read(move |conn| {
                let found = nodes::table.filter(nodes::uuid.eq(Sql(uuid))).select(ComputeNode::as_select()).first(conn).optional()?;
                found.ok_or_else(|| DbError::NotFound(format!("compute node {uuid}")))
            })
            .await
    }

    /// Returns the compute node of a host.
    pub async fn compute_node_on(&self, host: &str) -> Result<Option<ComputeNode>, DbError> {
        let of_host = nodes::table.filter(nodes::host.eq(host.to_owned())).order(nodes::hypervisor_hostname);
        self.db.read(move |conn| Ok(of_host.select(ComputeNode::as_select()).first(conn).optional()?)).await
    }

    /// Commits [`CellTxn::recount_usage`] alone.
    pub async fn recount_usage(&self, host: &str) -> Result<(), DbError> {
        self.apply_unfenced(CellTxn::new().recount_usage([host.to_owned()].into())).await
    }
}

impl CellTxn {
    /// Saves a compute node: changes the row of its host and name, which keeps its uuid and creation time, or adds a row.
    pub fn save_compute_node(self, mut node: ComputeNode) -> CellTxn {
        self.with(move |conn, now| {
            let row = nodes::table
                .filter(nodes::host.eq(node.host.clone()))
                .filter(nodes::hypervisor_hostname.eq(node.hypervisor_hostname.clone()));
            let present: Option<(i32, Uuid, DateTime<Utc>)> =
                row.select((nodes::id, nodes::uuid, nodes::created_at)).first(conn).optional()?;
            match present {
                Some((id, uuid, created_at)) => {
                    (node.uuid, node.created_at, node.updated_at) = (uuid, created_at, Some(now));
                    diesel::update(nodes::table.find(id)).set(node).execute(conn)?;
                }
                None => {
                    diesel::insert_into(nodes::table).values(node).execute(conn)?;
                }
            }
            Ok(())
        })
    }

    /// Counts the resources that each host's undeleted servers use, hidden copies included (INVARIANTS D2), by their present flavors. The
    /// host's own report counts a claim for a move whose server is not yet on the host. A host that has no server and had none is left alone.
    pub fn recount_usage(self, hosts: BTreeSet<String>) -> CellTxn {
        self.with(move |conn, now| {
            let names: Vec<String> = hosts.iter().cloned().collect();
            let mut used: BTreeSet<String> = hosts_of_servers(conn, Of::These(&names))?.into_iter().collect();
            used.extend(hosts_counted_as_used(conn, Of::These(&names))?);
            hosts.intersection(&used).try_for_each(|host| recount(conn, host, now))
        })
    }

    /// Removes a host's compute nodes.
    pub fn delete_compute_nodes(self, host: &str) -> CellTxn {
        let host = host.to_owned();
        self.with(move |conn, _| {
            diesel::delete(nodes::table.filter(nodes::host.eq(host))).execute(conn)?;
            Ok(())
        })
    }
}

/// Returns the hosts whose rows count a server; of very many hosts all, whichever were asked for.
fn hosts_counted_as_used(conn: &mut Conn, among: Of<'_>) -> Result<Vec<String>, DbError> {
    let hosts = nodes::table.filter(nodes::running_vms.gt(0)).select(nodes::host);
    Ok(match among.ids() {
        None => hosts.load(conn)?,
        Some(names) => hosts.filter(nodes::host.eq_any(names)).load(conn)?,
    })
}

fn recount(conn: &mut Conn, host: &str, now: DateTime<Utc>) -> Result<(), DbError> {
    let servers: Vec<(Flavor, String, Option<TaskState>)> = instances::table
        .filter(instances::host.eq(host))
        .filter(instances::deleted.eq(false))
        .select((instances::flavor, instances::image_ref, instances::task_state))
        .load(conn)?;
    let (mut vcpus, mut memory, mut disk, mut busy) = (0, 0, 0, 0);
    for (flavor, image_ref, task) in &servers {
        let used = flavor.resources(image_ref.is_empty());
        vcpus += used.vcpu;
        memory += used.memory_mb;
        disk += used.disk_gb;
        busy += i32::from(task.is_some());
    }
    let set = (
        nodes::vcpus_used.eq(narrow(vcpus)),
        nodes::memory_mb_used.eq(narrow(memory)),
        nodes::local_gb_used.eq(narrow(disk)),
        nodes::running_vms.eq(narrow(servers.len() as i64)),
        nodes::current_workload.eq(busy),
        nodes::updated_at.eq(Sql(Some(now))),
    );
    diesel::update(nodes::table.filter(nodes::host.eq(host))).set(set).execute(conn)?;
    Ok(())
}

fn narrow(amount: i64) -> i32 {
    i32::try_from(amount).unwrap_or(i32::MAX)
}
