//! The records of a cell's hosts: services and compute nodes in the cell's database, providers in placement. Hosts of this process and hosts
//! whose agents report are recorded alike, each by its own facts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::BootstrapError;
use crate::actors::agents::{HostRecorder, ReportedHost};
use crate::config::Compute;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::cell::{CellDb, CellTxn};
use crate::domain::compute_node::ComputeNode;
use crate::domain::flavor::Resources;
use crate::domain::host_network::{HostNetwork, NetworkProvider};
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
/// The maximum length of a trait's name.
const NAME_MAX: usize = 255;

/// A host with the facts that its records have.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RecordedHost {
    pub name: String,
    /// The capacity before ratios.
    pub capacity: Resources,
    /// The traits of its provider.
    pub traits: Vec<String>,
    pub network: HostNetwork,
}

impl RecordedHost {
    /// Returns a host of this process, which has what the configuration says.
    pub fn simulated(compute: &Compute, name: String) -> RecordedHost {
        let network = compute.networks().of(&name);
        RecordedHost { name, capacity: compute.capacity(), traits: Vec::new(), network }
    }

    /// Returns a host with the facts that its agent reports. Its network is as the configuration says, without functions that it has not.
    fn reported(compute: &Compute, host: &ReportedHost) -> RecordedHost {
        let (facts, usual) = (&host.facts, compute.networks().of(&host.name));
        let network = if facts.functions.is_empty() { usual.without_functions() } else { usual };
        let Resources { vcpu, memory_mb, disk_gb } = facts.capacity;
        let capacity = Resources { vcpu: vcpu.max(0), memory_mb: memory_mb.max(0), disk_gb: disk_gb.max(0) };
        let (traits, others): (Vec<String>, Vec<String>) = facts.traits.iter().cloned().partition(|name| is_trait(name));
        if !others.is_empty() {
            log::warn!(host = host.name.as_str(); "the agent of host {} reports traits that cannot be recorded: {others:?}", host.name);
        }
        RecordedHost { name: host.name.clone(), capacity, traits, network }
    }
}

/// The places in which hosts of a cell are recorded.
#[derive(Clone)]
pub(super) struct HostRecords {
    pub env: Env,
    pub compute: Compute,
    /// The cell's name.
    pub cell: String,
    pub db: CellDb,
    pub placement: Arc<dyn PlacementService>,
    pub api: ApiDb,
}

impl HostRecords {
    /// Records the hosts, which are mapped to the cell, and leaves what is recorded alike. Can be repeated, also if it was half done.
    pub async fn record(&self, hosts: &[RecordedHost], wait: &Patience<'_>) -> Result<(), BootstrapError> {
        self.record_in_cell(hosts, wait).await?;
        let by_name: BTreeMap<&str, &RecordedHost> = hosts.iter().map(|host| (host.name.as_str(), host)).collect();
        let nodes = wait.for_answer(self.db.compute_nodes()).await?;
        let nodes: Vec<(&ComputeNode, &RecordedHost)> =
            nodes.iter().filter_map(|node| Some((node, *by_name.get(node.host.as_str())?))).collect();
        for batch in nodes.chunks(TREES) {
            let trees = batch.iter().map(|(node, host)| self.tree(node, host)).collect();
            // Placement is not the cell: while it is slow, no cell is down.
            self.placement.ensure_trees(trees).await?;
        }
        for (node, host) in nodes.iter().filter(|(_, host)| !host.traits.is_empty()) {
            let inventories = inventories(&host.capacity, &self.compute);
            self.placement.ensure_provider(node.uuid, &node.host, inventories, host.traits.clone()).await?;
        }
        // Only preferences depend on it, so no cell is down for it.
        let providers = nodes.iter().map(|(node, _)| node.uuid).collect();
        if let Err(error) = aggregate_members::add_of_hosts(&self.api, self.placement.as_ref(), providers).await {
            log::warn!(cell = self.cell.as_str(); "placement may lack hosts of aggregates: {error}. Add them with cellshift sync-aggregates.");
        }
        Ok(())
    }

    /// Makes the hosts' services and compute nodes, and changes those that are recorded otherwise.
    async fn record_in_cell(&self, hosts: &[RecordedHost], wait: &Patience<'_>) -> Result<(), BootstrapError> {
        let now = self.env.now();
        let mut services = self.services(wait).await?;
        // The first host comes last, as in the mappings.
        let registrations = hosts.iter().rev().map(|host| self.service(now, &host.name));
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
        let hosts: Vec<&RecordedHost> = hosts.iter().rev().collect();
        for batch in hosts.chunks(BATCH) {
            let expected = batch.iter().filter_map(|host| Some(self.compute_node(now, host, services.get(&host.name)?.uuid)));
            let other = expected.filter(|node| !nodes.get(&node.host).is_some_and(|record| is_the_same_but_for_usage(record, node)));
            let save = other.fold(CellTxn::new(), CellTxn::save_compute_node);
            let recounted = batch.iter().map(|host| host.name.clone()).collect();
            wait.for_answer(self.db.apply_unfenced(save.recount_usage(recounted))).await?;
        }
        Ok(())
    }

    /// Returns the recorded compute services, by host.
    async fn services(&self, wait: &Patience<'_>) -> Result<BTreeMap<String, Service>, BootstrapError> {
        let services = wait.for_answer(self.db.services()).await?.into_iter().filter(|service| service.binary == COMPUTE);
        Ok(services.map(|service| (service.host.clone(), service)).collect())
    }

    fn tree(&self, node: &ComputeNode, host: &RecordedHost) -> ReportedTree {
        ReportedTree {
            uuid: node.uuid,
            name: node.host.clone(),
            inventories: inventories(&host.capacity, &self.compute),
            children: children(&host.network, node.uuid, &node.host),
        }
    }

    fn service(&self, now: DateTime<Utc>, host: &str) -> Service {
        Service::new(self.env.uuid(), host, COMPUTE, &self.cell, now)
    }

    fn compute_node(&self, now: DateTime<Utc>, host: &RecordedHost, service: Uuid) -> ComputeNode {
        let (compute, capacity) = (&self.compute, &host.capacity);
        ComputeNode {
            hypervisor_version: HYPERVISOR_VERSION,
            vcpus: whole(capacity.vcpu),
            memory_mb: whole(capacity.memory_mb),
            local_gb: whole(capacity.disk_gb),
            cpu_allocation_ratio: compute.cpu_allocation_ratio,
            ram_allocation_ratio: compute.ram_allocation_ratio,
            disk_allocation_ratio: compute.disk_allocation_ratio,
            ..ComputeNode::new(self.env.uuid(), &host.name, service, now)
        }
    }
}

/// Records hosts as their agents report them.
pub(super) struct AgentRecorder {
    pub records: HostRecords,
    /// The longest wait for one answer of the cell's database.
    pub patience: Duration,
}

#[async_trait]
impl HostRecorder for AgentRecorder {
    async fn record(&self, hosts: &[ReportedHost]) -> Result<(), Reason> {
        let hosts: Vec<RecordedHost> = hosts.iter().map(|host| RecordedHost::reported(&self.records.compute, host)).collect();
        let wait = Patience { cell: &self.records.cell, longest: Some(self.patience) };
        self.records.record(&hosts, &wait).await.map_err(Reason::inside)
    }
}

/// The longest wait for one answer of the cell's database; none if any wait is right.
pub(super) struct Patience<'a> {
    pub cell: &'a str,
    pub longest: Option<Duration>,
}

impl Patience<'_> {
    /// Returns the answer, or an error after the longest wait.
    pub async fn for_answer<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, BootstrapError>
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

fn inventories(capacity: &Resources, compute: &Compute) -> BTreeMap<String, Inventory> {
    [
        ("VCPU", inventory(capacity.vcpu, compute.cpu_allocation_ratio)),
        ("MEMORY_MB", inventory(capacity.memory_mb, compute.ram_allocation_ratio)),
        ("DISK_GB", inventory(capacity.disk_gb, compute.disk_allocation_ratio)),
    ]
    .into_iter()
    .map(|(class, inventory)| (class.to_owned(), inventory))
    .collect()
}

fn inventory(total: i64, allocation_ratio: f64) -> Inventory {
    Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio }
}

/// Returns the providers of the host's network agents, below its own.
fn children(network: &HostNetwork, root: Uuid, host: &str) -> Vec<ChildProvider> {
    let child = |provider: NetworkProvider| ChildProvider {
        uuid: provider.id,
        name: provider.name,
        parent: provider.parent.unwrap_or(root),
        inventories: provider.totals.into_iter().map(|(class, total)| (class, inventory(total, 1.0))).collect(),
        traits: provider.traits,
    };
    network.providers(host).into_iter().map(child).collect()
}

fn whole(amount: i64) -> i32 {
    i32::try_from(amount).unwrap_or(i32::MAX)
}

/// True for the name of a trait, as placement takes it.
fn is_trait(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
