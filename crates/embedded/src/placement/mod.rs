//! The placement service, in this process and over the services database: who offers which amounts of what, and who has taken how much of it.
//!
//! Each resource of the Placement API has a folder. Its `mod.rs` has the rules, as methods of [`EmbeddedPlacement`]; `records.rs` the rows and
//! statements; `routes.rs` the handlers with their schemas. The files beside the folders serve all resources:
//!
//! - [`names`] are the built-in traits and resource classes.
//! - `mirror` keeps all providers in memory, for the choice of those with room and to show trees; [`within`] is placement's part of another
//!   embedded service's transaction.
//! - [`routes`] registers all paths and has what handlers share; `body` reads requests, `query` their queries, `answers` adds headers, and
//!   `versions` tells the versions.
//! - `schema` declares the tables, and `statements` makes statements that several have alike.
//!
//! Each change of a provider or of its allocations writes the provider's row first in its transaction, and raises its generation where
//! Placement does. On PostgreSQL this makes writers of one provider wait for each other; SQLite has a single writer. Capacity is therefore
//! always checked against committed rows.

mod aggregates;
pub mod allocation_candidates;
mod allocations;
mod answers;
mod body;
mod inventories;
mod mirror;
pub mod names;
mod query;
mod reshaper;
mod resource_classes;
mod resource_providers;
pub mod routes;
mod schema;
mod statements;
mod traits;
mod usages;
mod versions;
pub(crate) mod within;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_store::columns::read_id;
use cellshift_store::mirror::Mirror;
use cellshift_store::{Db, Of};
use uuid::Uuid;

use crate::ServiceError;
use crate::transaction::Transactions;
pub use allocations::HeldOfProvider;
use allocations::records as consumption;
pub use cellshift_neighbours::placement::{
    AggregateId, Allocations, ChildProvider, HostDemand, Inventory, Offer, PlacementService, ProjectAllocation, Provider, ReportedTree,
    candidates, port_groups, tree,
};
pub use inventories::Put;
use mirror::Providers;
pub use reshaper::Reshaped;
pub use resource_providers::Identity;
use resource_providers::children;
use resource_providers::records as provider_rows;
use resource_providers::reported::{self, Stored};
pub use usages::Usage;

/// The maximum amount of one class in an inventory or an allocation, and the bound of an inventory's units.
pub const AMOUNT_MAX: i64 = i32::MAX as i64;
/// The maximum allocation ratio: the largest number in single precision.
pub const RATIO_MAX: f64 = 3.40282e38;
/// The consumer type of allocations that a client made before consumers had types (placement 1.38).
pub const UNTYPED: &str = "unknown";

const SERVICE: &str = "placement";

/// The placement service in this process. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedPlacement {
    db: Db,
    /// All providers in memory.
    providers: Mirror<Providers>,
}

impl Transactions for EmbeddedPlacement {
    const SERVICE: &'static str = SERVICE;

    fn database(&self) -> &Db {
        &self.db
    }
}

impl EmbeddedPlacement {
    /// Makes placement over the services database.
    pub fn new(db: Db) -> EmbeddedPlacement {
        EmbeddedPlacement { db, providers: Mirror::default() }
    }
}

#[async_trait]
impl PlacementService for EmbeddedPlacement {
    async fn ensure_provider(
        &self,
        uuid: Uuid,
        name: &str,
        inventories: BTreeMap<String, Inventory>,
        traits: Vec<String>,
    ) -> Result<(), ServiceError> {
        let name = name.to_owned();
        let same = {
            let (name, inventories, traits) = (name.clone(), inventories.clone(), traits.clone());
            self.read(move |conn| Ok(Stored::read(conn, &[uuid])?.has(uuid, &name, &inventories, &traits))).await?
        };
        // Hosts report repeatedly; an unchanged report costs no write and no generation.
        if same {
            return Ok(());
        }
        self.write(None, move |conn| resource_providers::ensure(conn, uuid, &name, &inventories, &traits)).await
    }

    async fn empty_provider(&self, uuid: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| resource_providers::empty(conn, uuid)).await
    }

    async fn set_member(&self, host: &str, aggregate: Uuid, is_member: bool) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(None, move |conn| aggregates::set_member(conn, &host, aggregate, is_member)).await
    }

    async fn add_members(&self, members: Vec<(String, Uuid)>) -> Result<(), ServiceError> {
        for batch in members.chunks(reported::BATCH) {
            let batch = batch.to_vec();
            self.write(None, move |conn| aggregates::add_members(conn, &batch)).await?;
        }
        Ok(())
    }

    async fn ensure_children(&self, root: Uuid, children: Vec<ChildProvider>) -> Result<(), ServiceError> {
        let reported = children.clone();
        if self.read(move |conn| Ok(Stored::read(conn, &[root])?.has_below(root, &reported))).await? {
            return Ok(());
        }
        self.write(None, move |conn| children::ensure(conn, root, &children)).await
    }

    /// Makes the providers of new hosts, several hosts in one transaction: nobody holds or claims them yet, so the order of locks does not
    /// matter. Changes those of known hosts one after the other.
    async fn ensure_trees(&self, trees: Vec<ReportedTree>) -> Result<(), ServiceError> {
        let (new, changed) = self.read(move |conn| reported::sort(conn, trees)).await?;
        for batch in new.chunks(reported::BATCH) {
            let batch = batch.to_vec();
            self.write(None, move |conn| reported::make(conn, &batch)).await?;
        }
        for tree in changed {
            self.ensure_provider(tree.uuid, &tree.name, tree.inventories, Vec::new()).await?;
            self.ensure_children(tree.uuid, tree.children).await?;
        }
        Ok(())
    }

    async fn candidates(&self, demand: HostDemand) -> Result<Vec<Offer>, ServiceError> {
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, |mirror| mirror.candidates(&demand))?)).await
    }

    async fn roots_among(&self, of: Vec<Uuid>) -> Result<Vec<Arc<Provider>>, ServiceError> {
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, |mirror| mirror.roots_among(&of))?)).await
    }

    async fn providers(&self) -> Result<Vec<Provider>, ServiceError> {
        self.read(|conn| {
            let rows = provider_rows::list(conn, Of::All)?;
            Ok(resource_providers::assemble(conn, rows, Of::All)?)
        })
        .await
    }

    async fn trees(&self, roots: Option<Vec<Uuid>>) -> Result<Vec<(Provider, Option<Uuid>)>, ServiceError> {
        let Some(roots) = roots else { return self.read(|conn| Ok(resource_providers::all(conn)?)).await };
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, |mirror| mirror.trees(&roots))?)).await
    }

    async fn allocations_of(&self, consumer: Uuid) -> Result<Option<Allocations>, ServiceError> {
        self.read(move |conn| Ok(allocations::of_consumer(conn, consumer)?)).await
    }

    async fn all_allocations(&self) -> Result<Vec<Allocations>, ServiceError> {
        self.read(|conn| Ok(allocations::all(conn)?)).await
    }

    async fn held_by_project(&self, project_id: &str) -> Result<Vec<ProjectAllocation>, ServiceError> {
        let project = project_id.to_owned();
        self.read(move |conn| {
            let mut held: Vec<ProjectAllocation> = Vec::new();
            for row in consumption::of_project(conn, &project)? {
                let consumer = read_id("allocations.consumer_uuid", &row.consumer_uuid)?;
                if held.last().is_none_or(|last| last.consumer != consumer) {
                    held.push(ProjectAllocation { consumer, user_id: row.user_id, amounts: BTreeMap::new() });
                }
                if let Some(last) = held.last_mut() {
                    let sum = last.amounts.entry(row.resource_class).or_insert(0);
                    *sum = sum.saturating_add(row.used);
                }
            }
            Ok(held)
        })
        .await
    }

    async fn replace_allocations(&self, fence: Fence, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.write(Some(fence), move |conn| allocations::replace(conn, &changes, allocations::Repeat::Fine)).await
    }
}
