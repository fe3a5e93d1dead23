//! The quota usage of projects.
//!
//! Servers, cores and memory are counted from mappings and request specs in the API database. No cell is asked, so the figures are right
//! while a cell is down. A server counts once, with its present flavor, until its delete is accepted.
//!
//! With `from_placement`, cores and memory are the project's allocations: a move then holds both sides until it is confirmed or reverted,
//! and a server without a host holds nothing. If an older release left incomplete mappings, each cell counts its servers, and the answer
//! names silent cells that may have servers of the project.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::header::HeaderName;
use uuid::Uuid;

use super::answer::{Answer, forbidden};
use super::catalog::{Catalog, Gathered};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::policy::Target;
use crate::domain::quota::{self, CountedRoom, Limits, ProjectServers, QuotaLimits, ServerUsage};
use crate::domain::quota_grant::CheckedRoom;
use crate::http::error::{ApiError, ErrorForm};

/// The header that lists the cells not counted: the figures are lower bounds. Only such answers have it.
pub const INCOMPLETE: &str = "x-cellshift-incomplete";

/// The policy rule: may the caller create a server while a cell with servers of the project cannot be counted (docs/DOWN-CELLS.md)?
const CELL_DOWN: &str = "os_compute_api:servers:create:cell_down";

/// The resources that servers use.
const BY_SERVERS: [&str; 3] = ["instances", "cores", "ram"];

/// The resources that are counted for each user alone: only the user's limit holds.
pub const BY_USER: [&str; 2] = ["key_pairs", "server_group_members"];

/// The method of counting quota usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Counts cores and memory in placement; otherwise from the request specs.
    pub from_placement: bool,
    /// Counts again in the commit that uses up the quota.
    pub recheck: bool,
}

/// The usage by resource, without resources that nobody counts.
pub type Usage = BTreeMap<&'static str, i64>;

/// A count, and the cells that are missing from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted {
    pub usage: Usage,
    /// The cells whose servers are not counted.
    pub missing: Vec<String>,
}

/// Counts the usage of a project, or of one of its users. Key pairs belong to a user, so they are counted for a user only.
pub async fn count(api: &Catalog, project: &str, user: Option<&str>) -> Result<Counted, ApiError> {
    let ByServers { usage: servers, missing, .. } = count_servers(api, project, user).await?;
    let mut usage = Usage::from(servers.by_resource());
    let groups = api.api.server_groups(Some(project)).await?;
    usage.insert("server_groups", groups.iter().filter(|group| user.is_none_or(|user| group.user_id == user)).count() as i64);
    if let Some(user) = user {
        usage.insert("key_pairs", api.api.key_pairs(user, None, None).await?.len() as i64);
    }
    Ok(Counted { usage, missing })
}

/// Names the missing cells in an answer's headers.
pub fn tell_missing(answer: Answer, missing: &[String]) -> Answer {
    let mut response = answer?;
    if let (false, Ok(cells)) = (missing.is_empty(), missing.join(", ").parse()) {
        response.headers_mut().insert(HeaderName::from_static(INCOMPLETE), cells);
    }
    Ok(response)
}

/// The usage of a project's servers.
struct ByServers {
    usage: ServerUsage,
    missing: Vec<String>,
    /// The id of the newest counted mapping.
    newest: i32,
}

async fn count_servers(api: &Catalog, project: &str, user: Option<&str>) -> Result<ByServers, ApiError> {
    // Reads the mappings first: a server whose claim or record comes later is among them, and a server that comes later is left out.
    let mapped = api.api.project_servers(project, user).await?;
    match mapped.populated {
        true if api.counting.from_placement => in_placement(api, project, user, &mapped).await,
        true => Ok(ByServers { usage: mapped.usage, missing: Vec::new(), newest: mapped.newest }),
        false => in_cells(api, project, user, &mapped).await,
    }
}

async fn in_placement(api: &Catalog, project: &str, user: Option<&str>, mapped: &ProjectServers) -> Result<ByServers, ApiError> {
    let held = api.placement.held_by_project(project).await;
    let held = held.map_err(|error| ApiError::from_service(ErrorForm::Compute, error))?;
    let came_since = api.api.servers_since(project, mapped.newest).await?;
    let counts = |consumer: &Uuid| !mapped.leaving.contains(consumer) && !came_since.contains(consumer);
    let (mut cores, mut ram) = (0, 0);
    let mut claimed = BTreeSet::new();
    for one in held.iter().filter(|one| user.is_none_or(|user| one.user_id == user) && counts(&one.consumer)) {
        claimed.insert(one.consumer);
        cores += one.amounts.get("VCPU").copied().unwrap_or(0);
        ram += one.amounts.get("MEMORY_MB").copied().unwrap_or(0);
    }
    let unclaimed = mapped.building.iter().filter(|(server, _)| !claimed.contains(server));
    let unclaimed: ServerUsage = unclaimed.map(|(_, flavor)| ServerUsage { instances: 0, ..ServerUsage::by(1, flavor) }).sum();
    let usage = ServerUsage { instances: mapped.usage.instances, cores, ram } + unclaimed;
    Ok(ByServers { usage, missing: Vec::new(), newest: mapped.newest })
}

/// Counts each server once, even if several cells have records of it, and servers that no cell has yet.
async fn in_cells(api: &Catalog, project: &str, user: Option<&str>, mapped: &ProjectServers) -> Result<ByServers, ApiError> {
    let mut servers: BTreeMap<Uuid, Flavor> = mapped.building.iter().cloned().collect();
    let Gathered { rows, mut silent } = api.gather_named(|cell| cell.flavors_in_use(project, user)).await;
    servers.extend(rows.into_iter().map(|(_, server)| server));
    let came_since = api.api.servers_since(project, mapped.newest).await?;
    servers.retain(|server, _| !mapped.leaving.contains(server) && !came_since.contains(server));
    if !silent.is_empty() {
        let needed = api.api.cells_of_project(Some(project), false).await?;
        silent.retain(|cell| needed.contains(&cell.uuid));
    }
    let missing = silent.into_iter().map(|cell| cell.name).collect();
    let usage = servers.values().map(|flavor| ServerUsage::by(1, flavor)).sum();
    Ok(ByServers { usage, missing, newest: mapped.newest })
}

/// The holders of a quota: a project, and one of its users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder<'a> {
    pub project: &'a str,
    pub user: &'a str,
}

impl<'a> From<&'a RequestContext> for Holder<'a> {
    fn from(caller: &'a RequestContext) -> Holder<'a> {
        Holder { project: &caller.project_id, user: &caller.user_id }
    }
}

/// A server counts for its own project and user, whoever changes it.
impl<'a> From<&'a Instance> for Holder<'a> {
    fn from(server: &'a Instance) -> Holder<'a> {
        Holder { project: &server.project_id, user: &server.user_id }
    }
}

impl<'a> Holder<'a> {
    /// Returns the holders of what a caller writes into a server.
    pub fn of_writer(caller: &'a RequestContext, server: &'a Instance) -> Holder<'a> {
        Holder { project: &server.project_id, user: &caller.user_id }
    }

    /// Returns the limits of both.
    pub async fn limits(self, api: &Catalog) -> Result<QuotaLimits, DbError> {
        api.limits_of(self.project, Some(self.user)).await
    }
}

/// The usage and limits of a project, and of one of its users.
pub struct Room {
    project: Share,
    /// None if the user has no limits of their own.
    user: Option<Share>,
    recheck: bool,
}

/// The usage and limits of servers.
struct Share {
    limits: Limits,
    servers: ByServers,
}

impl Share {
    fn used(&self, resource: &str) -> i64 {
        self.servers.usage.of(resource)
    }

    fn counted(&self, of_user: Option<Box<CountedRoom>>) -> CountedRoom {
        CountedRoom { limits: self.limits.clone(), used: self.servers.usage, newest: self.servers.newest, of_user }
    }
}

impl Room {
    /// Counts the usage now.
    pub async fn of(api: &Catalog, holder: Holder<'_>) -> Result<Room, ApiError> {
        let limits = holder.limits(api).await?;
        let mut project = limited(&limits.project, &BY_SERVERS);
        let own = limited(&limits.own, &BY_SERVERS);
        // Members of a group are counted by user.
        project.extend(limited(&limits.of_user(), &["server_group_members"]));
        let servers = count_servers(api, holder.project, None).await?;
        let user = match own.is_empty() {
            true => None,
            false => Some(Share { limits: own, servers: count_servers(api, holder.project, Some(holder.user)).await? }),
        };
        Ok(Room { project: Share { limits: project, servers }, user, recheck: api.counting.recheck })
    }

    /// Answers 403 if servers of the project could not be counted, unless the caller may proceed without them.
    pub fn check_complete(&self, api: &Catalog, caller: &RequestContext) -> Result<(), ApiError> {
        let missing = &self.project.servers.missing;
        if missing.is_empty() || api.policy.check(CELL_DOWN, caller, &Target::own(caller)) {
            return Ok(());
        }
        Err(forbidden(format!(
            "Quota cannot be checked now: this project has servers in {}, which cannot be reached. Try again when that has ended.",
            missing.join(", ")
        )))
    }

    /// Answers 403 with Nova's message unless there is room for `more` servers, virtual CPUs and MiB of memory.
    pub fn check(&self, more: &[(&str, i64)]) -> Result<(), ApiError> {
        let of_user = || self.user.as_ref().and_then(|user| quota::refusal_of_user(&user.limits, |resource| user.used(resource), more));
        match quota::refusal(&self.project.limits, |resource| self.project.used(resource), more).or_else(of_user) {
            None => Ok(()),
            Some(why) => Err(forbidden(why)),
        }
    }

    /// Checks the room as [`Room::check`] does, and returns it for the requests of the servers that take it.
    pub fn for_servers(self, more: &[(&str, i64)]) -> Result<CheckedRoom, ApiError> {
        self.check(more)?;
        Ok(self.counted_for_again().map_or_else(CheckedRoom::without_second_check, CheckedRoom::to_be_checked_again))
    }

    /// Returns the count that the accepting commit must check again; none if the configuration does not require it.
    pub fn counted_for_again(&self) -> Option<CountedRoom> {
        let needed = self.recheck && (!self.project.limits.is_empty() || self.user.is_some());
        needed.then(|| self.project.counted(self.user.as_ref().map(|user| Box::new(user.counted(None)))))
    }
}

/// Returns the limits of these resources that are limited.
fn limited(limits: &Limits, names: &[&str]) -> Limits {
    let limited = limits.iter().filter(|(name, limit)| names.contains(&name.as_str()) && **limit >= 0);
    limited.map(|(name, limit)| (name.clone(), *limit)).collect()
}
