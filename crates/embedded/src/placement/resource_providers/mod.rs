//! Providers: their names and their places in trees, what their hosts report of them, and how they are read with all that they have.

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

use super::aggregates::records as aggregate_rows;
use super::inventories::records::{self as inventory_rows, InventoryRow};
use super::mirror::Providers;
use super::resource_classes::records as class_rows;
use super::traits::records as trait_rows;
use super::{AggregateId, EmbeddedPlacement, Inventory, Provider, inventories, names, traits};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::ProviderRow;

/// A provider's name and parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub uuid: Uuid,
    pub name: String,
    pub parent: Option<Uuid>,
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
            if records::find(conn, &identity.uuid.to_string())?.is_some() {
                return Err(conflict("uuid", &identity.uuid.to_string()).into());
            }
            if records::find_named(conn, &identity.name)?.is_some() {
                return Err(conflict("name", &identity.name).into());
            }
            let parent_uuid = identity.parent.map(|parent| parent.to_string());
            records::insert(conn, &ProviderRow { uuid: identity.uuid.to_string(), name: identity.name, generation: 0, parent_uuid })?;
            one(conn, identity.uuid)
        })
        .await
    }

    /// Renames a provider or sets its parent.
    pub async fn update_provider(&self, identity: Identity) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            check_parent(conn, &identity)?;
            let id = identity.uuid.to_string();
            if records::find_named(conn, &identity.name)?.is_some_and(|row| row.uuid != id) {
                return Err(conflict("name", &identity.name).into());
            }
            if !records::hold(conn, &id)? {
                return Err(absent(identity.uuid).into());
            }
            records::set_identity(conn, &id, &identity.name, identity.parent.map(|parent| parent.to_string()).as_deref())?;
            one(conn, identity.uuid)
        })
        .await
    }

    /// Removes a provider. Conflict while it has allocations or children.
    pub async fn delete_provider(&self, uuid: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let id = uuid.to_string();
            if !records::hold(conn, &id)? {
                return Err(ServiceError::NotFound(reason!("No resource provider with uuid {uuid} found for delete")).into());
            }
            if records::is_used(conn, &id)? {
                return Err(ServiceError::Conflict(
                    reason!("Unable to delete resource provider {uuid}: Resource provider has allocations.")
                        .coded(ReasonCode::ProviderInUse),
                )
                .into());
            }
            if records::has_children(conn, &id)? {
                return Err(ServiceError::Conflict(
                    reason!("Unable to delete parent resource provider {uuid}: It has child resource providers.")
                        .coded(ReasonCode::ProviderWithChildren),
                )
                .into());
            }
            records::delete(conn, &id)?;
            Ok(())
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
        inventories::check(class, inventory)?;
    }
    let id = uuid.to_string();
    for class in inventories.keys().filter(|class| names::is_custom(class)) {
        class_rows::define(conn, class)?;
    }
    let Some(row) = records::find(conn, &id)? else { return make(conn, &id, name, inventories, traits) };
    raise(conn, uuid, None)?;
    records::set_identity(conn, &id, name, row.parent_uuid.as_deref())?;
    for (class, inventory) in inventories {
        inventory_rows::put(conn, &InventoryRow::new(&id, class, inventory))?;
    }
    let of_others = trait_rows::of_providers(conn, Of::These(std::slice::from_ref(&id)))?.into_iter().map(|(_, name)| name);
    let all: Vec<String> = of_others.chain(traits.iter().cloned()).collect();
    traits::set_reported(conn, &id, &all)
}

/// Creates a host's provider.
fn make(
    conn: &mut Conn,
    id: &str,
    name: &str,
    inventories: &BTreeMap<String, Inventory>,
    traits: &[String],
) -> Result<(), TransactionError> {
    records::insert(conn, &ProviderRow { uuid: id.to_owned(), name: name.to_owned(), generation: 1, parent_uuid: None })?;
    for (class, inventory) in inventories {
        inventory_rows::add(conn, &InventoryRow::new(id, class, inventory))?;
    }
    match traits.is_empty() {
        true => Ok(()),
        false => traits::set_reported(conn, id, traits),
    }
}

/// Removes a host's inventories and traits, so that nothing can be allocated from its provider. Conflict if something is. Succeeds if there
/// is no provider.
pub(super) fn empty(conn: &mut Conn, uuid: Uuid) -> Result<(), TransactionError> {
    let id = uuid.to_string();
    if records::find(conn, &id)?.is_none() {
        return Ok(());
    }
    raise(conn, uuid, None)?;
    inventories::replace(conn, &id, &BTreeMap::new())?;
    Ok(trait_rows::set(conn, &id, &[])?)
}

/// Returns the id of the provider with this name.
pub(super) fn named(conn: &mut Conn, name: &str) -> Result<Option<Uuid>, TransactionError> {
    let row = records::find_named(conn, name)?;
    Ok(row.map(|row| read_id("resource_providers.uuid", &row.uuid)).transpose()?)
}

/// Returns all providers with their parents, ordered by name.
pub(super) fn all(conn: &mut Conn) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let rows = records::list(conn, Of::All)?;
    with_parents(conn, rows, Of::All)
}

/// Returns the providers of these roots' trees with their parents, ordered by name. Reads a level with each statement.
pub(super) fn trees(conn: &mut Conn, roots: &[Uuid]) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let mut above: Vec<String> = roots.iter().map(Uuid::to_string).collect();
    let mut inside: BTreeSet<String> = above.iter().cloned().collect();
    let mut rows = records::list(conn, Of::These(&above))?;
    while !above.is_empty() {
        let mut children = records::children_of(conn, &above)?;
        // A circle cannot be stored, and adds nothing.
        children.retain(|row| inside.insert(row.uuid.clone()));
        above = children.iter().map(|row| row.uuid.clone()).collect();
        rows.extend(children);
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let ids: Vec<String> = rows.iter().map(|row| row.uuid.clone()).collect();
    with_parents(conn, rows, Of::These(&ids))
}

/// Adds inventories, traits and aggregates to provider rows, and keeps the order of `rows`.
pub(super) fn assemble(conn: &mut Conn, rows: Vec<ProviderRow>, of: Of<'_>) -> Result<Vec<Provider>, DbError> {
    let mut inventories: BTreeMap<String, Vec<InventoryRow>> = BTreeMap::new();
    for row in inventory_rows::of_providers(conn, of)? {
        inventories.entry(row.provider_uuid.clone()).or_default().push(row);
    }
    let mut traits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (provider, name) in trait_rows::of_providers(conn, of)? {
        traits.entry(provider).or_default().push(name);
    }
    let mut aggregates: BTreeMap<String, Vec<AggregateId>> = BTreeMap::new();
    for (provider, aggregate) in aggregate_rows::of_providers(conn, of)? {
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
                inventories: stock.iter().map(|row| (row.resource_class.clone(), row.inventory())).collect(),
                traits: traits.remove(&row.uuid).unwrap_or_default(),
                aggregates: aggregates.remove(&row.uuid).unwrap_or_default(),
            })
        })
        .collect()
}

/// Adds parents, inventories, traits and aggregates to provider rows, and keeps the order of `rows`.
pub(super) fn with_parents(conn: &mut Conn, rows: Vec<ProviderRow>, of: Of<'_>) -> Result<Vec<(Provider, Option<Uuid>)>, DbError> {
    let parents: Vec<Option<Uuid>> = rows
        .iter()
        .map(|row| row.parent_uuid.as_deref().map(|text| read_id("resource_providers.parent_uuid", text)).transpose())
        .collect::<Result<_, _>>()?;
    Ok(assemble(conn, rows, of)?.into_iter().zip(parents).collect())
}

/// Returns a provider with its parent. NotFound if there is none.
pub(super) fn one(conn: &mut Conn, uuid: Uuid) -> Result<(Provider, Option<Uuid>), TransactionError> {
    let rows: Vec<ProviderRow> = records::find(conn, &uuid.to_string())?.into_iter().collect();
    with_parents(conn, rows, Of::These(&[uuid.to_string()]))?.pop().ok_or_else(|| absent(uuid).into())
}

/// Raises a provider's generation, and locks its row for the rest of the transaction. Conflict if the generation is not the one `seen`.
pub(super) fn raise(conn: &mut Conn, uuid: Uuid, seen: Option<i64>) -> Result<(), TransactionError> {
    let id = uuid.to_string();
    if records::bump(conn, &id, seen)? {
        return Ok(());
    }
    match records::find(conn, &id)? {
        None => Err(absent(uuid).into()),
        Some(row) => {
            let seen = seen.map_or_else(|| "none".to_owned(), |seen| seen.to_string());
            let reason = reason!(
                "resource provider generation conflict for provider {uuid}: actual: {}, given: {seen}. \
                 Resource provider's generation already changed. Please update the generation and try again.",
                row.generation
            );
            Err(ServiceError::Conflict(reason.coded(ReasonCode::ConcurrentUpdate)).into())
        }
    }
}

fn conflict(what: &str, value: &str) -> ServiceError {
    let reason = reason!("Conflicting resource provider {what}: {value} already exists.");
    ServiceError::Conflict(if what == "name" { reason.coded(ReasonCode::DuplicateName) } else { reason })
}

pub(super) fn absent(uuid: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("No resource provider with uuid {uuid} found"))
}

fn check_parent(conn: &mut Conn, identity: &Identity) -> Result<(), TransactionError> {
    let mut above = identity.parent;
    while let Some(parent) = above {
        if parent == identity.uuid {
            return Err(ServiceError::Invalid(reason!(
                "creating loop in the provider tree is not allowed. Resource provider {} would be below itself.",
                identity.uuid
            ))
            .into());
        }
        let Some(row) = records::find(conn, &parent.to_string())? else {
            return Err(ServiceError::Invalid(reason!("parent provider UUID does not exist: {parent}")).into());
        };
        above = row.parent_uuid.as_deref().map(|text| read_id("resource_providers.parent_uuid", text)).transpose()?;
    }
    Ok(())
}
