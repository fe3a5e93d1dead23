//! Allocations of consumers: replaced as a whole, within capacity, under generations.

pub(super) mod bodies;
pub(super) mod records;
pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};

use cellshift_domain::reason;
use cellshift_domain::reason::ReasonCode;
use cellshift_env::guard::{Guard, stands};
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::inventories::records::{self as inventory_rows, InventoryRow};
use super::resource_classes::records as class_rows;
use super::resource_providers::records as provider_rows;
use super::{AMOUNT_MAX, Allocations, EmbeddedPlacement, names};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as consumption, AllocationRow, ConsumerRow};

impl EmbeddedPlacement {
    /// Replaces the allocations of several consumers together or not at all, for an API caller. Each generation must be the stored one,
    /// even if nothing would change.
    pub async fn put_allocations(&self, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.write(None, move |conn| replace(conn, &changes, Repeat::Refused)).await
    }

    /// Removes a consumer's allocations, at any generation.
    pub async fn delete_allocations(&self, consumer: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| remove(conn, consumer)).await
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
}

/// A consumer's amounts from one provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldOfProvider {
    /// The consumer's generation.
    pub generation: i64,
    /// By class.
    pub amounts: BTreeMap<String, i64>,
}

/// The answer to a change with a stale generation that would change nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Success: the same effect was delivered twice.
    Fine,
    /// Conflict: an API caller's view is stale.
    Refused,
}

/// Amounts by provider and class, with ids as text.
type Amounts = BTreeMap<Key, i64>;
/// Provider and class.
type Key = (String, String);
/// The inventories of the affected providers.
type Stock = BTreeMap<Key, InventoryRow>;

struct Before {
    consumer: Option<ConsumerRow>,
    held: Amounts,
}

/// Replaces the allocations of all consumers in `changes`.
pub(super) fn replace(conn: &mut Conn, changes: &[Allocations], repeat: Repeat) -> Result<(), TransactionError> {
    check_form(changes)?;
    let mut before = BTreeMap::new();
    for change in changes {
        let id = change.consumer.to_string();
        let consumer = consumption::consumer(conn, &id)?;
        let held = if consumer.is_some() { held_by(conn, &id)? } else { Amounts::new() };
        before.insert(change.consumer, Before { consumer, held });
    }
    if stands(Guard::RepeatedAllocation)
        && repeat == Repeat::Fine
        && changes.iter().all(|change| is_done(change, &before[&change.consumer]))
    {
        return Ok(());
    }
    for change in changes {
        check_generation(change, before[&change.consumer].consumer.as_ref())?;
    }
    let mut deltas = Amounts::new();
    // By provider, whether something is taken of it anew; what only gives back keeps its generation, as in Placement.
    let mut providers: BTreeMap<String, bool> = BTreeMap::new();
    for change in changes {
        let old = &before[&change.consumer].held;
        let new = amounts_of(change);
        for (provider, _) in old.keys() {
            providers.entry(provider.clone()).or_insert(false);
        }
        providers.extend(new.keys().map(|(provider, _)| (provider.clone(), true)));
        for (key, amount) in old {
            add(&mut deltas, key, -*amount)?;
        }
        for (key, amount) in &new {
            add(&mut deltas, key, *amount)?;
        }
    }
    // All writers lock the providers in one order, so that two writers never deadlock.
    for (provider, takes) in &providers {
        let is_there = if *takes { provider_rows::bump(conn, provider, None)? } else { provider_rows::hold(conn, provider)? };
        if !is_there {
            return Err(ServiceError::Invalid(reason!("Allocation for resource provider '{provider}' that does not exist.")).into());
        }
    }
    let rows = inventory_rows::of_providers(conn, Of::These(&providers.into_keys().collect::<Vec<_>>()))?;
    let stock: Stock = rows.into_iter().map(|row| ((row.provider_uuid.clone(), row.resource_class.clone()), row)).collect();
    check_classes(conn, changes, &stock)?;
    for change in changes {
        check_units(change, &deltas, &stock)?;
    }
    deltas.retain(|_, delta| *delta != 0);
    for (key, delta) in &deltas {
        check_capacity(&stock, key, *delta)?;
    }
    let amounts: Vec<(&str, &str, i64)> = deltas.iter().map(|((provider, class), delta)| (&**provider, &**class, *delta)).collect();
    inventory_rows::add_used(conn, &amounts)?;
    let mut ordered: Vec<&Allocations> = changes.iter().collect();
    ordered.sort_by_key(|change| change.consumer);
    for change in ordered {
        write_consumer(conn, change, before[&change.consumer].consumer.as_ref())?;
    }
    Ok(())
}

/// Removes a consumer's allocations. NotFound if it has none.
pub(super) fn remove(conn: &mut Conn, consumer: Uuid) -> Result<(), TransactionError> {
    let Some(mut now) = of_consumer(conn, consumer)? else {
        return Err(ServiceError::NotFound(reason!("No allocations for consumer '{consumer}'")).into());
    };
    now.allocations.clear();
    replace(conn, &[now], Repeat::Refused)
}

/// Returns a consumer and its allocations.
pub(super) fn of_consumer(conn: &mut Conn, consumer: Uuid) -> Result<Option<Allocations>, DbError> {
    let id = consumer.to_string();
    match consumption::consumer(conn, &id)? {
        None => Ok(None),
        Some(row) => {
            let rows = consumption::of_consumer(conn, &id)?;
            Ok(Some(from_rows(row, rows)?))
        }
    }
}

/// Converts rows into allocations for callers.
pub(super) fn from_rows(consumer: ConsumerRow, rows: Vec<AllocationRow>) -> Result<Allocations, DbError> {
    let mut allocations: BTreeMap<Uuid, BTreeMap<String, i64>> = BTreeMap::new();
    for row in rows {
        let provider = read_id("allocations.provider_uuid", &row.provider_uuid)?;
        allocations.entry(provider).or_default().insert(row.resource_class, row.used);
    }
    Ok(Allocations {
        consumer: read_id("consumers.uuid", &consumer.uuid)?,
        consumer_generation: Some(consumer.generation),
        project_id: consumer.project_id,
        user_id: consumer.user_id,
        consumer_type: consumer.consumer_type,
        allocations,
    })
}

fn check_form(changes: &[Allocations]) -> Result<(), ServiceError> {
    let mut seen = BTreeSet::new();
    for change in changes {
        if !seen.insert(change.consumer) {
            return Err(ServiceError::Invalid(reason!("consumer {} is named twice", change.consumer)));
        }
        for (class, amount) in change.allocations.values().flatten() {
            let wrong = match *amount {
                amount if amount < 1 => "less than the minimum of 1".to_owned(),
                amount if amount > AMOUNT_MAX => format!("greater than the maximum of {AMOUNT_MAX}"),
                _ => continue,
            };
            return Err(ServiceError::Invalid(reason!("JSON does not validate: an allocation of {amount} of {class} is {wrong}")));
        }
    }
    Ok(())
}

/// Adds with a check for overflow: amounts stored by an older release had no bound.
fn add(deltas: &mut Amounts, key: &Key, amount: i64) -> Result<(), ServiceError> {
    let sum = deltas.entry(key.clone()).or_insert(0);
    *sum = sum.checked_add(amount).ok_or_else(|| {
        ServiceError::Invalid(reason!("The amounts of {} on resource provider {} are too large to be added", key.1, key.0))
    })?;
    Ok(())
}

fn held_by(conn: &mut Conn, consumer: &str) -> Result<Amounts, DbError> {
    Ok(consumption::of_consumer(conn, consumer)?.into_iter().map(|row| ((row.provider_uuid, row.resource_class), row.used)).collect())
}

fn amounts_of(change: &Allocations) -> Amounts {
    let amounts = |(provider, classes): (&Uuid, &BTreeMap<String, i64>)| {
        let provider = provider.to_string();
        classes.iter().map(|(class, amount)| ((provider.clone(), class.clone()), *amount)).collect::<Vec<_>>()
    };
    change.allocations.iter().flat_map(amounts).collect()
}

fn is_done(change: &Allocations, before: &Before) -> bool {
    let amounts = amounts_of(change);
    match &before.consumer {
        None => amounts.is_empty(),
        Some(row) => {
            amounts == before.held
                && row.project_id == change.project_id
                && row.user_id == change.user_id
                && row.consumer_type == change.consumer_type
        }
    }
}

fn check_generation(change: &Allocations, stored: Option<&ConsumerRow>) -> Result<(), ServiceError> {
    let stored = stored.map(|row| row.generation);
    let is_outdated = stands(Guard::ConsumerGeneration) && stored != change.consumer_generation;
    if !is_outdated {
        return Ok(());
    }
    let say = |generation: Option<i64>| generation.map_or_else(|| "null".to_owned(), |number| number.to_string());
    Err(ServiceError::Conflict(
        reason!(
            "consumer generation conflict - expected {} but got {} for consumer {}",
            say(stored),
            say(change.consumer_generation),
            change.consumer
        )
        .coded(ReasonCode::ConcurrentUpdate),
    ))
}

/// Checks a consumer's amounts against the inventories' units, but only amounts that grow: a held amount may always be kept, moved to
/// another consumer or returned, even if the inventory has changed.
fn check_units(change: &Allocations, deltas: &Amounts, stock: &Stock) -> Result<(), ServiceError> {
    for (key, amount) in amounts_of(change) {
        let grows = deltas.get(&key).is_some_and(|delta| *delta > 0);
        if !grows {
            continue;
        }
        let (row, (provider, class)) = (find(stock, &key)?, &key);
        if amount < row.min_unit || amount > row.max_unit || amount % row.step_size.max(1) != 0 {
            return Err(ServiceError::Conflict(reason!(
                "Unable to allocate inventory for '{class}' on resource provider '{provider}'. The requested amount would violate inventory constraints: {amount} does not fit min_unit {}, max_unit {} or step_size {}",
                row.min_unit,
                row.max_unit,
                row.step_size
            )));
        }
    }
    Ok(())
}

fn check_capacity(stock: &Stock, key: &Key, delta: i64) -> Result<(), ServiceError> {
    if delta < 0 {
        return Ok(());
    }
    let (row, (provider, class)) = (find(stock, key)?, key);
    let capacity = row.inventory().capacity();
    let room = capacity.saturating_sub(row.used);
    if stands(Guard::Capacity) && delta > room {
        return Err(ServiceError::Conflict(reason!(
            "Unable to allocate inventory for '{class}' on resource provider '{provider}'. The requested amount would exceed the capacity: {delta} more of {capacity}, of which {} are used",
            row.used
        )));
    }
    Ok(())
}

/// Refuses a class that does not exist, which is among those that their providers do not offer.
fn check_classes(conn: &mut Conn, changes: &[Allocations], stock: &Stock) -> Result<(), TransactionError> {
    let keys = changes.iter().flat_map(|change| amounts_of(change).into_keys().map(|key| (change.consumer, key)));
    let in_doubt: Vec<(Uuid, String)> = keys
        .filter(|(_, key)| !stock.contains_key(key) && !names::is_standard_class(&key.1))
        .map(|(consumer, (_, class))| (consumer, class))
        .collect();
    if in_doubt.is_empty() {
        return Ok(());
    }
    let custom: BTreeSet<String> = class_rows::custom(conn)?.into_iter().collect();
    match in_doubt.into_iter().find(|(_, class)| !custom.contains(class)) {
        Some((consumer, class)) => {
            let text = reason!("Unable to allocate inventory for consumer '{consumer}': No such resource class {class}.");
            Err(ServiceError::Invalid(text).into())
        }
        None => Ok(()),
    }
}

fn find<'a>(stock: &'a Stock, key: &Key) -> Result<&'a InventoryRow, ServiceError> {
    stock.get(key).ok_or_else(|| {
        let (provider, class) = key;
        ServiceError::Conflict(reason!(
            "Unable to allocate inventory: Inventory for '{class}' on resource provider '{provider}' does not exist"
        ))
    })
}

fn write_consumer(conn: &mut Conn, change: &Allocations, stored: Option<&ConsumerRow>) -> Result<(), TransactionError> {
    let id = change.consumer.to_string();
    let amounts = amounts_of(change);
    let moved_on = || {
        let reason = reason!("consumer generation conflict - consumer {} was changed meanwhile", change.consumer);
        ServiceError::Conflict(reason.coded(ReasonCode::ConcurrentUpdate))
    };
    if amounts.is_empty() {
        if let Some(row) = stored {
            consumption::delete_of_consumer(conn, &id)?;
            if !consumption::delete_consumer(conn, &id, row.generation)? {
                return Err(moved_on().into());
            }
        }
        return Ok(());
    }
    let row = ConsumerRow {
        uuid: id.clone(),
        project_id: change.project_id.clone(),
        user_id: change.user_id.clone(),
        consumer_type: change.consumer_type.clone(),
        generation: stored.map_or(1, |row| row.generation + 1),
    };
    match stored {
        None => consumption::insert_consumer(conn, &row)?,
        Some(_) if consumption::update_consumer(conn, &row)? => consumption::delete_of_consumer(conn, &id)?,
        Some(_) => return Err(moved_on().into()),
    }
    let of_class =
        |((provider, class), used)| AllocationRow { consumer_uuid: id.clone(), provider_uuid: provider, resource_class: class, used };
    Ok(consumption::insert_all(conn, &amounts.into_iter().map(of_class).collect::<Vec<_>>())?)
}

/// Returns the allocations of all consumers, ordered by consumer.
pub(super) fn all(conn: &mut Conn) -> Result<Vec<Allocations>, DbError> {
    let mut held: BTreeMap<String, Vec<consumption::AllocationRow>> = BTreeMap::new();
    for row in consumption::all(conn)? {
        held.entry(row.consumer_uuid.clone()).or_default().push(row);
    }
    let mut all = Vec::new();
    for consumer in consumption::consumers_all(conn)? {
        let rows = held.remove(&consumer.uuid).unwrap_or_default();
        all.push(from_rows(consumer, rows)?);
    }
    Ok(all)
}
