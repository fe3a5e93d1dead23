//! The providers of hosts as members of the aggregates of their hosts in Placement: what is missing there is found here, and added.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::domain::aggregate::Aggregate;
use crate::services::ServiceError;
use crate::services::placement::{PlacementService, Provider};

/// The reason why the members cannot be compared or added.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    /// The API database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// Placement.
    #[error(transparent)]
    Placement(#[from] ServiceError),
}

/// A host whose provider is not in an aggregate of the host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub struct MissingMember {
    /// The aggregate's id in Placement.
    pub aggregate: Uuid,
    /// The aggregate's name.
    pub name: String,
    /// The host's name.
    pub host: String,
}

/// How the aggregates of hosts differ from Placement's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// The members that can be added.
    pub missing: Vec<MissingMember>,
    /// Hosts of aggregates that no cell has.
    pub unmapped: BTreeSet<String>,
    /// Hosts of aggregates, each in a cell, without a resource provider.
    pub without_provider: BTreeSet<String>,
}

/// Compares all aggregates.
pub async fn compare(api: &ApiDb, placement: &dyn PlacementService) -> Result<Differences, MembersError> {
    let (aggregates, mappings) = (api.aggregates().await?, api.host_mappings().await?);
    let mapped: BTreeSet<String> = mappings.into_iter().map(|mapping| mapping.host).collect();
    let providers = placement.providers().await?;
    Ok(differences(&aggregates, &mapped, providers.iter()))
}

/// Adds what is missing. Providers that are gone since are left out.
pub async fn add(placement: &dyn PlacementService, missing: &[MissingMember]) -> Result<(), ServiceError> {
    placement.add_members(missing.iter().map(|one| (one.host.clone(), one.aggregate)).collect()).await
}

/// Adds what is missing of these hosts' own providers, at a start of the service.
pub async fn add_of_hosts(api: &ApiDb, placement: &dyn PlacementService, providers: Vec<Uuid>) -> Result<(), MembersError> {
    let aggregates = api.aggregates().await?;
    if aggregates.iter().all(|aggregate| aggregate.hosts.is_empty()) {
        return Ok(());
    }
    let providers = placement.roots_among(providers).await?;
    let hosts = providers.iter().map(|provider| provider.name.clone()).collect();
    let differences = differences(&aggregates, &hosts, providers.iter().map(|provider| &**provider));
    Ok(add(placement, &differences.missing).await?)
}

fn differences<'a>(aggregates: &[Aggregate], mapped: &BTreeSet<String>, providers: impl Iterator<Item = &'a Provider>) -> Differences {
    let providers: BTreeMap<&str, &Provider> = providers.map(|provider| (provider.name.as_str(), provider)).collect();
    let mut differences = Differences::default();
    for aggregate in aggregates {
        for host in &aggregate.hosts {
            let Some(provider) = providers.get(host.as_str()) else {
                let among = if mapped.contains(host) { &mut differences.without_provider } else { &mut differences.unmapped };
                among.insert(host.clone());
                continue;
            };
            if !provider.aggregates.iter().any(|member_of| member_of.id() == aggregate.uuid) {
                let (name, host) = (aggregate.name.clone(), host.clone());
                differences.missing.push(MissingMember { aggregate: aggregate.uuid, name, host });
            }
        }
    }
    differences
}
