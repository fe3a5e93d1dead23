//! The providers below a host's own: those that the host reports are made and changed, those that it no longer reports go.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_domain::host_network::is_reported;
use cellshift_domain::reason;
use cellshift_domain::reason::ReasonCode;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::records::{self as provider_rows, ProviderRow};
use super::{absent, raise};
use crate::ServiceError;
use crate::placement::inventories::records::{self as inventory_rows, InventoryRow};
use crate::placement::{ChildProvider, Inventory, inventories, traits};
use crate::transaction::TransactionError;

/// Makes the providers below the root those of the host's report.
pub(in crate::placement) fn ensure(conn: &mut Conn, root: Uuid, reported: &[ChildProvider]) -> Result<(), TransactionError> {
    for (class, inventory) in reported.iter().flat_map(|child| &child.inventories) {
        inventories::check(class, inventory)?;
    }
    if provider_rows::find(conn, &root.to_string())?.is_none() {
        return Err(absent(root).into());
    }
    let ids: BTreeSet<Uuid> = reported.iter().map(|child| child.uuid).collect();
    let mut left_over = Vec::new();
    for row in below(conn, root)? {
        let id = read_id("resource_providers.uuid", &row.uuid)?;
        if is_reported(id, &row.name) && !ids.contains(&id) {
            left_over.push(id);
        }
    }
    // Claims lock providers in the order of their ids, so this does, too.
    for id in ids.iter().chain(&left_over).collect::<BTreeSet<_>>() {
        if provider_rows::find(conn, &id.to_string())?.is_some() {
            raise(conn, *id, None)?;
        }
    }
    let traits: Vec<String> = reported.iter().flat_map(|child| child.traits.iter().cloned()).collect();
    traits::define(conn, &traits)?;
    for child in reported {
        ensure_one(conn, child)?;
    }
    // The deepest come last, and go first.
    for id in left_over.into_iter().rev() {
        remove(conn, &id.to_string())?;
    }
    Ok(())
}

/// Returns the providers below this one, each after its parent.
fn below(conn: &mut Conn, root: Uuid) -> Result<Vec<ProviderRow>, DbError> {
    let (mut rows, mut parents) = (Vec::new(), vec![root.to_string()]);
    while !parents.is_empty() {
        let children = provider_rows::children_of(conn, &parents)?;
        parents = children.iter().map(|row| row.uuid.clone()).collect();
        rows.extend(children);
    }
    Ok(rows)
}

fn ensure_one(conn: &mut Conn, child: &ChildProvider) -> Result<(), TransactionError> {
    let (id, parent) = (child.uuid.to_string(), child.parent.to_string());
    if provider_rows::find_named(conn, &child.name)?.is_some_and(|other| other.uuid != id) {
        return Err(ServiceError::Conflict(
            reason!("Conflicting resource provider name: {} already exists.", child.name).coded(ReasonCode::DuplicateName),
        )
        .into());
    }
    match provider_rows::find(conn, &id)? {
        None => {
            let row = ProviderRow { uuid: id.clone(), name: child.name.clone(), generation: 1, parent_uuid: Some(parent) };
            provider_rows::insert(conn, &row)?;
        }
        Some(_) => provider_rows::set_identity(conn, &id, &child.name, Some(&parent))?,
    }
    keep_used(conn, &id, &child.inventories)?;
    for (class, inventory) in &child.inventories {
        inventory_rows::put(conn, &InventoryRow::new(&id, class, inventory))?;
    }
    traits::set_reported(conn, &id, &child.traits)
}

/// Removes a provider; while something of it is used or lies below it, only what is used stays.
fn remove(conn: &mut Conn, id: &str) -> Result<(), TransactionError> {
    if provider_rows::is_used(conn, id)? || provider_rows::has_children(conn, id)? {
        log::warn!(provider = id; "the resource provider {id} is no longer reported by its host, but it is still in use");
        return keep_used(conn, id, &BTreeMap::new());
    }
    provider_rows::delete(conn, id)?;
    Ok(())
}

/// Removes the inventories of other classes than the reported ones; those in use shrink to what is used.
fn keep_used(conn: &mut Conn, id: &str, reported: &BTreeMap<String, Inventory>) -> Result<(), TransactionError> {
    for old in inventory_rows::of_providers(conn, Of::These(&[id.to_owned()]))? {
        if reported.contains_key(&old.resource_class) {
            continue;
        }
        match old.used {
            0 => drop(inventory_rows::delete(conn, id, &old.resource_class)?),
            used => {
                let full = Inventory { total: used, reserved: 0, max_unit: used, min_unit: 1, allocation_ratio: 1.0, ..old.inventory() };
                inventory_rows::put(conn, &InventoryRow::new(id, &old.resource_class, &full))?;
            }
        }
    }
    Ok(())
}
