//! All providers in memory, for the choice of those with room, and to show trees. The claim is judged by the database.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cellshift_domain::flavor::Resources;
use cellshift_store::columns::read_id;
use cellshift_store::mirror::Mirrored;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::resource_providers::{records as provider_rows, with_parents};
use super::{HostDemand, Offer, Provider};

/// All providers with inventories, usages, traits and aggregates.
#[derive(Default)]
pub(super) struct Providers {
    by_name: BTreeMap<String, Entry>,
    places: HashMap<Uuid, Place>,
}

/// A provider, with what is left of the classes that every flavor takes: a demand for these is judged without looking them up.
struct Entry {
    offer: Offer,
    /// True if the inventories of these classes let any amount be allocated that is left.
    is_plain: bool,
}

impl Entry {
    fn new(provider: Provider) -> Entry {
        let any_amount = |class: &str| {
            let inventory = provider.inventories.get(class);
            inventory
                .is_none_or(|inventory| inventory.min_unit <= 1 && inventory.step_size <= 1 && inventory.max_unit >= inventory.capacity())
        };
        Entry { is_plain: Resources::CLASSES.into_iter().all(any_amount), offer: Offer::new(provider) }
    }

    fn meets(&self, demand: &Demand) -> bool {
        let (free, least, provider) = (&self.offer.free, &demand.least, &self.offer.provider);
        let has_room = |(class, amount): &(&str, i64)| provider.has_room(class, *amount);
        (least.vcpu == 0 || least.vcpu <= free.vcpu)
            && (least.memory_mb == 0 || least.memory_mb <= free.memory_mb)
            && (least.disk_gb == 0 || least.disk_gb <= free.disk_gb)
            && (self.is_plain || demand.usual.iter().all(has_room))
            && demand.others.iter().all(has_room)
            && demand.required.iter().all(|name| provider.traits.contains(name))
    }
}

/// A demand, sorted for a thousand comparisons.
struct Demand<'a> {
    /// The amounts of the classes that every flavor takes.
    least: Resources,
    /// These amounts by class, for inventories that do not let any amount be allocated.
    usual: Vec<(&'a str, i64)>,
    /// The amounts of other classes.
    others: Vec<(&'a str, i64)>,
    required: &'a [String],
}

impl<'a> Demand<'a> {
    fn new(demand: &'a HostDemand) -> Demand<'a> {
        let amounts = demand.resources.iter().filter(|(_, amount)| **amount > 0).map(|(class, amount)| (class.as_str(), *amount));
        let (usual, others): (Vec<_>, Vec<_>) = amounts.partition(|(class, _)| Resources::CLASSES.contains(class));
        let [vcpu, memory_mb, disk_gb] =
            Resources::CLASSES.map(|class| usual.iter().find(|(usual, _)| *usual == class).map_or(0, |(_, amount)| *amount));
        Demand { least: Resources { vcpu, memory_mb, disk_gb }, usual, others, required: &demand.required }
    }
}

/// A provider's key in `by_name`, and its parent.
struct Place {
    name: String,
    parent: Option<Uuid>,
}

impl Providers {
    /// Returns the providers that meet the demand, ordered by name from the first that is looked at.
    pub(super) fn candidates(&self, request: &HostDemand) -> Vec<Offer> {
        let demand = Demand::new(request);
        let meets = |entry: &&Entry| entry.meets(&demand);
        let offer = |entry: &Entry| entry.offer.clone();
        match request.only {
            Some(only) => self.get(only).into_iter().filter(meets).take(request.limit).map(offer).collect(),
            None => self.by_name_from(request.first).filter(meets).take(request.limit).map(offer).collect(),
        }
    }

    /// Returns all providers by name from this place on, and behind the last those before it.
    fn by_name_from(&self, first: u64) -> impl Iterator<Item = &Entry> {
        let first = first.checked_rem(self.by_name.len() as u64).and_then(|first| usize::try_from(first).ok()).unwrap_or_default();
        self.by_name.values().skip(first).chain(self.by_name.values().take(first))
    }

    /// Returns those of these providers that have no parent.
    pub(super) fn roots_among(&self, providers: &[Uuid]) -> Vec<Arc<Provider>> {
        let is_root = |provider: &&Uuid| self.places.get(provider).is_some_and(|place| place.parent.is_none());
        providers.iter().filter(is_root).filter_map(|provider| Some(Arc::clone(&self.get(*provider)?.offer.provider))).collect()
    }

    /// Returns all providers with their parents, ordered by name.
    pub(super) fn all(&self) -> Vec<(Arc<Provider>, Option<Uuid>)> {
        self.by_name.values().map(|entry| (Arc::clone(&entry.offer.provider), self.parent_of(entry))).collect()
    }

    /// Returns the providers of these roots' trees with their parents, ordered by name.
    pub(super) fn trees(&self, roots: &[Uuid]) -> Vec<(Provider, Option<Uuid>)> {
        let mut inside: HashSet<Uuid> = roots.iter().copied().collect();
        // A pass for each level. A circle cannot be stored, and adds nothing.
        loop {
            let is_below = |place: &Place| place.parent.is_some_and(|above| inside.contains(&above));
            let below = self.places.iter().filter(|(uuid, place)| is_below(place) && !inside.contains(*uuid));
            let new: Vec<Uuid> = below.map(|(uuid, _)| *uuid).collect();
            if new.is_empty() {
                break;
            }
            inside.extend(new);
        }
        let entries = self.by_name.values().filter(|entry| inside.contains(&entry.offer.provider.uuid));
        entries.map(|entry| (Provider::clone(&entry.offer.provider), self.parent_of(entry))).collect()
    }

    fn parent_of(&self, entry: &Entry) -> Option<Uuid> {
        self.places.get(&entry.offer.provider.uuid).and_then(|place| place.parent)
    }

    fn get(&self, provider: Uuid) -> Option<&Entry> {
        self.by_name.get(&self.places.get(&provider)?.name)
    }
}

impl Mirrored for Providers {
    fn read(&mut self, conn: &mut Conn, of: Of<'_>) -> Result<(), DbError> {
        let rows = provider_rows::list(conn, of)?;
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
            self.by_name.insert(provider.name.clone(), Entry::new(provider));
        }
        Ok(())
    }
}
