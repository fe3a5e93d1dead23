//! What a project uses of its quotas.
//!
//! Servers, cores and memory are counted from the mappings and request specs of the API database: no cell is asked, so the figures
//! are right while one is down. A server counts once, with the flavor that it has, from its acceptance until its delete is accepted.
//! Where the deployment chose so, cores and memory are what placement holds for the project: a move then holds both sides until it
//! is confirmed or reverted, and a server that found no host holds nothing. Where an older release left mappings that do not say
//! enough, servers are counted in each cell; a cell that is silent is then named, if servers of the project may be in it.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::header::HeaderName;
use uuid::Uuid;

use super::answer::{Answer, forbidden};
use super::catalog::{Catalog, Gathered};
use crate::db::api::project_servers::ProjectServers;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::domain::policy::Target;
use crate::domain::quota::{self, CountedRoom, Limits, Taken};
use crate::http::error::{ApiError, ErrorForm};

/// Names the cells without which an answer's figures were made: they are too low by what is there. Only on such answers.
pub const INCOMPLETE: &str = "x-cellshift-incomplete";

/// May a server be created for a project while a cell that has servers of it cannot be counted (docs/DOWN-CELLS.md)?
const CELL_DOWN: &str = "os_compute_api:servers:create:cell_down";

/// How the use of quotas is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Cores and memory from placement; otherwise from the request specs.
    pub from_placement: bool,
    /// Again in the commit that takes of the room.
    pub again_when_taken: bool,
}

/// What is used, by resource; what nobody counts is not in it.
pub type Usage = BTreeMap<&'static str, i64>;

/// What was counted, and where it could not be.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted {
    pub usage: Usage,
    /// Cells that have servers which are not among the figures.
    pub missing: Vec<String>,
}

/// Counts what a project, or one of its users, has. Key pairs are a user's and counted only for one.
pub async fn count(api: &Catalog, project: &str, user: Option<&str>) -> Result<Counted, ApiError> {
    let ByServers { taken, missing, .. } = count_servers(api, project, user).await?;
    let mut usage = Usage::from(taken.by_resource());
    let groups = api.api.server_groups(Some(project)).await?;
    usage.insert("server_groups", groups.iter().filter(|group| user.is_none_or(|user| group.user_id == user)).count() as i64);
    if let Some(user) = user {
        usage.insert("key_pairs", api.api.key_pairs(user, None, None).await?.len() as i64);
    }
    Ok(Counted { usage, missing })
}

/// Says in an answer's headers which cells are missing from its figures.
pub fn tell_missing(answer: Answer, missing: &[String]) -> Answer {
    let mut response = answer?;
    if let (false, Ok(cells)) = (missing.is_empty(), missing.join(", ").parse()) {
        response.headers_mut().insert(HeaderName::from_static(INCOMPLETE), cells);
    }
    Ok(response)
}

/// What a project's servers take.
struct ByServers {
    taken: Taken,
    missing: Vec<String>,
    /// The number of the newest mapping among those counted.
    newest: i32,
}

async fn count_servers(api: &Catalog, project: &str, user: Option<&str>) -> Result<ByServers, ApiError> {
    // First: a server that gets its claim or its record after this is found there, and one that comes after this is left out.
    let known = api.api.project_servers(project, user).await?;
    match known.populated {
        true if api.counting.from_placement => in_placement(api, project, user, &known).await,
        true => Ok(ByServers { taken: known.taken, missing: Vec::new(), newest: known.newest }),
        false => in_cells(api, project, user, &known).await,
    }
}

async fn in_placement(api: &Catalog, project: &str, user: Option<&str>, known: &ProjectServers) -> Result<ByServers, ApiError> {
    let held = api.placement.held_by_project(project).await;
    let held = held.map_err(|error| ApiError::from_service(ErrorForm::Compute, error))?;
    let came_since = api.api.servers_since(project, known.newest).await?;
    let counts = |consumer: &Uuid| !known.leaving.contains(consumer) && !came_since.contains(consumer);
    let (mut cores, mut ram) = (0, 0);
    let mut claimed = BTreeSet::new();
    for one in held.iter().filter(|one| user.is_none_or(|user| one.user_id == user) && counts(&one.consumer)) {
        claimed.insert(one.consumer);
        cores += one.amounts.get("VCPU").copied().unwrap_or(0);
        ram += one.amounts.get("MEMORY_MB").copied().unwrap_or(0);
    }
    let unclaimed = known.building.iter().filter(|(server, _)| !claimed.contains(server));
    let unclaimed: Taken = unclaimed.map(|(_, flavor)| Taken { instances: 0, ..Taken::by(1, flavor) }).sum();
    let taken = Taken { instances: known.taken.instances, cores, ram } + unclaimed;
    Ok(ByServers { taken, missing: Vec::new(), newest: known.newest })
}

/// Servers once each, whatever cells have records of them, and those that are not in a cell yet.
async fn in_cells(api: &Catalog, project: &str, user: Option<&str>, known: &ProjectServers) -> Result<ByServers, ApiError> {
    let mut servers: BTreeMap<Uuid, Flavor> = known.building.iter().cloned().collect();
    let Gathered { found, mut silent } = api.gather_named(|cell| cell.flavors_in_use(project, user)).await;
    servers.extend(found.into_iter().map(|(_, server)| server));
    let came_since = api.api.servers_since(project, known.newest).await?;
    servers.retain(|server, _| !known.leaving.contains(server) && !came_since.contains(server));
    if !silent.is_empty() {
        let needed = api.api.cells_of_project(Some(project), false).await?;
        silent.retain(|cell| needed.contains(&cell.uuid));
    }
    let missing = silent.into_iter().map(|cell| cell.name).collect();
    let taken = servers.values().map(|flavor| Taken::by(1, flavor)).sum();
    Ok(ByServers { taken, missing, newest: known.newest })
}

/// What a project has and what it may have.
pub struct Room {
    limits: Limits,
    servers: ByServers,
    again_when_taken: bool,
}

impl Room {
    /// Counted now.
    pub async fn of(api: &Catalog, project: &str) -> Result<Room, ApiError> {
        let limits = api.limits_of(project, None).await?;
        let servers = count_servers(api, project, None).await?;
        Ok(Room { limits, servers, again_when_taken: api.counting.again_when_taken })
    }

    /// 403 when servers of the project could not be counted and the caller may not go on without knowing.
    pub fn check_complete(&self, api: &Catalog, caller: &RequestContext) -> Result<(), ApiError> {
        let missing = &self.servers.missing;
        if missing.is_empty() || api.policy.check(CELL_DOWN, caller, &Target::own(caller)) {
            return Ok(());
        }
        Err(forbidden(format!(
            "Quota cannot be checked now: this project has servers in {}, which cannot be reached. Try again when that has ended.",
            missing.join(", ")
        )))
    }

    /// 403 in Nova's words unless there is room for so many more servers, virtual CPUs and MiB of memory.
    pub fn check(&self, more: &[(&str, i64)]) -> Result<(), ApiError> {
        match quota::refusal(&self.limits, |resource| self.servers.taken.of(resource), more) {
            None => Ok(()),
            Some(why) => Err(forbidden(why)),
        }
    }

    /// What is to be checked again by whoever takes of it; none when nothing is.
    pub fn to_be_checked_again(&self) -> Option<CountedRoom> {
        let names = ["instances", "cores", "ram", "server_group_members"];
        let limits: Limits = self
            .limits
            .iter()
            .filter(|(name, limit)| names.contains(&name.as_str()) && **limit >= 0)
            .map(|(name, limit)| (name.clone(), *limit))
            .collect();
        let needed = self.again_when_taken && !limits.is_empty();
        needed.then_some(CountedRoom { limits, used: self.servers.taken, newest: self.servers.newest })
    }
}
