//! Inventories move between the providers of a tree together with what is allocated of them: all of it, or nothing.

pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};

use cellshift_domain::reason;
use cellshift_store::Conn;
use uuid::Uuid;

use super::allocations::records as consumption;
use super::allocations::{self as allocate, Repeat};
use super::inventories::records::{self as inventory_rows, InventoryRow};
use super::resource_providers::{raise, records as provider_rows};
use super::{Allocations, EmbeddedPlacement, Inventory, inventories};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};

impl EmbeddedPlacement {
    /// Replaces inventories and allocations together or not at all: what is allocated moves with the inventory that it is of.
    pub async fn reshape(&self, providers: BTreeMap<Uuid, Reshaped>, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.write(None, move |conn| reshape(conn, &providers, &changes)).await
    }
}

/// All inventories that a provider is to have.
#[derive(Clone, PartialEq, Debug)]
pub struct Reshaped {
    /// The provider's generation that the caller has read.
    pub generation: i64,
    /// By class.
    pub inventories: BTreeMap<String, Inventory>,
}

/// Replaces the inventories of these providers and the allocations of these consumers. Conflict if a generation is stale, a provider would
/// exceed its capacity, or something of an inventory that goes would stay allocated.
fn reshape(conn: &mut Conn, providers: &BTreeMap<Uuid, Reshaped>, changes: &[Allocations]) -> Result<(), TransactionError> {
    inventories::check_classes(conn, providers.values().flat_map(|reshaped| reshaped.inventories.keys()))?;
    hold_all(conn, providers, changes)?;
    for (uuid, reshaped) in providers {
        raise(conn, *uuid, Some(reshaped.generation))?;
        // An inventory that goes stays until its allocations have gone; a new one must be there before they come.
        for (class, inventory) in &reshaped.inventories {
            inventories::check(class, inventory)?;
            inventory_rows::put(conn, &InventoryRow::new(&uuid.to_string(), class, inventory))?;
        }
    }
    allocate::replace(conn, changes, Repeat::Refused)?;
    check_units(providers, changes)?;
    for (uuid, reshaped) in providers {
        raise(conn, *uuid, None)?;
        inventories::replace(conn, &uuid.to_string(), &reshaped.inventories)?;
    }
    Ok(())
}

/// Locks all providers that take part, in the one order of all writers.
fn hold_all(conn: &mut Conn, providers: &BTreeMap<Uuid, Reshaped>, changes: &[Allocations]) -> Result<(), TransactionError> {
    let mut all: BTreeSet<String> = providers.keys().map(Uuid::to_string).collect();
    for change in changes {
        all.extend(change.allocations.keys().map(Uuid::to_string));
        all.extend(consumption::of_consumer(conn, &change.consumer.to_string())?.into_iter().map(|row| row.provider_uuid));
    }
    for uuid in &all {
        // A provider that does not exist is refused where it is used.
        provider_rows::hold(conn, uuid)?;
    }
    Ok(())
}

/// Refuses amounts that do not fit the units of their new inventories. Elsewhere a held amount may be kept whatever the inventory has become;
/// here the caller changes both.
fn check_units(providers: &BTreeMap<Uuid, Reshaped>, changes: &[Allocations]) -> Result<(), ServiceError> {
    for (provider, amounts) in changes.iter().flat_map(|change| &change.allocations) {
        for (class, amount) in amounts {
            let inventory = providers.get(provider).and_then(|reshaped| reshaped.inventories.get(class));
            let is_unfit = |held: &Inventory| *amount < held.min_unit || *amount > held.max_unit || *amount % held.step_size.max(1) != 0;
            if inventory.is_some_and(is_unfit) {
                return Err(ServiceError::Conflict(reason!(
                    "Unable to allocate inventory for '{class}' on resource provider '{provider}'. The requested amount would violate inventory constraints: {amount}"
                )));
            }
        }
    }
    Ok(())
}
