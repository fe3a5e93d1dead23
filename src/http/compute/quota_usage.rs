//! What a project uses of its quotas, counted from the records.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::answer::forbidden;
use super::catalog::Catalog;
use crate::domain::flavor::Flavor;
use crate::domain::quota::{self, Limits};
use crate::http::error::ApiError;

/// What is used, by resource; what nobody counts is not in it.
pub type Usage = BTreeMap<&'static str, i64>;

/// Counts what a project, or one of its users, has: servers once each, whatever cells have records of them, and those that
/// are not in a cell yet. Key pairs are a user's and counted only for one.
pub async fn count(api: &Catalog, project: &str, user: Option<&str>) -> Result<Usage, ApiError> {
    let mut servers: BTreeMap<Uuid, Flavor> = BTreeMap::new();
    for bundle in api.api.build_requests(Some(project)).await? {
        if user.is_none_or(|user| bundle.instance.user_id == user) {
            servers.insert(bundle.instance.uuid, bundle.instance.flavor);
        }
    }
    for (_, (server, flavor)) in api.gather(|cell| cell.flavors_in_use(project, user)).await {
        servers.insert(server, flavor);
    }
    let groups = api.api.server_groups(Some(project)).await?;
    let mut usage = Usage::from([
        ("instances", servers.len() as i64),
        ("cores", servers.values().map(|flavor| i64::from(flavor.vcpus)).sum()),
        ("ram", servers.values().map(|flavor| i64::from(flavor.memory_mb)).sum()),
        ("server_groups", groups.iter().filter(|group| user.is_none_or(|user| group.user_id == user)).count() as i64),
    ]);
    if let Some(user) = user {
        usage.insert("key_pairs", api.api.key_pairs(user, None, None).await?.len() as i64);
    }
    Ok(usage)
}

/// What a project has and what it may have.
pub struct Room {
    limits: Limits,
    usage: Usage,
}

impl Room {
    /// Counted now.
    pub async fn of(api: &Catalog, project: &str) -> Result<Room, ApiError> {
        Ok(Room { limits: api.limits_of(project, None).await?, usage: count(api, project, None).await? })
    }

    /// 403 in Nova's words unless there is room for so many more servers, virtual CPUs and MiB of memory.
    pub fn check(&self, more: &[(&str, i64)]) -> Result<(), ApiError> {
        let used = |resource: &str| self.usage.get(resource).copied().unwrap_or(0);
        let over: Vec<_> = more.iter().filter(|(resource, amount)| !quota::fits(&self.limits, resource, used(resource), *amount)).collect();
        if over.is_empty() {
            return Ok(());
        }
        let list = |figure: &dyn Fn(&str, i64) -> i64| {
            over.iter().map(|(resource, amount)| figure(resource, *amount).to_string()).collect::<Vec<_>>().join(", ")
        };
        let names = over.iter().map(|(resource, _)| *resource).collect::<Vec<_>>().join(", ");
        Err(forbidden(format!(
            "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
            list(&|_, amount| amount),
            list(&|resource, _| used(resource)),
            list(&|resource, _| self.limits.get(resource).copied().unwrap_or(-1)),
        )))
    }
}
