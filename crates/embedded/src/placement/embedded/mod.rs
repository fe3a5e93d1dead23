//! Placement over the services database. `providers` writes inventories, `allocate` allocations, `catalogue` names; `mirror` keeps all
//! providers in memory for the choice of those with room.
//!
//! Each change of a provider or of its allocations writes the provider's row first in its transaction, and raises its generation where
//! Placement does. On PostgreSQL this makes writers of one provider wait for each other; SQLite has a single writer. Capacity is therefore
//! always checked against committed rows.

mod allocate;
mod catalogue;
mod children;
mod mirror;
mod providers;
mod reported;
mod reshape;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_children;
pub(crate) mod within;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_store::mirror::Mirror;
use cellshift_store::{Conn, Db, DbError};
use uuid::Uuid;

use super::{Allocations, ChildProvider, HostDemand, Inventory, Offer, PlacementService, ProjectAllocation, Provider, ReportedTree};
use crate::ServiceError;
use crate::records::placement::allocations as consumption;
use crate::records::placement::providers::{self as offered, Of};
use crate::records::read_id;
use crate::transaction::Transactions;
use mirror::Providers;
pub use providers::{Identity, Put};
use reported::Stored;
pub use reshape::Reshaped;

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

    /// Replaces the allocations of several consumers together or not at all, for an API caller. Each generation must be the stored one,
    /// even if nothing would change.
    pub async fn put_allocations(&self, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.write(None, move |conn| allocate::replace(conn, &changes, allocate::Repeat::Refused)).await
    }

    /// Replaces inventories and allocations together or not at all: what is allocated moves with the inventory that it is of.
    pub async fn reshape(&self, providers: BTreeMap<Uuid, Reshaped>, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.write(None, move |conn| reshape::reshape(conn, &providers, &changes)).await
    }

    /// Removes a consumer's allocations, at any generation.
    pub async fn delete_allocations(&self, consumer: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| allocate::remove(conn, consumer)).await
    }

    /// Returns the allocations from a provider, by consumer.
    pub async fn allocations_on(&self, provider: Uuid) -> Result<BTreeMap<Uuid, HeldOfProvider>, ServiceError> {
        self.read(move |conn| {
            let mut by_consumer: BTreeMap<Uuid, HeldOfProvider> = BTreeMap::new();
            for (row, generation) in consumption::of_provider(conn, &provider.to_string())? {
                let consumer = read_id("allocations.consumer_uuid", &row.consumer_uuid)?;
                let held = by_consumer.entry(consumer).or_default();
                held.generation = generation;
                held.amounts.insert(row.resource_class, row.used);
            }
            Ok(by_consumer)
        })
        .await
    }

    /// Returns the usage of a project, or of one of its users: by consumer type, the number of consumers and the sums by class.
    pub async fn usages(&self, project: String, user: Option<String>) -> Result<BTreeMap<String, Usage>, ServiceError> {
        self.read(move |conn| {
            let mut usages: BTreeMap<String, Usage> = BTreeMap::new();
            let mut consumers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for row in consumption::of_project(conn, &project)? {
                if user.as_ref().is_some_and(|wanted| *wanted != row.user_id) {
                    continue;
                }
                consumers.entry(row.consumer_type.clone()).or_default().insert(row.consumer_uuid);
                let sum = usages.entry(row.consumer_type).or_default().sums.entry(row.resource_class).or_insert(0);
                *sum = sum.saturating_add(row.used);
            }
            for (kind, usage) in &mut usages {
                usage.consumers = consumers.get(kind).map_or(0, BTreeSet::len);
            }
            Ok(usages)
        })
        .await
    }
}

/// A consumer's amounts from one provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldOfProvider {
    /// The consumer's generation.
    pub generation: i64,
    /// By class.
    pub amounts: BTreeMap<String, i64>,
}

/// The usage of all consumers of one type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub consumers: usize,
    pub sums: BTreeMap<String, i64>,
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
        self.write(None, move |conn| providers::ensure(conn, uuid, &name, &inventories, &traits)).await
    }

    async fn empty_provider(&self, uuid: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| providers::empty(conn, uuid)).await
    }

    async fn set_member(&self, host: &str, aggregate: Uuid, is_member: bool) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(None, move |conn| providers::set_member(conn, &host, aggregate, is_member)).await
    }

    async fn add_members(&self, members: Vec<(String, Uuid)>) -> Result<(), ServiceError> {
        for batch in members.chunks(reported::BATCH) {
            let batch = batch.to_vec();
            self.write(None, move |conn| providers::add_members(conn, &batch)).await?;
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
        self.read(move |conn| Ok(providers.look(conn, |known| known.candidates(&demand))?)).await
    }

    async fn roots_among(&self, of: Vec<Uuid>) -> Result<Vec<Arc<Provider>>, ServiceError> {
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, |known| known.roots_among(&of))?)).await
    }

    async fn providers(&self) -> Result<Vec<Provider>, ServiceError> {
        self.read(|conn| {
            let rows = offered::list(conn, Of::All)?;
            Ok(providers::assemble(conn, rows, Of::All)?)
        })
        .await
    }

    async fn trees(&self, roots: Option<Vec<Uuid>>) -> Result<Vec<(Provider, Option<Uuid>)>, ServiceError> {
        let Some(roots) = roots else { return self.read(|conn| Ok(providers::all(conn)?)).await };
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, |known| known.trees(&roots))?)).await
    }

    async fn allocations_of(&self, consumer: Uuid) -> Result<Option<Allocations>, ServiceError> {
        self.read(move |conn| Ok(allocate::of_consumer(conn, consumer)?)).await
    }

    async fn all_allocations(&self) -> Result<Vec<Allocations>, ServiceError> {
        self.read(|conn| Ok(all_allocations(conn)?)).await
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
        self.write(Some(fence), move |conn| allocate::replace(conn, &changes, allocate::Repeat::Fine)).await
    }
}

fn all_allocations(conn: &mut Conn) -> Result<Vec<Allocations>, DbError> {
    let mut taken: BTreeMap<String, Vec<consumption::AllocationRow>> = BTreeMap::new();
    for row in consumption::all(conn)? {
        taken.entry(row.consumer_uuid.clone()).or_default().push(row);
    }
    let mut all = Vec::new();
    for consumer in consumption::consumers_all(conn)? {
        let rows = taken.remove(&consumer.uuid).unwrap_or_default();
        all.push(allocate::from_rows(consumer, rows)?);
    }
    Ok(all)
}
