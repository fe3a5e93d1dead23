//! All providers in memory, for the choice of those with room, and to show trees. The claim is judged by the database.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::super::{HostDemand, Provider};
use super::providers::with_parents;
use crate::db::mirror::Mirrored;
use crate::db::services::placement::providers as offered;
use crate::db::services::read_id;
use crate::db::{Conn, DbError, Of};

const EVERYWHERE: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];

/// All providers with inventories, usages, traits and aggregates.
#[derive(Default)]
pub(super) struct Providers {
    by_name: BTreeMap<String, Known>,
    places: HashMap<Uuid, Place>,
}

/// A provider, and what it has left of the classes that every host has: most full hosts are passed over by these alone.
struct Known {
    provider: Arc<Provider>,
    free: [i64; 3],
}

impl Known {
    fn new(provider: Provider) -> Known {
        let free = EVERYWHERE.map(|class| {
            let used = provider.usages.get(class).copied().unwrap_or(0);
            provider.inventories.get(class).map_or(0, |inventory| inventory.capacity().saturating_sub(used))
        });
        Known { provider: Arc::new(provider), free }
    }
}

/// A provider's key in `by_name`, and its parent.
struct Place {
    name: String,
    parent: Option<Uuid>,
}

impl Providers {
    /// Returns the providers that meet the demand, ordered by name.
    pub(super) fn candidates(&self, demand: &HostDemand) -> Vec<Arc<Provider>> {
        let wanted: Vec<(&String, i64)> =
            demand.resources.iter().filter(|(_, amount)| **amount > 0).map(|(class, amount)| (class, *amount)).collect();
        let least = EVERYWHERE.map(|class| demand.resources.get(class).copied().unwrap_or(0));
        let meets = |known: &&Known| {
            known.free.iter().zip(least).all(|(free, wanted)| wanted <= 0 || wanted <= *free)
                && wanted.iter().all(|(class, amount)| known.provider.has_room(class, *amount))
                && demand.required.iter().all(|name| known.provider.traits.contains(name))
        };
        let provider = |known: &Known| Arc::clone(&known.provider);
        match demand.only {
            Some(only) => self.get(only).into_iter().filter(meets).take(demand.limit).map(provider).collect(),
            None => self.by_name.values().filter(meets).take(demand.limit).map(provider).collect(),
        }
    }

    /// Returns those of these providers that have no parent.
    pub(super) fn roots_among(&self, providers: &[Uuid]) -> Vec<Arc<Provider>> {
        let is_root = |provider: &&Uuid| self.places.get(provider).is_some_and(|place| place.parent.is_none());
        providers.iter().filter(is_root).filter_map(|provider| Some(Arc::clone(&self.get(*provider)?.provider))).collect()
    }

    /// Returns all providers with their parents, ordered by name.
    pub(super) fn all(&self) -> Vec<(Arc<Provider>, Option<Uuid>)> {
        self.by_name.values().map(|known| (Arc::clone(&known.provider), self.parent_of(known))).collect()
    }

    /// Returns the providers of these roots' trees with their parents, ordered by name.
    pub(super) fn trees(&self, roots: &[Uuid]) -> Vec<(Provider, Option<Uuid>)> {
        let mut inside: HashSet<Uuid> = roots.iter().copied().collect();
        // A pass for each level. A circle cannot be stored, and adds nothing.
        loop {
            let is_below = |place: &Place| place.parent.is_some_and(|above| inside.contains(&above));
            let below = self.places.iter().filter(|(uuid, place)| is_below(place) && !inside.contains(*uuid));
            let found: Vec<Uuid> = below.map(|(uuid, _)| *uuid).collect();
            if found.is_empty() {
                break;
            }
            inside.extend(found);
        }
        let kept = self.by_name.values().filter(|known| inside.contains(&known.provider.uuid));
        kept.map(|known| (Provider::clone(&known.provider), self.parent_of(known))).collect()
    }

    fn parent_of(&self, known: &Known) -> Option<Uuid> {
        self.places.get(&known.provider.uuid).and_then(|place| place.parent)
    }

    fn get(&self, provider: Uuid) -> Option<&Known> {
        self.by_name.get(&self.places.get(&provider)?.name)
    }
}

impl Mirrored for Providers {
    fn read(&mut self, conn: &mut Conn, of: Of<'_>) -> Result<(), DbError> {
        let rows = offered::list(conn, of)?;
        let read = with_parents(conn, rows, of)?;
        match of {
            Of::All => *self = Providers::default(),
            Of::These(ids) => {
                for id in ids {
                    if let Some(place) = self.places.remove(&read_id("changes.id", id)?) {
                        self.by_name.remove(&place.name);
                    }
                }
            }
        }
        for (provider, parent) in read {
            self.places.insert(provider.uuid, Place { name: provider.name.clone(), parent });
            self.by_name.insert(provider.name.clone(), Known::new(provider));
        }
        Ok(())
    }
}
