//! Providers: identity, inventories, traits, aggregates, and the choice of providers with room for a request.

pub(super) mod children;
pub(super) mod records;
pub(super) mod reported;
pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellshift_domain::reason;
use cellshift_domain::reason::ReasonCode;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::EmbeddedPlacement;
use super::mirror::Providers;
use super::resource_classes::records as defined;
use super::{AMOUNT_MAX, AggregateId, Inventory, Provider, RATIO_MAX, names};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as offered, InventoryRow, ProviderRow};

/// A provider's name and parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub uuid: Uuid,
    pub name: String,
    pub parent: Option<Uuid>,
}

/// The way in which one class's inventory is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The provider must have no inventory of the class yet.
    Adds,
    /// The provider must have one.
    Changes,
}

impl EmbeddedPlacement {
    /// Returns all providers with their parents, ordered by name.
    pub async fn provider_tree(&self) -> Result<Vec<(Arc<Provider>, Option<Uuid>)>, ServiceError> {
        let providers = self.providers.clone();
        self.read(move |conn| Ok(providers.look(conn, Providers::all)?)).await
    }

    /// Returns a provider with its parent.
    pub async fn provider(&self, uuid: Uuid) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.read(move |conn| one(conn, uuid)).await
    }

    /// Adds a provider without inventories. Conflict if the id or name is taken.
    pub async fn create_provider(&self, identity: Identity) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            check_parent(conn, &identity)?;
            if offered::find(conn, &identity.uuid.to_string())?.is_some() {
                return Err(taken("uuid", &identity.uuid.to_string()).into());
            }
            if offered::find_named(conn, &identity.name)?.is_some() {
                return Err(taken("name", &identity.name).into());
            }
            let parent_uuid = identity.parent.map(|parent| parent.to_string());
            offered::insert(conn, &ProviderRow { uuid: identity.uuid.to_string(), name: identity.name, generation: 0, parent_uuid })?;
            one(conn, identity.uuid)
        })
        .await
    }

    /// Renames a provider or sets its parent.
    pub async fn update_provider(&self, identity: Identity) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            check_parent(conn, &identity)?;
            let id = identity.uuid.to_string();
            if offered::find_named(conn, &identity.name)?.is_some_and(|row| row.uuid != id) {
                return Err(taken("name", &identity.name).into());
            }
            if !offered::hold(conn, &id)? {
                return Err(absent(identity.uuid).into());
            }
            offered::set_identity(conn, &id, &identity.name, identity.parent.map(|parent| parent.to_string()).as_deref())?;
            one(conn, identity.uuid)
        })
        .await
    }

    /// Removes a provider. Conflict while it has allocations or children.
    pub async fn delete_provider(&self, uuid: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let id = uuid.to_string();
            if !offered::hold(conn, &id)? {
                return Err(ServiceError::NotFound(format!("No resource provider with uuid {uuid} found for delete")).into());
            }
            if offered::is_used(conn, &id)? {
                return Err(ServiceError::Conflict(
                    reason!("Unable to delete resource provider {uuid}: Resource provider has allocations.")
                        .coded(ReasonCode::ProviderInUse),
                )
                .into());
            }
            if offered::has_children(conn, &id)? {
                return Err(ServiceError::Conflict(
                    reason!("Unable to delete parent resource provider {uuid}: It has child resource providers.")
                        .coded(ReasonCode::ProviderWithChildren),
                )
                .into());
            }
            offered::delete(conn, &id)?;
            Ok(())
        })
        .await
    }

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
                check_inventory(class, inventory)?;
            }
            raise(conn, uuid, generation)?;
            write_inventories(conn, &uuid.to_string(), &inventories)?;
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
            check_inventory(&class, &inventory)?;
            raise(conn, uuid, generation)?;
            let is_there = one(conn, uuid)?.0.inventories.contains_key(&class);
            match (how, is_there) {
                (Put::Adds, true) => {
                    return Err(
                        ServiceError::Conflict(reason!("Update conflict: resource provider {uuid} has an inventory of {class}.")).into()
                    );
                }
                (Put::Changes, false) => {
                    let text = format!("No inventory record with resource class {class} for resource provider {uuid}");
                    return Err(ServiceError::Invalid(text).into());
                }
                _ => {}
            }
            offered::put_inventory(conn, &inventory_row(&uuid.to_string(), &class, &inventory))?;
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
                return Err(ServiceError::NotFound(format!(
                    "No inventory of class {class} found for delete: resource provider {uuid} has none"
                ))
                .into());
            }
            write_inventories(conn, &uuid.to_string(), &left)
        })
        .await
    }

    /// Replaces the traits, if the generation is unchanged. Invalid if a trait does not exist.
    pub async fn set_traits(
        &self,
        uuid: Uuid,
        generation: Option<i64>,
        traits: Vec<String>,
    ) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            let custom: BTreeSet<String> = defined::traits(conn)?.into_iter().collect();
            let is_unknown = |name: &&String| !names::is_standard_trait(name) && !custom.contains(*name);
            let unknown: Vec<&str> = traits.iter().filter(is_unknown).map(String::as_str).collect();
            if !unknown.is_empty() {
                return Err(ServiceError::Invalid(format!("No such trait {}.", unknown.join(", "))).into());
            }
            raise(conn, uuid, generation)?;
            offered::set_traits(conn, &uuid.to_string(), &distinct(&traits))?;
            one(conn, uuid)
        })
        .await
    }

    /// Replaces the aggregates. With a generation, the provider must still have it, and then gets the next one. Without a generation it
    /// stays, as in Placement before 1.19.
    pub async fn set_aggregates(
        &self,
        uuid: Uuid,
        generation: Option<i64>,
        aggregates: Vec<AggregateId>,
    ) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            match generation {
                Some(_) => raise(conn, uuid, generation)?,
                None if offered::hold(conn, &uuid.to_string())? => {}
                None => return Err(absent(uuid).into()),
            }
            let texts: Vec<String> = aggregates.iter().map(|aggregate| aggregate.text().to_owned()).collect();
            offered::set_aggregates(conn, &uuid.to_string(), &distinct(&texts))?;
            one(conn, uuid)
        })
        .await
    }
}

/// Creates or changes a host's provider according to the host's report. Inventories of other classes and further traits stay: an operator
/// gave them.
pub(super) fn ensure(
    conn: &mut Conn,
    uuid: Uuid,
    name: &str,
    inventories: &BTreeMap<String, Inventory>,
    traits: &[String],
) -> Result<(), TransactionError> {
    for (class, inventory) in inventories {
        check_inventory(class, inventory)?;
    }
    let id = uuid.to_string();
    for class in inventories.keys().filter(|class| names::is_custom(class)) {
        defined::add_class(conn, class)?;
    }
    let Some(row) = offered::find(conn, &id)? else { return make(conn, &id, name, inventories, traits) };
    raise(conn, uuid, None)?;
    offered::set_identity(conn, &id, name, row.parent_uuid.as_deref())?;
    for (class, inventory) in inventories {
        offered::put_inventory(conn, &inventory_row(&id, class, inventory))?;
    }
    let of_others = offered::traits_of(conn, Of::These(std::slice::from_ref(&id)))?.into_iter().map(|(_, name)| name);
    let all: Vec<String> = of_others.chain(traits.iter().cloned()).collect();
    set_reported_traits(conn, &id, &all)
}

/// Creates a host's provider.
fn make(
    conn: &mut Conn,
    id: &str,
    name: &str,
    inventories: &BTreeMap<String, Inventory>,
    traits: &[String],
) -> Result<(), TransactionError> {
    offered::insert(conn, &ProviderRow { uuid: id.to_owned(), name: name.to_owned(), generation: 1, parent_uuid: None })?;
    for (class, inventory) in inventories {
        offered::add_inventory(conn, &inventory_row(id, class, inventory))?;
    }
    match traits.is_empty() {
        true => Ok(()),
        false => set_reported_traits(conn, id, traits),
    }
}

/// Removes a host's inventories and traits, so that nothing can be allocated from its provider. Conflict if something is. Succeeds if there
/// is no provider.
pub(super) fn empty(conn: &mut Conn, uuid: Uuid) -> Result<(), TransactionError> {
    let id = uuid.to_string();
    if offered::find(conn, &id)?.is_none() {
        return Ok(());
    }
    raise(conn, uuid, None)?;
    write_inventories(conn, &id, &BTreeMap::new())?;
    Ok(offered::set_traits(conn, &id, &[])?)
}

/// Puts the provider with this name into an aggregate or takes it out, in every spelling. A change raises the generation.
pub(super) fn set_member(conn: &mut Conn, name: &str, aggregate: Uuid, is_member: bool) -> Result<(), TransactionError> {
    let Some(uuid) = named(conn, name)? else {
        return Err(ServiceError::NotFound(format!("No resource provider with name {name} found")).into());
    };
    let id = uuid.to_string();
    // Locked before the aggregates are read: another writer's are then not lost.
    if !offered::hold(conn, &id)? {
        return Err(absent(uuid).into());
    }
    let present = offered::aggregates_of(conn, Of::These(std::slice::from_ref(&id)))?;
    let is_it = |text: &String| Uuid::parse_str(text).is_ok_and(|id| id == aggregate);
    let (own, mut others): (Vec<String>, Vec<String>) = present.into_iter().map(|(_, text)| text).partition(is_it);
    if own.is_empty() != is_member {
        return Ok(());
    }
    if is_member {
        others.push(aggregate.to_string());
    }
    raise(conn, uuid, None)?;
    Ok(offered::set_aggregates(conn, &id, &others)?)
}

/// Puts the providers with these names into aggregates. Raises the generation of each that changes.
pub(super) fn add_members(conn: &mut Conn, members: &[(String, Uuid)]) -> Result<(), TransactionError> {
    let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
    let ids: BTreeMap<String, String> = offered::list_named(conn, &names)?.into_iter().map(|row| (row.name, row.uuid)).collect();
    let present: BTreeSet<(String, Option<Uuid>)> = offered::aggregates_of(conn, Of::These(&ids.values().cloned().collect::<Vec<_>>()))?
        .into_iter()
        .map(|(provider, text)| (provider, Uuid::parse_str(&text).ok()))
        .collect();
    let of_provider = |(name, aggregate): &(String, Uuid)| Some((ids.get(name)?.clone(), *aggregate));
    let missing: BTreeSet<(String, Uuid)> = members.iter().filter_map(of_provider).collect();
    let missing: Vec<(String, String)> = missing
        .into_iter()
        .filter(|(provider, aggregate)| !present.contains(&(provider.clone(), Some(*aggregate))))
        .map(|(provider, aggregate)| (provider, aggregate.to_string()))
        .collect();
    // In the order of their ids, so that two writers never wait for each other.
    for provider in missing.iter().map(|(provider, _)| provider).collect::<BTreeSet<_>>() {
        raise(conn, read_id("resource_providers.uuid", provider)?, None)?;
    }
    Ok(offered::add_aggregates(conn, &missing)?)
}

/// Defines those of these traits that do not exist yet, in the order of their names: two hosts then never wait for each other's.
pub(super) fn define_traits(conn: &mut Conn, traits: &[String]) -> Result<(), DbError> {
    for name in distinct(traits).iter().filter(|name| !names::is_standard_trait(name)) {
        defined::add_trait(conn, name)?;
    }
    Ok(())
}

/// Replaces a provider's traits, and defines those that do not exist yet.
pub(super) fn set_reported_traits(conn: &mut Conn, provider: &str, traits: &[String]) -> Result<(), TransactionError> {
    define_traits(conn, traits)?;
    let traits = distinct(traits);
    offered::set_traits(conn, provider, &traits)?;
    Ok(())
}

/// Returns the id of the provider with this name.
pub(super) fn named(conn: &mut Conn, name: &str) -> Result<Option<Uuid>, TransactionError> {
    let found = offered::find_named(conn, name)?;
    Ok(found.map(|row| read_id("resource_providers.uuid", &row.uuid)).transpose()?)
}

/// Returns all providers with their parents, ordered by name.
pub(super) fn all(conn: &mut Conn) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let rows = offered::list(conn, Of::All)?;
    with_parents(conn, rows, Of::All)
}

/// Returns the providers of these roots' trees with their parents, ordered by name. Reads a level with each statement.
pub(super) fn trees(conn: &mut Conn, roots: &[Uuid]) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let mut above: Vec<String> = roots.iter().map(Uuid::to_string).collect();
    let mut inside: BTreeSet<String> = above.iter().cloned().collect();
    let mut rows = offered::list(conn, Of::These(&above))?;
    while !above.is_empty() {
        let mut found = offered::children_of(conn, &above)?;
        // A circle cannot be stored, and adds nothing.
        found.retain(|row| inside.insert(row.uuid.clone()));
        above = found.iter().map(|row| row.uuid.clone()).collect();
        rows.extend(found);
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let ids: Vec<String> = rows.iter().map(|row| row.uuid.clone()).collect();
    with_parents(conn, rows, Of::These(&ids))
}

/// Adds inventories, traits and aggregates to provider rows, and keeps the order of `rows`.
pub(super) fn assemble(conn: &mut Conn, rows: Vec<ProviderRow>, of: Of<'_>) -> Result<Vec<Provider>, DbError> {
    let mut inventories: BTreeMap<String, Vec<InventoryRow>> = BTreeMap::new();
    for row in offered::inventories_of(conn, of)? {
        inventories.entry(row.provider_uuid.clone()).or_default().push(row);
    }
    let mut traits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (provider, name) in offered::traits_of(conn, of)? {
        traits.entry(provider).or_default().push(name);
    }
    let mut aggregates: BTreeMap<String, Vec<AggregateId>> = BTreeMap::new();
    for (provider, aggregate) in offered::aggregates_of(conn, of)? {
        let id = AggregateId::read(aggregate).map_err(|text| DbError::unreadable("provider_aggregates.aggregate_uuid", &text))?;
        aggregates.entry(provider).or_default().push(id);
    }
    rows.into_iter()
        .map(|row| {
            let stock = inventories.remove(&row.uuid).unwrap_or_default();
            Ok(Provider {
                uuid: read_id("resource_providers.uuid", &row.uuid)?,
                name: row.name,
                generation: row.generation,
                usages: stock.iter().map(|row| (row.resource_class.clone(), row.used)).collect(),
                inventories: stock.iter().map(|row| (row.resource_class.clone(), inventory(row))).collect(),
                traits: traits.remove(&row.uuid).unwrap_or_default(),
                aggregates: aggregates.remove(&row.uuid).unwrap_or_default(),
            })
        })
        .collect()
}

/// Converts a row into an inventory for callers.
pub(super) fn inventory(row: &InventoryRow) -> Inventory {
    Inventory {
        total: row.total,
        reserved: row.reserved,
        min_unit: row.min_unit,
        max_unit: row.max_unit,
        step_size: row.step_size,
        allocation_ratio: row.allocation_ratio,
    }
}

pub(super) fn inventory_row(provider: &str, class: &str, inventory: &Inventory) -> InventoryRow {
    InventoryRow {
        provider_uuid: provider.to_owned(),
        resource_class: class.to_owned(),
        total: inventory.total,
        reserved: inventory.reserved,
        min_unit: inventory.min_unit,
        max_unit: inventory.max_unit,
        step_size: inventory.step_size,
        allocation_ratio: inventory.allocation_ratio,
        used: 0,
    }
}

/// Replaces all inventories and keeps their usage. Conflict if a used class would be removed.
pub(super) fn write_inventories(
    conn: &mut Conn,
    provider: &str,
    inventories: &BTreeMap<String, Inventory>,
) -> Result<(), TransactionError> {
    let held = offered::inventories_of(conn, Of::These(&[provider.to_owned()]))?;
    let (going, _): (Vec<_>, Vec<_>) = held.iter().partition(|old| !inventories.contains_key(&old.resource_class));
    let mut used: Vec<&str> = going.iter().filter(|old| old.used > 0).map(|old| old.resource_class.as_str()).collect();
    if !used.is_empty() {
        let place = |class: &str| names::RESOURCE_CLASSES.iter().position(|standard| *standard == class).unwrap_or(usize::MAX);
        used.sort_by_key(|class| place(class));
        let reason = reason!("Inventory for '{}' on resource provider '{provider}' in use.", used.join(", "));
        return Err(ServiceError::Conflict(reason.coded(ReasonCode::InventoryInUse)).into());
    }
    for old in going {
        offered::delete_inventory(conn, provider, &old.resource_class)?;
    }
    for (class, inventory) in inventories {
        offered::put_inventory(conn, &inventory_row(provider, class, inventory))?;
    }
    Ok(())
}

/// Adds parents, inventories, traits and aggregates to provider rows, and keeps the order of `rows`.
pub(super) fn with_parents(conn: &mut Conn, rows: Vec<ProviderRow>, of: Of<'_>) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let parents: Vec<Option<Uuid>> = rows
        .iter()
        .map(|row| row.parent_uuid.as_deref().map(|text| read_id("resource_providers.parent_uuid", text)).transpose())
        .collect::<Result<_, _>>()?;
    Ok(assemble(conn, rows, of)?.into_iter().zip(parents).collect())
}

fn one(conn: &mut Conn, uuid: Uuid) -> Result<(Provider, Option<Uuid>), TransactionError> {
    let rows: Vec<ProviderRow> = offered::find(conn, &uuid.to_string())?.into_iter().collect();
    with_parents(conn, rows, Of::These(&[uuid.to_string()]))?.pop().ok_or_else(|| absent(uuid).into())
}

pub(super) fn raise(conn: &mut Conn, uuid: Uuid, seen: Option<i64>) -> Result<(), TransactionError> {
    let id = uuid.to_string();
    if offered::bump(conn, &id, seen)? {
        return Ok(());
    }
    match offered::find(conn, &id)? {
        None => Err(absent(uuid).into()),
        Some(row) => {
            let given = seen.map_or_else(|| "none".to_owned(), |seen| seen.to_string());
            let reason = reason!(
                "resource provider generation conflict for provider {uuid}: actual: {}, given: {given}. \
                 Resource provider's generation already changed. Please update the generation and try again.",
                row.generation
            );
            Err(ServiceError::Conflict(reason.coded(ReasonCode::ConcurrentUpdate)).into())
        }
    }
}

fn taken(what: &str, value: &str) -> ServiceError {
    let reason = reason!("Conflicting resource provider {what}: {value} already exists.");
    ServiceError::Conflict(if what == "name" { reason.coded(ReasonCode::DuplicateName) } else { reason })
}

pub(super) fn absent(uuid: Uuid) -> ServiceError {
    ServiceError::NotFound(format!("No resource provider with uuid {uuid} found"))
}

fn check_parent(conn: &mut Conn, identity: &Identity) -> Result<(), TransactionError> {
    let mut above = identity.parent;
    while let Some(parent) = above {
        if parent == identity.uuid {
            return Err(ServiceError::Invalid(format!(
                "creating loop in the provider tree is not allowed. Resource provider {} would be below itself.",
                identity.uuid
            ))
            .into());
        }
        let Some(row) = offered::find(conn, &parent.to_string())? else {
            return Err(ServiceError::Invalid(format!("parent provider UUID does not exist: {parent}")).into());
        };
        above = row.parent_uuid.as_deref().map(|text| read_id("resource_providers.parent_uuid", text)).transpose()?;
    }
    Ok(())
}

pub(super) fn check_classes<'a>(conn: &mut Conn, classes: impl IntoIterator<Item = &'a String>) -> Result<(), TransactionError> {
    let custom: BTreeSet<String> = defined::classes(conn)?.into_iter().collect();
    let known = |class: &String| names::is_standard_class(class) || custom.contains(class);
    match classes.into_iter().find(|class| !known(class)) {
        Some(class) => Err(ServiceError::Invalid(format!("Unknown resource class in inventory: No such resource class {class}.")).into()),
        None => Ok(()),
    }
}

pub(super) fn check_inventory(class: &str, inventory: &Inventory) -> Result<(), ServiceError> {
    let invalid = |what: String| Err(ServiceError::Invalid(format!("JSON does not validate: the inventory of {class} {what}")));
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

pub(super) fn distinct(names: &[String]) -> Vec<String> {
    names.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}
