//! Compares the reports of hosts about their providers with what is stored. Hosts report at each start, so most reports change nothing, and
//! many hosts report at once.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use cellshift_domain::host_network::is_reported;
use cellshift_store::Conn;
use uuid::Uuid;

use super::children;
use super::records::{self as provider_rows, ProviderRow};
use crate::placement::inventories::records::{self as inventory_rows, InventoryRow};
use crate::placement::resource_classes::records as class_rows;
use crate::placement::resource_providers as providers;
use crate::placement::traits::records as trait_rows;
use crate::placement::{ChildProvider, Inventory, Provider, ReportedTree, inventories, names, traits};
use crate::transaction::TransactionError;

/// The number of hosts whose providers are read by one statement, or made in one transaction.
pub(in crate::placement) const BATCH: usize = 200;

/// The stored providers of some hosts.
pub(in crate::placement) struct Stored {
    /// Each with its parent.
    providers: BTreeMap<Uuid, (Provider, Option<Uuid>)>,
    /// The hosts' own providers, by the provider in their trees.
    roots: BTreeMap<Uuid, Uuid>,
}

impl Stored {
    /// Reads the trees of these hosts' own providers.
    pub fn read(conn: &mut Conn, hosts: &[Uuid]) -> Result<Stored, TransactionError> {
        let read = providers::trees(conn, hosts)?;
        let read: BTreeMap<Uuid, _> = read.into_iter().map(|(provider, parent)| (provider.uuid, (provider, parent))).collect();
        let hosts: BTreeSet<Uuid> = hosts.iter().copied().collect();
        let parent = |uuid: &Uuid| read.get(uuid).and_then(|(_, parent)| *parent);
        // No way up is longer than all providers together.
        let host = |uuid: Uuid| successors(Some(uuid), parent).take(read.len()).find(|above| hosts.contains(above));
        let roots = read.keys().filter_map(|uuid| Some((*uuid, host(*uuid)?))).collect();
        Ok(Stored { providers: read, roots })
    }

    /// True if a host's own provider has what the host reports. Others may have given it more.
    pub fn has(&self, uuid: Uuid, name: &str, inventories: &BTreeMap<String, Inventory>, traits: &[String]) -> bool {
        self.providers.get(&uuid).is_some_and(|(stored, _)| {
            stored.name == name
                && inventories.iter().all(|(class, inventory)| stored.inventories.get(class) == Some(inventory))
                && traits.iter().all(|name| stored.traits.contains(name))
        })
    }

    /// True if the providers below a host's own are those that the host reports.
    pub fn has_below(&self, root: Uuid, reported: &[ChildProvider]) -> bool {
        let ids: BTreeSet<Uuid> = reported.iter().map(|child| child.uuid).collect();
        let below = self.roots.iter().filter(|(uuid, of)| **of == root && **uuid != root).filter_map(|(uuid, _)| self.providers.get(uuid));
        let is_left_over = |stored: &Provider| !ids.contains(&stored.uuid) && is_reported(stored.uuid, &stored.name);
        let same = |child: &ChildProvider| {
            self.providers.get(&child.uuid).is_some_and(|(stored, parent)| {
                stored.name == child.name
                    && stored.inventories == child.inventories
                    && stored.traits == names::distinct(&child.traits)
                    && *parent == Some(child.parent)
            })
        };
        !below.map(|(stored, _)| stored).any(is_left_over) && reported.iter().all(same)
    }

    fn lacks(&self, root: Uuid) -> bool {
        !self.providers.contains_key(&root)
    }
}

/// Returns the trees of hosts without a provider, and those whose providers differ from the report. The others need nothing.
pub(in crate::placement) fn sort(
    conn: &mut Conn,
    trees: Vec<ReportedTree>,
) -> Result<(Vec<ReportedTree>, Vec<ReportedTree>), TransactionError> {
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    let mut coming = trees.into_iter();
    loop {
        let batch: Vec<ReportedTree> = coming.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok((new, changed));
        }
        let stored = Stored::read(conn, &batch.iter().map(|tree| tree.uuid).collect::<Vec<_>>())?;
        for tree in batch {
            if stored.lacks(tree.uuid) {
                new.push(tree);
            } else if !stored.has(tree.uuid, &tree.name, &tree.inventories, &[]) || !stored.has_below(tree.uuid, &tree.children) {
                changed.push(tree);
            }
        }
    }
}

/// Makes the trees of these hosts, which have no provider of their own yet, in few statements. If a provider with an id or name of theirs exists,
/// for instance that of a lost host, each tree is made or changed by itself.
pub(in crate::placement) fn make(conn: &mut Conn, trees: &[ReportedTree]) -> Result<(), TransactionError> {
    let rows: Vec<ProviderRow> = trees.iter().flat_map(rows_of).collect();
    if provider_rows::any_exists(conn, &rows)? {
        return trees.iter().try_for_each(|tree| ensure(conn, tree));
    }
    let classes: BTreeSet<&String> = trees.iter().flat_map(|tree| tree.inventories.keys()).collect();
    for class in classes.into_iter().filter(|class| names::is_custom(class)) {
        class_rows::define(conn, class)?;
    }
    let traits: Vec<String> = trees.iter().flat_map(|tree| &tree.children).flat_map(|child| child.traits.iter().cloned()).collect();
    traits::define(conn, &traits)?;
    provider_rows::insert_all(conn, &rows)?;
    let of_roots = trees.iter().map(|tree| (tree.uuid, &tree.inventories));
    let below = || trees.iter().flat_map(|tree| &tree.children);
    let mut inventories = Vec::new();
    for (provider, reported) in of_roots.chain(below().map(|child| (child.uuid, &child.inventories))) {
        for (class, inventory) in reported {
            inventories::check(class, inventory)?;
            inventories.push(InventoryRow::new(&provider.to_string(), class, inventory));
        }
    }
    inventory_rows::add_all(conn, &inventories)?;
    let trait_rows_of = |child: &ChildProvider| {
        let provider = child.uuid.to_string();
        names::distinct(&child.traits).into_iter().map(move |name| (provider.clone(), name))
    };
    Ok(trait_rows::add(conn, &below().flat_map(trait_rows_of).collect::<Vec<_>>())?)
}

/// Returns the providers of a tree, each after its parent.
fn rows_of(tree: &ReportedTree) -> Vec<ProviderRow> {
    let row = |uuid: Uuid, name: &str, parent: Option<Uuid>| ProviderRow {
        uuid: uuid.to_string(),
        name: name.to_owned(),
        generation: 1,
        parent_uuid: parent.map(|parent| parent.to_string()),
    };
    let below = tree.children.iter().map(|child| row(child.uuid, &child.name, Some(child.parent)));
    std::iter::once(row(tree.uuid, &tree.name, None)).chain(below).collect()
}

fn ensure(conn: &mut Conn, tree: &ReportedTree) -> Result<(), TransactionError> {
    providers::ensure(conn, tree.uuid, &tree.name, &tree.inventories, &[])?;
    if tree.children.is_empty() { Ok(()) } else { children::ensure(conn, tree.uuid, &tree.children) }
}
