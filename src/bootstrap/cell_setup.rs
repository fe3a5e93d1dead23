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
use crate::db::api::ApiDb;
use crate::db::cell::{CellDb, CellTxn};
use crate::domain::compute_node::ComputeNode;
use crate::domain::host_network::NetworkProvider;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::service::Service;
use crate::env::Env;
use crate::reconcilers::aggregate_members;
use crate::services::placement::{ChildProvider, Inventory, PlacementService, ReportedTree};

/// The service of a compute host.
const COMPUTE: &str = "nova-compute";
/// The number of hosts that one transaction records.
const BATCH: usize = 200;
/// The number of hosts whose resource providers are made in one call. A host with networks has several, and many cells may start at once.
const TREES: usize = 20;
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
    pub api: ApiDb,
    /// Written once the database has been opened as this deployment's; none if that is recorded already.
    pub note: Option<MarkNote>,
}

impl Setup {
    /// Tries the work now. Returns the reason if an answer takes longer than `patience` or the database is away, so that the work must be
    /// done later. The whole work may take longer: a cell with many hosts is not down.
    pub(super) async fn try_now(&self, patience: Duration) -> Result<Option<Reason>, BootstrapError> {
        match self.run(Some(patience)).await {
            Ok(()) => Ok(None),
            Err(BootstrapError::Database(DbError::Unavailable { reason, .. })) => Ok(Some(reason)),
            Err(error) => Err(error),
        }
    }

    async fn run(&self, patience: Option<Duration>) -> Result<(), BootstrapError> {
        let wait = Patience { cell: &self.cell, longest: patience };
        wait.for_answer(self.db.db().open_now()).await?;
        if let Some(note) = &self.note {
            wait.for_answer(note.write()).await?;
        }
        self.record_hosts(&wait).await?;
        let nodes = wait.for_answer(self.db.compute_nodes()).await?;
        for batch in nodes.chunks(TREES) {
            let trees = batch.iter().map(|node| self.tree(node)).collect();
            // Placement is not the cell: while it is slow, no cell is down.
            self.placement.ensure_trees(trees).await?;
        }
        // Only preferences depend on it, so no cell is down for it.
        let providers = nodes.iter().map(|node| node.uuid).collect();
        if let Err(error) = aggregate_members::add_of_hosts(&self.api, self.placement.as_ref(), providers).await {
            log::warn!(cell = self.cell.as_str(); "placement may lack hosts of aggregates: {error}. Add them with cellshift sync-aggregates.");
        }
        Ok(())
    }

    /// Makes the hosts' services and compute nodes, and changes those that are recorded otherwise.
    async fn record_hosts(&self, wait: &Patience<'_>) -> Result<(), BootstrapError> {
        let now = self.env.now();
        let mut services = self.services(wait).await?;
        // The first host comes last, as in the mappings.
        let registrations = self.hosts.iter().rev().map(|host| self.service(now, host));
        let other: Vec<Service> =
            registrations.filter(|service| !services.get(&service.host).is_some_and(|record| is_alike(record, service))).collect();
        for batch in other.chunks(BATCH) {
            let register = batch.iter().cloned().fold(CellTxn::new(), CellTxn::register_service);
            wait.for_answer(self.db.apply_unfenced(register)).await?;
        }
        if !other.is_empty() {
            services = self.services(wait).await?;
        }
        let nodes = wait.for_answer(self.db.compute_nodes()).await?.into_iter();
        let nodes: BTreeMap<String, ComputeNode> = nodes.map(|node| (node.host.clone(), node)).collect();
        let hosts: Vec<&String> = self.hosts.iter().rev().collect();
        for batch in hosts.chunks(BATCH) {
            let expected = batch.iter().filter_map(|host| Some(self.compute_node(now, host, services.get(*host)?.uuid)));
            let other = expected.filter(|node| !nodes.get(&node.host).is_some_and(|record| is_the_same_but_for_usage(record, node)));
            let save = other.fold(CellTxn::new(), CellTxn::save_compute_node);
            let recounted = batch.iter().map(|host| (*host).clone()).collect();
            wait.for_answer(self.db.apply_unfenced(save.recount_usage(recounted))).await?;
        }
        Ok(())
    }

    /// Returns the recorded compute services, by host.
    async fn services(&self, wait: &Patience<'_>) -> Result<BTreeMap<String, Service>, BootstrapError> {
        let services = wait.for_answer(self.db.services()).await?.into_iter().filter(|service| service.binary == COMPUTE);
        Ok(services.map(|service| (service.host.clone(), service)).collect())
    }

    fn tree(&self, node: &ComputeNode) -> ReportedTree {
        ReportedTree {
            uuid: node.uuid,
            name: node.host.clone(),
            inventories: inventories(&self.compute),
            children: children(&self.compute, node.uuid, &node.host),
        }
    }

    fn service(&self, now: chrono::DateTime<chrono::Utc>, host: &str) -> Service {
        Service::new(self.env.uuid(), host, COMPUTE, &self.cell, now)
    }

    fn compute_node(&self, now: chrono::DateTime<chrono::Utc>, host: &str, service: Uuid) -> ComputeNode {
        let compute = &self.compute;
        ComputeNode {
            hypervisor_version: HYPERVISOR_VERSION,
            vcpus: whole(compute.vcpus),
            memory_mb: whole(compute.memory_mb),
            local_gb: whole(compute.disk_gb),
            cpu_allocation_ratio: compute.cpu_allocation_ratio,
            ram_allocation_ratio: compute.ram_allocation_ratio,
            disk_allocation_ratio: compute.disk_allocation_ratio,
            ..ComputeNode::new(self.env.uuid(), host, service, now)
        }
    }
}

#[async_trait]
impl CellSetup for Setup {
    async fn set_up(&self) -> Result<(), DbError> {
        self.run(None).await.map_err(|error| match error {
            BootstrapError::Database(error @ DbError::Unavailable { .. }) => error,
            // The service runs already, so any other error only delays this cell.
            other => DbError::Unavailable { name: self.cell.clone(), reason: reason!("{other}") },
        })
    }
}

/// The longest wait for one answer of the cell's database; none if any wait is right.
struct Patience<'a> {
    cell: &'a str,
    longest: Option<Duration>,
}

impl Patience<'_> {
    async fn for_answer<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, BootstrapError>
    where
        BootstrapError: From<E>,
    {
        let Some(longest) = self.longest else { return Ok(call.await?) };
        let Ok(answer) = tokio::time::timeout(longest, call).await else {
            return Err(DbError::Unavailable { name: self.cell.to_owned(), reason: reason!("no answer within {longest:?}") }.into());
        };
        Ok(answer?)
    }
}

/// True if registering the service would change nothing.
fn is_alike(record: &Service, service: &Service) -> bool {
    let registered = |service: &Service| (service.version, service.topic.clone(), service.availability_zone.clone());
    registered(record) == registered(service)
}

fn is_the_same_but_for_usage(record: &ComputeNode, node: &ComputeNode) -> bool {
    let expected = ComputeNode {
        id: record.id,
        uuid: record.uuid,
        created_at: record.created_at,
        updated_at: record.updated_at,
        vcpus_used: record.vcpus_used,
        memory_mb_used: record.memory_mb_used,
        local_gb_used: record.local_gb_used,
        running_vms: record.running_vms,
        current_workload: record.current_workload,
        ..node.clone()
    };
    *record == expected
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
