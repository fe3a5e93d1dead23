//! Inventories of a provider: the amounts that it offers of each resource class.

pub(super) mod records;
pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};

use cellshift_domain::reason;
use cellshift_domain::reason::ReasonCode;
use cellshift_store::{Conn, Of};
use uuid::Uuid;

use super::resource_classes::records as class_rows;
use super::resource_providers::{one, raise};
use super::{AMOUNT_MAX, EmbeddedPlacement, Inventory, Provider, RATIO_MAX, names};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::InventoryRow;

/// The way in which one class's inventory is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The provider must have no inventory of the class yet.
    Adds,
    /// The provider must have one.
    Changes,
}

impl EmbeddedPlacement {
    /// Replaces all inventories, if the generation is unchanged.
    pub async fn set_inventories(
        &self,
        uuid: Uuid,
        generation: Option<i64>,
        inventories: BTreeMap<String, Inventory>,
    ) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            check_classes(conn, inventories.keys())?;
            for (class, inventory) in &inventories {
                check(class, inventory)?;
            }
            raise(conn, uuid, generation)?;
            replace(conn, &uuid.to_string(), &inventories)?;
            one(conn, uuid)
        })
        .await
    }

    /// Adds or changes one class's inventory, if the generation is unchanged.
    pub async fn set_inventory(
        &self,
        uuid: Uuid,
        generation: Option<i64>,
        class: String,
        inventory: Inventory,
        how: Put,
    ) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            check_classes(conn, [&class])?;
            check(&class, &inventory)?;
            raise(conn, uuid, generation)?;
            let is_there = one(conn, uuid)?.0.inventories.contains_key(&class);
            match (how, is_there) {
                (Put::Adds, true) => {
                    return Err(
                        ServiceError::Conflict(reason!("Update conflict: resource provider {uuid} has an inventory of {class}.")).into()
                    );
                }
                (Put::Changes, false) => {
                    let text = reason!("No inventory record with resource class {class} for resource provider {uuid}");
                    return Err(ServiceError::Invalid(text).into());
                }
                _ => {}
            }
            records::put(conn, &InventoryRow::new(&uuid.to_string(), &class, &inventory))?;
            one(conn, uuid)
        })
        .await
    }

    /// Removes one class's inventory. Conflict while some of it is used.
    pub async fn delete_inventory(&self, uuid: Uuid, class: String) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            raise(conn, uuid, None)?;
            let (provider, _) = one(conn, uuid)?;
            let mut left = provider.inventories;
            if left.remove(&class).is_none() {
                return Err(ServiceError::NotFound(reason!(
                    "No inventory of class {class} found for delete: resource provider {uuid} has none"
                ))
                .into());
            }
            replace(conn, &uuid.to_string(), &left)
        })
        .await
    }
}

/// Replaces all inventories and keeps their usage. Conflict if a used class would be removed.
pub(super) fn replace(conn: &mut Conn, provider: &str, inventories: &BTreeMap<String, Inventory>) -> Result<(), TransactionError> {
    let held = records::of_providers(conn, Of::These(&[provider.to_owned()]))?;
    let (going, _): (Vec<_>, Vec<_>) = held.iter().partition(|old| !inventories.contains_key(&old.resource_class));
    let mut used: Vec<&str> = going.iter().filter(|old| old.used > 0).map(|old| old.resource_class.as_str()).collect();
    if !used.is_empty() {
        let place = |class: &str| names::RESOURCE_CLASSES.iter().position(|standard| *standard == class).unwrap_or(usize::MAX);
        used.sort_by_key(|class| place(class));
        let reason = reason!("Inventory for '{}' on resource provider '{provider}' in use.", used.join(", "));
        return Err(ServiceError::Conflict(reason.coded(ReasonCode::InventoryInUse)).into());
    }
    for old in going {
        records::delete(conn, provider, &old.resource_class)?;
    }
    for (class, inventory) in inventories {
        records::put(conn, &InventoryRow::new(provider, class, inventory))?;
    }
    Ok(())
}

/// Refuses a class that does not exist.
pub(super) fn check_classes<'a>(conn: &mut Conn, classes: impl IntoIterator<Item = &'a String>) -> Result<(), TransactionError> {
    let custom: BTreeSet<String> = class_rows::custom(conn)?.into_iter().collect();
    let exists = |class: &String| names::is_standard_class(class) || custom.contains(class);
    match classes.into_iter().find(|class| !exists(class)) {
        Some(class) => Err(ServiceError::Invalid(reason!("Unknown resource class in inventory: No such resource class {class}.")).into()),
        None => Ok(()),
    }
}

/// Refuses amounts that no inventory has.
pub(super) fn check(class: &str, inventory: &Inventory) -> Result<(), ServiceError> {
    let invalid = |what: String| Err(ServiceError::Invalid(reason!("JSON does not validate: the inventory of {class} {what}")));
    let bounds = [
        ("total", inventory.total, 1),
        ("reserved", inventory.reserved, 0),
        ("min_unit", inventory.min_unit, 1),
        ("max_unit", inventory.max_unit, 1),
        ("step_size", inventory.step_size, 1),
    ];
    for (name, value, least) in bounds {
        if !(least..=AMOUNT_MAX).contains(&value) {
            return invalid(format!("has a {name} of {value}, which is not in the range of {least} to {AMOUNT_MAX}"));
        }
    }
    let ratio = inventory.allocation_ratio;
    if !(ratio > 0.0 && ratio <= RATIO_MAX) {
        return invalid(format!("has an allocation_ratio of {ratio}, which is not above 0 and at most {RATIO_MAX:e}"));
    }
    if inventory.reserved > inventory.total {
        return invalid(format!("reserves {} of a total of {}", inventory.reserved, inventory.total));
    }
    if inventory.max_unit < inventory.min_unit {
        return invalid(format!("has a max_unit of {} below its min_unit of {}", inventory.max_unit, inventory.min_unit));
    }
    Ok(())
}
