//! The placement service: providers, inventories and allocations with generations.

mod aggregate_id;
pub mod candidates;
#[cfg(feature = "testkit")]
pub mod intercepted;
pub mod port_groups;
pub mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::Resources;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ServiceError;
pub use aggregate_id::AggregateId;

/// A provider's inventory of one resource class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Inventory {
    pub total: i64,
    pub reserved: i64,
    pub min_unit: i64,
    pub max_unit: i64,
    pub step_size: i64,
    pub allocation_ratio: f64,
}

impl Inventory {
    /// Returns the allocatable amount: (total - reserved) x ratio, rounded down.
    pub fn capacity(&self) -> i64 {
        (self.total.saturating_sub(self.reserved) as f64 * self.allocation_ratio) as i64
    }
}

impl Inventory {
    /// True if this amount can be allocated beside the used amount.
    pub fn has_room(&self, used: i64, amount: i64) -> bool {
        let free = self.capacity().saturating_sub(used);
        amount <= free && amount >= self.min_unit && amount <= self.max_unit && amount % self.step_size.max(1) == 0
    }

    /// Returns the reason why this amount cannot be allocated beside the used amount; none if it can.
    pub fn lacks(&self, used: i64, amount: i64) -> Option<String> {
        if self.has_room(used, amount) {
            return None;
        }
        let free = self.capacity().saturating_sub(used);
        if amount > free {
            return Some(format!("{amount} wanted, {} free of {}", free.max(0), self.capacity()));
        }
        if amount < self.min_unit {
            return Some(format!("{amount} wanted, at least {} can be allocated at once", self.min_unit));
        }
        if amount > self.max_unit {
            return Some(format!("{amount} wanted, at most {} can be allocated at once", self.max_unit));
        }
        Some(format!("{amount} wanted, only multiples of {} can be allocated", self.step_size.max(1)))
    }
}

/// A resource provider. A compute host's provider has the host's name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Provider {
    pub uuid: Uuid,
    pub name: String,
    pub generation: i64,
    pub inventories: BTreeMap<String, Inventory>,
    /// The used amount per class.
    pub usages: BTreeMap<String, i64>,
    pub traits: Vec<String>,
    pub aggregates: Vec<AggregateId>,
}

impl Provider {
    /// True if the provider can give this amount of a class.
    pub fn has_room(&self, class: &str, amount: i64) -> bool {
        let used = self.usages.get(class).copied().unwrap_or(0);
        self.inventories.get(class).is_some_and(|inventory| inventory.has_room(used, amount))
    }

    /// Returns the reason why the provider cannot give this amount of a class; none if it can.
    pub fn lacks(&self, class: &str, amount: i64) -> Option<String> {
        let used = self.usages.get(class).copied().unwrap_or(0);
        match self.inventories.get(class) {
            Some(inventory) => inventory.lacks(used, amount).map(|reason| format!("{class}: {reason}")),
            None => Some(format!("no inventory of {class}")),
        }
    }
}

/// A provider that meets a demand, with the amounts of the classes that every flavor takes. Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub struct Offer {
    pub provider: Arc<Provider>,
    /// The amounts that can be allocated, ratios applied.
    pub total: Resources,
    /// The amounts that are left; below zero when an inventory has shrunk.
    pub free: Resources,
}

impl Offer {
    /// Makes the offer of a provider.
    pub fn new(provider: Provider) -> Offer {
        let of = |class: &str| {
            let total = provider.inventories.get(class).map_or(0, Inventory::capacity);
            (total, total.saturating_sub(provider.usages.get(class).copied().unwrap_or(0)))
        };
        let [vcpu, memory_mb, disk_gb] = Resources::CLASSES.map(of);
        let total = Resources { vcpu: vcpu.0, memory_mb: memory_mb.0, disk_gb: disk_gb.0 };
        let free = Resources { vcpu: vcpu.1, memory_mb: memory_mb.1, disk_gb: disk_gb.1 };
        Offer { provider: Arc::new(provider), total, free }
    }
}

/// A provider below a host's own, as the host reports it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChildProvider {
    pub uuid: Uuid,
    pub name: String,
    pub parent: Uuid,
    pub inventories: BTreeMap<String, Inventory>,
    pub traits: Vec<String>,
}

/// A host's own provider and the providers below it, as the host reports them.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportedTree {
    pub uuid: Uuid,
    pub name: String,
    pub inventories: BTreeMap<String, Inventory>,
    pub children: Vec<ChildProvider>,
}

/// The allocations of one consumer: a server or a migration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Allocations {
    pub consumer: Uuid,
    /// The generation that the caller has read; none if the caller assumes a new consumer.
    pub consumer_generation: Option<i64>,
    pub project_id: String,
    pub user_id: String,
    /// `INSTANCE` or `MIGRATION`.
    pub consumer_type: String,
    /// Amounts by class, per provider. An empty map removes the consumer.
    pub allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
}

/// The total of one consumer's allocations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectAllocation {
    pub consumer: Uuid,
    pub user_id: String,
    /// By class.
    pub amounts: BTreeMap<String, i64>,
}

/// A demand on the provider of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostDemand {
    /// The room that the provider must have, by class.
    pub resources: BTreeMap<String, i64>,
    /// The traits that the provider must have.
    pub required: Vec<String>,
    /// The only provider in question; none for all.
    pub only: Option<Uuid>,
    /// The maximum number of providers in the answer.
    pub limit: usize,
    /// The index, in the order of names, of the provider at which the search begins; taken modulo the number of providers. A random index
    /// gives each provider the same chance to be in an answer that the limit cuts off.
    pub first: u64,
}

/// The placement service's interface for sagas, the scheduler and hosts.
#[async_trait]
pub trait PlacementService: Send + Sync {
    /// Creates a host's provider, or gives it these inventories and traits. Usage, inventories of other classes and further traits are kept.
    async fn ensure_provider(
        &self,
        uuid: Uuid,
        name: &str,
        inventories: BTreeMap<String, Inventory>,
        traits: Vec<String>,
    ) -> Result<(), ServiceError>;
    /// Removes the inventories and traits of a host's provider. Conflict if something is allocated from it.
    async fn empty_provider(&self, uuid: Uuid) -> Result<(), ServiceError>;
    /// Puts a host's provider, found by its name, into an aggregate or takes it out. Its other aggregates stay. [`ServiceError::NotFound`] if
    /// there is no provider.
    async fn set_member(&self, host: &str, aggregate: Uuid, is_member: bool) -> Result<(), ServiceError>;
    /// Puts hosts' providers, found by their names, into aggregates. Hosts without a provider are passed over.
    async fn add_members(&self, members: Vec<(String, Uuid)>) -> Result<(), ServiceError> {
        for (host, aggregate) in members {
            match self.set_member(&host, aggregate, true).await {
                Ok(()) | Err(ServiceError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// Makes the providers below a host's provider those that the host reports, each after its parent. Usage is kept. A provider that is no
    /// longer reported is removed. While resources of it are allocated, it stays with just these, until a later report can remove it.
    async fn ensure_children(&self, root: Uuid, children: Vec<ChildProvider>) -> Result<(), ServiceError>;
    /// Ensures the providers of several hosts. Each host's are as [`PlacementService::ensure_provider`] and
    /// [`PlacementService::ensure_children`] leave them.
    async fn ensure_trees(&self, trees: Vec<ReportedTree>) -> Result<(), ServiceError> {
        for tree in trees {
            self.ensure_provider(tree.uuid, &tree.name, tree.inventories, Vec::new()).await?;
            self.ensure_children(tree.uuid, tree.children).await?;
        }
        Ok(())
    }
    /// Returns the providers that meet the demand, in a stable order.
    async fn candidates(&self, demand: HostDemand) -> Result<Vec<Offer>, ServiceError>;
    /// Returns those of these providers that have no parent.
    async fn roots_among(&self, providers: Vec<Uuid>) -> Result<Vec<Arc<Provider>>, ServiceError>;
    /// Returns all providers with inventories and usages.
    async fn providers(&self) -> Result<Vec<Provider>, ServiceError>;
    /// Returns the providers of these roots' trees, or of all, with their parents, ordered by name.
    async fn trees(&self, roots: Option<Vec<Uuid>>) -> Result<Vec<(Provider, Option<Uuid>)>, ServiceError>;
    /// Returns a consumer's allocations; none if it has none.
    async fn allocations_of(&self, consumer: Uuid) -> Result<Option<Allocations>, ServiceError>;
    /// Returns the allocations of all consumers, for the audit.
    async fn all_allocations(&self) -> Result<Vec<Allocations>, ServiceError>;
    /// Returns the totals of a project's consumers (servers and moves), by consumer, for quotas.
    async fn held_by_project(&self, project_id: &str) -> Result<Vec<ProjectAllocation>, ServiceError>;
    /// Replaces the allocations of several consumers together or not at all. Conflict if a generation is stale or a provider would exceed
    /// its capacity.
    async fn replace_allocations(&self, fence: Fence, changes: Vec<Allocations>) -> Result<(), ServiceError>;
}
