//! The work of each start in a cell's database: the schema is brought up to date, and the cell's hosts are recorded there and in placement.
//! If the database does not answer, the cell is down, and the work is done when it answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::BootstrapError;
use super::deployment::MarkNote;
use crate::actors::cell::CellSetup;
use crate::config::Compute;
use crate::db::DbError;
use crate::db::cell::compute_nodes::ComputeNode;
use crate::db::cell::services::{SERVICE_VERSION, Service};
use crate::db::cell::{CellDb, CellTxn};
use crate::domain::host_network::NetworkProvider;
use crate::env::Env;
use crate::services::placement::{ChildProvider, Inventory, PlacementService, ReportedTree};

/// The service of a compute host.
const COMPUTE: &str = "nova-compute";
/// The number of hosts that one transaction records.
const BATCH: usize = 200;
/// The simulated hypervisor's version, in libvirt's encoding.
const HYPERVISOR_VERSION: i32 = 1_000_000;

/// The part of a start that concerns a cell. It can be repeated, also if it was half done.
pub(super) struct Setup {
    pub env: Env,
    pub compute: Compute,
    /// The cell's name.
    pub cell: String,
    pub db: CellDb,
    /// The cell's hosts, all mapped.
    pub hosts: Vec<String>,
    pub placement: Arc<dyn PlacementService>,
    /// Written once the database has been opened as this deployment's; none if that is recorded already.
    pub note: Option<MarkNote>,
}

impl Setup {
    /// Tries the work now. Returns the reason if the database does not answer in time, so that the work must be done later.
    pub(super) async fn try_now(&self, patience: Duration) -> Result<Option<String>, BootstrapError> {
        match tokio::time::timeout(patience, self.run()).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(BootstrapError::Database(DbError::Unavailable { reason, .. }))) => Ok(Some(reason)),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Some(format!("no answer within {patience:?}"))),
        }
    }

    async fn run(&self) -> Result<(), BootstrapError> {
        self.db.db().open_now().await?;
        if let Some(note) = &self.note {
            note.write().await?;
        }
        // The first host comes last, as in the mappings.
        let hosts: Vec<&String> = self.hosts.iter().rev().collect();
        for batch in hosts.chunks(BATCH) {
            self.ensure_records(batch).await?;
        }
        let tree = |node: ComputeNode| ReportedTree {
            uuid: node.uuid,
            inventories: inventories(&self.compute),
            children: children(&self.compute, node.uuid, &node.host),
            name: node.host,
        };
        Ok(self.placement.ensure_trees(self.db.compute_nodes().await?.into_iter().map(tree).collect()).await?)
    }

    /// Makes the hosts' services and compute nodes.
    async fn ensure_records(&self, hosts: &[&String]) -> Result<(), BootstrapError> {
        let now = self.env.now();
        let services = hosts.iter().fold(CellTxn::new(), |txn, host| txn.register_service(self.service(now, host)));
        self.db.apply_unfenced(services).await?;
        let known = self.db.services().await?.into_iter().filter(|service| service.binary == COMPUTE);
        let known: BTreeMap<String, Uuid> = known.map(|service| (service.host, service.uuid)).collect();
        let nodes = hosts.iter().filter_map(|host| Some(compute_node(&self.compute, now, host, self.env.uuid(), *known.get(*host)?)));
        let nodes = nodes.fold(CellTxn::new(), CellTxn::save_compute_node);
        let recounted = hosts.iter().map(|host| (*host).clone()).collect();
        Ok(self.db.apply_unfenced(nodes.recount_usage(recounted)).await?)
    }

    fn service(&self, now: chrono::DateTime<chrono::Utc>, host: &str) -> Service {
        Service {
            id: 0,
            uuid: self.env.uuid(),
            created_at: now,
            updated_at: None,
            host: host.to_owned(),
            binary: COMPUTE.into(),
            topic: "compute".into(),
            availability_zone: self.cell.clone(),
            disabled: false,
            disabled_reason: None,
            forced_down: false,
            last_seen_up: None,
            report_count: 0,
            version: SERVICE_VERSION,
        }
    }
}

#[async_trait]
impl CellSetup for Setup {
    async fn set_up(&self) -> Result<(), DbError> {
        self.run().await.map_err(|error| match error {
            BootstrapError::Database(error @ DbError::Unavailable { .. }) => error,
            // The service runs already, so any other error only delays this cell.
            other => DbError::Unavailable { name: self.cell.clone(), reason: other.to_string() },
        })
    }
}

fn compute_node(compute: &Compute, now: chrono::DateTime<chrono::Utc>, host: &str, uuid: Uuid, service: Uuid) -> ComputeNode {
    ComputeNode {
        hypervisor_version: HYPERVISOR_VERSION,
        vcpus: whole(compute.vcpus),
        memory_mb: whole(compute.memory_mb),
        local_gb: whole(compute.disk_gb),
        cpu_allocation_ratio: compute.cpu_allocation_ratio,
        ram_allocation_ratio: compute.ram_allocation_ratio,
        disk_allocation_ratio: compute.disk_allocation_ratio,
        ..ComputeNode::new(uuid, host, service, now)
    }
}

fn inventories(compute: &Compute) -> BTreeMap<String, Inventory> {
    [
        ("VCPU", inventory(compute.vcpus.into(), compute.cpu_allocation_ratio)),
        ("MEMORY_MB", inventory(compute.memory_mb.into(), compute.ram_allocation_ratio)),
        ("DISK_GB", inventory(compute.disk_gb.into(), compute.disk_allocation_ratio)),
    ]
    .into_iter()
    .map(|(class, inventory)| (class.to_owned(), inventory))
    .collect()
}

fn inventory(total: i64, allocation_ratio: f64) -> Inventory {
    Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio }
}

/// Returns the providers of the host's network agents, below its own.
fn children(compute: &Compute, root: Uuid, host: &str) -> Vec<ChildProvider> {
    let child = |provider: NetworkProvider| ChildProvider {
        uuid: provider.id,
        name: provider.name,
        parent: provider.parent.unwrap_or(root),
        inventories: provider.totals.into_iter().map(|(class, total)| (class, inventory(total, 1.0))).collect(),
        traits: provider.traits,
    };
    compute.networks().of(host).providers(host).into_iter().map(child).collect()
}

fn whole(amount: u32) -> i32 {
    i32::try_from(amount).unwrap_or(i32::MAX)
}
