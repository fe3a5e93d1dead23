//! Aggregates of a provider: groups of providers that clients make and name by ids, in the spelling that they sent.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use std::collections::{BTreeMap, BTreeSet};

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, Of};
use uuid::Uuid;

use super::resource_providers::{absent, named, one, raise, records as provider_rows};
use super::{AggregateId, EmbeddedPlacement, Provider, names};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};

impl EmbeddedPlacement {
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
                None if provider_rows::hold(conn, &uuid.to_string())? => {}
                None => return Err(absent(uuid).into()),
            }
            let texts: Vec<String> = aggregates.iter().map(|aggregate| aggregate.text().to_owned()).collect();
            records::set(conn, &uuid.to_string(), &names::distinct(&texts))?;
            one(conn, uuid)
        })
        .await
    }
}

/// Puts the provider with this name into an aggregate or takes it out, in every spelling. A change raises the generation.
pub(super) fn set_member(conn: &mut Conn, name: &str, aggregate: Uuid, is_member: bool) -> Result<(), TransactionError> {
    let Some(uuid) = named(conn, name)? else {
        return Err(ServiceError::NotFound(reason!("No resource provider with name {name} found")).into());
    };
    let id = uuid.to_string();
    // Locked before the aggregates are read: another writer's are then not lost.
    if !provider_rows::hold(conn, &id)? {
        return Err(absent(uuid).into());
    }
    let present = records::of_providers(conn, Of::These(std::slice::from_ref(&id)))?;
    let is_same = |text: &String| Uuid::parse_str(text).is_ok_and(|id| id == aggregate);
    let (own, mut others): (Vec<String>, Vec<String>) = present.into_iter().map(|(_, text)| text).partition(is_same);
    if own.is_empty() != is_member {
        return Ok(());
    }
    if is_member {
        others.push(aggregate.to_string());
    }
    raise(conn, uuid, None)?;
    Ok(records::set(conn, &id, &others)?)
}

/// Puts the providers with these names into aggregates. Raises the generation of each that changes.
pub(super) fn add_members(conn: &mut Conn, members: &[(String, Uuid)]) -> Result<(), TransactionError> {
    let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
    let ids: BTreeMap<String, String> = provider_rows::list_named(conn, &names)?.into_iter().map(|row| (row.name, row.uuid)).collect();
    let present: BTreeSet<(String, Option<Uuid>)> = records::of_providers(conn, Of::These(&ids.values().cloned().collect::<Vec<_>>()))?
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
    Ok(records::add(conn, &missing)?)
}
