//! What hosts report of their providers, beside what is stored. Hosts report at each start, so most reports change nothing, and many hosts
//! report at once.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::super::{ChildProvider, Inventory, Provider, ReportedTree};
use super::{children, providers};
use crate::db::Conn;
use crate::db::services::placement::providers::{self as offered, Of};
use crate::domain::host_network::is_reported;
use crate::services::transaction::TransactionError;

/// The number of hosts whose providers are read by one statement, or made in one transaction.
pub(super) const BATCH: usize = 200;

/// The stored providers of some hosts.
pub(super) struct Stored {
    /// Each with its parent.
    providers: BTreeMap<Uuid, (Provider, Option<Uuid>)>,
    /// The hosts' own providers, by the provider in their trees.
    roots: BTreeMap<Uuid, Uuid>,
}

impl Stored {
    /// Reads the trees of these hosts' own providers.
    pub fn read(conn: &mut Conn, roots: &[Uuid]) -> Result<Stored, TransactionError> {
        let mut parents: Vec<String> = roots.iter().map(Uuid::to_string).collect();
        let mut root_of: BTreeMap<String, Uuid> = parents.iter().cloned().zip(roots.iter().copied()).collect();
        let mut rows = offered::list(conn, Of::These(&parents))?;
        while !parents.is_empty() {
            let mut found = offered::children_of(conn, &parents)?;
            found.retain(|row| !root_of.contains_key(&row.uuid));
            for row in &found {
                let root = row.parent_uuid.as_ref().and_then(|parent| root_of.get(parent)).copied();
                root_of.extend(root.map(|root| (row.uuid.clone(), root)));
            }
            parents = found.iter().map(|row| row.uuid.clone()).collect();
            rows.extend(found);
        }
        let ids: Vec<String> = rows.iter().map(|row| row.uuid.clone()).collect();
        let stored = providers::with_parents(conn, rows, Of::These(&ids))?;
        let stored: BTreeMap<Uuid, _> = stored.into_iter().map(|(provider, parent)| (provider.uuid, (provider, parent))).collect();
        let roots = stored.keys().filter_map(|uuid| Some((*uuid, *root_of.get(&uuid.to_string())?))).collect();
        Ok(Stored { providers: stored, roots })
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
        let wanted: BTreeSet<Uuid> = reported.iter().map(|child| child.uuid).collect();
        let below = self.roots.iter().filter(|(uuid, of)| **of == root && **uuid != root).filter_map(|(uuid, _)| self.providers.get(uuid));
        let is_left_over = |stored: &Provider| !wanted.contains(&stored.uuid) && is_reported(stored.uuid, &stored.name);
        let same = |child: &ChildProvider| {
            self.providers.get(&child.uuid).is_some_and(|(stored, parent)| {
                stored.name == child.name
                    && stored.inventories == child.inventories
                    && stored.traits == providers::distinct(&child.traits)
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
pub(super) fn sort(conn: &mut Conn, trees: Vec<ReportedTree>) -> Result<(Vec<ReportedTree>, Vec<ReportedTree>), TransactionError> {
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

/// Makes the providers of these hosts.
pub(super) fn make(conn: &mut Conn, trees: &[ReportedTree]) -> Result<(), TransactionError> {
    for tree in trees {
        providers::ensure(conn, tree.uuid, &tree.name, &tree.inventories, &[])?;
        if !tree.children.is_empty() {
            children::ensure(conn, tree.uuid, &tree.children)?;
        }
    }
    Ok(())
}
