//! Compute nodes: the resources of each host's hypervisor, and their usage.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::instances::hosts_of_servers;
use super::schema::{compute_nodes as nodes, instances};
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError, Of};
use crate::domain::compute_node::ComputeNode;
use crate::domain::flavor::Flavor;
use crate::domain::server::TaskState;

row! {
    #[derive(AsChangeset)]
    #[diesel(treat_none_as_null = true)]
    #[diesel(table_name = nodes)]
    ComputeNodeRow of ComputeNode {
        #[diesel(skip_insertion)]
        id: i32,
        uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
        host: String,
        hypervisor_hostname: String,
        hypervisor_type: String,
        hypervisor_version: i32,
        host_ip: String,
        vcpus: i32,
        memory_mb: i32,
        local_gb: i32,
        vcpus_used: i32,
        memory_mb_used: i32,
        local_gb_used: i32,
        running_vms: i32,
        current_workload: i32,
        cpu_allocation_ratio: f64,
        ram_allocation_ratio: f64,
        disk_allocation_ratio: f64,
        cpu_info: String,
        service_id: Uuid as Sql,
        mapped: bool,
    }
}

impl CellDb {
    /// Returns all compute nodes, ordered by host.
    pub async fn compute_nodes(&self) -> Result<Vec<ComputeNode>, DbError> {
        self.db
            .read(|conn| {
                let ordered = nodes::table.order((nodes::host, nodes::hypervisor_hostname));
                row::load(conn, ordered.select(ComputeNodeRow::as_select()))
            })
            .await
    }

    /// Returns the compute node with this uuid.
    pub async fn compute_node(&self, uuid: Uuid) -> Result<ComputeNode, DbError> {
        self.db
            .read(move |conn| {
                let with_uuid = nodes::table.filter(nodes::uuid.eq(Sql(uuid))).select(ComputeNodeRow::as_select());
                row::first(conn, with_uuid)?.ok_or_else(|| DbError::NotFound(format!("compute node {uuid}")))
            })
            .await
    }

    /// Returns the compute node of a host.
    pub async fn compute_node_on(&self, host: &str) -> Result<Option<ComputeNode>, DbError> {
        let of_host = nodes::table.filter(nodes::host.eq(host.to_owned())).order(nodes::hypervisor_hostname);
        self.db.read(move |conn| row::first(conn, of_host.select(ComputeNodeRow::as_select()))).await
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
                    diesel::update(nodes::table.find(id)).set(ComputeNodeRow::from(node)).execute(conn)?;
                }
                None => {
                    diesel::insert_into(nodes::table).values(ComputeNodeRow::from(node)).execute(conn)?;
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
