//! The placement service: providers, inventories and allocations with generations.

mod aggregate_id;
mod embedded;
pub mod names;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ServiceError;
use crate::domain::fence::Fence;
pub use aggregate_id::AggregateId;
pub use embedded::{EmbeddedPlacement, HeldOfProvider, Identity, Usage};

/// The most of one class that an inventory holds or an allocation takes, and the bound on an inventory's units.
pub const AMOUNT_MAX: i64 = i32::MAX as i64;
/// The highest allocation ratio: the largest number in single precision.
pub const RATIO_MAX: f64 = 3.40282e38;

/// One resource class of a provider.
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
    /// What may be allocated in all: (total - reserved) x ratio, rounded down.
    pub fn capacity(&self) -> i64 {
        (self.total.saturating_sub(self.reserved) as f64 * self.allocation_ratio) as i64
    }
}

/// A resource provider; a compute host's carries the host's name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Provider {
    pub uuid: Uuid,
    pub name: String,
    pub generation: i64,
    pub inventories: BTreeMap<String, Inventory>,
    /// Used per class.
    pub usages: BTreeMap<String, i64>,
    pub traits: Vec<String>,
    pub aggregates: Vec<AggregateId>,
}

/// What one consumer (a server, or a migration) takes from which provider.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Allocations {
    pub consumer: Uuid,
    /// The generation the caller has seen; none when it believes that the consumer is new.
    pub consumer_generation: Option<i64>,
    pub project_id: String,
    pub user_id: String,
    /// `INSTANCE` or `MIGRATION`.
    pub consumer_type: String,
    /// Per provider: class and amount. Empty removes the consumer.
    pub allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
}

/// What one consumer holds in all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub consumer: Uuid,
    pub user_id: String,
    /// By class.
    pub amounts: BTreeMap<String, i64>,
}

/// What sagas, the scheduler and hosts need of placement.
#[async_trait]
pub trait PlacementService: Send + Sync {
    /// Creates the provider of a host or replaces its inventories; usage is kept.
    async fn ensure_provider(
        &self,
        uuid: Uuid,
        name: &str,
        inventories: BTreeMap<String, Inventory>,
        traits: Vec<String>,
    ) -> Result<(), ServiceError>;
    /// Providers with room for `resources` (by class) and all `required` traits, at most `limit`, in a stable order.
    async fn candidates(
        &self,
        resources: BTreeMap<String, i64>,
        required: Vec<String>,
        limit: usize,
    ) -> Result<Vec<Provider>, ServiceError>;
    /// All providers with inventories and usages.
    async fn providers(&self) -> Result<Vec<Provider>, ServiceError>;
    /// What a consumer has; none when it has nothing.
    async fn allocations_of(&self, consumer: Uuid) -> Result<Option<Allocations>, ServiceError>;
    /// Every consumer's allocations; for the audit.
    async fn all_allocations(&self) -> Result<Vec<Allocations>, ServiceError>;
    /// What the consumers of a project hold, servers and moves, by consumer; for quotas.
    async fn held_by_project(&self, project_id: &str) -> Result<Vec<Held>, ServiceError>;
    /// Replaces the allocations of several consumers at once or not at all. Conflict when a generation is stale or a
    /// provider would be allocated over its capacity.
    async fn replace_allocations(&self, fence: Fence, changes: Vec<Allocations>) -> Result<(), ServiceError>;
}
