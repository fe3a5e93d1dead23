//! The choice of a server's move: live or cold, and to which host. The scheduler's explanation says which hosts would take the server when the
//! moves that are planned already have taken their room. A drain and its dry run choose by this alone.

use std::collections::BTreeMap;

use crate::domain::drain::{Destination, DrainPlan, MoveKind};
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::port_request::PortRequest;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{PowerState, VmState};
use crate::saga::context::{Kind, LiveMigrateRequest, Request, ResizeRequest};
use crate::saga::error::StepError;
use crate::saga::explanation::{Explanation, HostVerdict};
use crate::saga::flavor_change;
use crate::saga::scheduling::{OperationKind, PlannedMove, RequestedDestination, SchedulingError, SelectDestinations, SourceHost};
use crate::saga::steps::port_shares::requests_of;
use crate::saga::world::World;

/// The maximum number of reasons in a message why hosts refuse a server.
const REASONS_MAX: usize = 3;

/// A server's move.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    pub kind: MoveKind,
    pub cell: String,
    pub host: String,
    /// The flavor after the move, if it changes.
    pub flavor: Option<Flavor>,
    /// The requests that the server's ports make of the host's network.
    pub port_requests: Vec<PortRequest>,
}

impl Choice {
    /// Returns the room that the move takes.
    pub fn planned(&self, server: &Instance) -> PlannedMove {
        let flavor = self.flavor.as_ref().unwrap_or(&server.flavor);
        let (resources, port_requests) = (flavor.resources(server.is_volume_backed()), self.port_requests.clone());
        PlannedMove { server: server.uuid, host: self.host.clone(), resources, port_requests }
    }

    /// Returns the request that users make for such a move.
    pub fn request(self, server: &Instance, cell: &str) -> Request {
        let host = Some(self.host);
        match self.kind {
            MoveKind::Live => Request::LiveMigrate(LiveMigrateRequest { host, block_migration: None, forced: false, unchecked: false }),
            MoveKind::Cold => Request::Resize(Box::new(ResizeRequest {
                migrate: self.flavor.is_none(),
                flavor: Box::new(self.flavor.unwrap_or_else(|| server.flavor.clone())),
                host,
                cross_cell_allowed: self.cell != cell,
            })),
        }
    }
}

/// Returns the operation of [`Choice::request`] for a move of this kind.
pub(super) fn operation(kind: MoveKind) -> Kind {
    match kind {
        MoveKind::Live => Kind::LiveMigrate,
        MoveKind::Cold => Kind::Resize,
    }
}

/// The reason why no move is chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoChoice {
    /// The server cannot be moved as it is.
    Refused(Reason),
    /// Something does not answer; a later try may choose.
    Silent(Reason),
}

impl From<StepError> for NoChoice {
    fn from(error: StepError) -> NoChoice {
        match error {
            StepError::Unknown(why) => NoChoice::Silent(why),
            other => NoChoice::Refused(reason!("{other}")),
        }
    }
}

impl From<SchedulingError> for NoChoice {
    fn from(error: SchedulingError) -> NoChoice {
        match error {
            SchedulingError::NoValidHost { reason } | SchedulingError::Invalid { reason } => NoChoice::Refused(reason),
            other => NoChoice::Silent(reason!("{other}")),
        }
    }
}

/// The facts that decide beside the server itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The host that refused the server last. Others are better.
    pub refused: Option<&'a str>,
    /// The drain's moves whose room placement does not count yet.
    pub planned: &'a [PlannedMove],
}

/// Returns the reason why nobody could move the server now, if there is one.
fn obstacle(server: &Instance) -> Option<String> {
    if server.locked {
        return Some(match &server.locked_reason {
            Some(reason) => format!("the server is locked: {reason}"),
            None => "the server is locked".to_owned(),
        });
    }
    if let Some(task) = server.task_state {
        return Some(format!("the server is busy: its task is {task}"));
    }
    match server.vm_state {
        VmState::Active | VmState::Paused | VmState::Stopped => None,
        VmState::SoftDeleted => Some("the server is soft-deleted: restore it, or delete it for good with forceDelete".to_owned()),
        VmState::Rescued => Some("the server is rescued, and its rescue disk is on the host: unrescue it first".to_owned()),
        VmState::Suspended => Some("the server is suspended, and its memory is on the host: resume it first".to_owned()),
        VmState::Resized => Some("the server waits for the confirm or the revert of an earlier move".to_owned()),
        VmState::Error => Some("the server is in ERROR: rebuild or hard-reboot it first".to_owned()),
        VmState::Shelved => Some("the server is shelved, and its guest is still on the host: offload it".to_owned()),
        other => Some(format!("a server in state {other} cannot be moved")),
    }
}

/// Chooses the move of a server. An active server moves live if a host of its cell takes it; a guest that runs is never switched off to stay
/// in its cell with its flavor.
pub async fn choose(world: &World, plan: &DrainPlan, cell: &str, server: &Instance, beside: Beside<'_>) -> Result<Choice, NoChoice> {
    if let Some(why) = obstacle(server) {
        return Err(NoChoice::Refused(Reason::public(why)));
    }
    let flavor = new_flavor(world, plan, server).await?;
    let spec = world.api.request_spec(server.uuid).await.map_err(StepError::from)?;
    let port_requests = requests_of(world, server.uuid).await?;
    let question = Question { spec: &spec, server, cell, port_requests: &port_requests, planned: beside.planned };
    let runs = server.vm_state == VmState::Paused || server.vm_state == VmState::Active && server.power_state == PowerState::Running;
    let (lives_on, here) = (runs && flavor.is_none(), plan.to.may_include_cell(cell));
    let mut reasons = Vec::new();
    if lives_on && here {
        let explained = question.explain(world, OperationKind::LiveMigrate, None, false).await?;
        match best(plan, &explained, cell, true, beside) {
            Some(host) => {
                return Ok(Choice { kind: MoveKind::Live, cell: cell.to_owned(), host: host.host.clone(), flavor, port_requests });
            }
            None => reasons.push(why_none(plan, &explained, cell, true)?),
        }
    }
    let bound = if plan.to == Destination::Cell(cell.to_owned()) { Some(String::new()) } else { stays_in_cell(plan) };
    let (cold_here, leaves) = (here && !lives_on, bound.is_none());
    reasons.extend(bound);
    if cold_here || leaves {
        let kind = if flavor.is_some() { OperationKind::Resize } else { OperationKind::Migrate };
        let explained = question.explain(world, kind, flavor.clone(), leaves).await?;
        for in_cell in [(true, cold_here), (false, leaves)].into_iter().filter_map(|(in_cell, may)| may.then_some(in_cell)) {
            match best(plan, &explained, cell, in_cell, beside) {
                Some(host) => {
                    return Ok(Choice { kind: MoveKind::Cold, cell: host.cell.clone(), host: host.host.clone(), flavor, port_requests });
                }
                None => reasons.push(why_none(plan, &explained, cell, in_cell)?),
            }
        }
    }
    reasons.retain(|reason| !reason.is_empty());
    match reasons.is_empty() {
        true => Err(NoChoice::Refused(reason!("{} has no host for it", plan.to))),
        false => Err(NoChoice::Refused(Reason::public(reasons.join("; ")))),
    }
}

async fn new_flavor(world: &World, plan: &DrainPlan, server: &Instance) -> Result<Option<Flavor>, NoChoice> {
    let Some(id) = plan.flavors.get(&server.flavor.id) else { return Ok(None) };
    let flavor = world.api.flavor(id).await.map_err(StepError::from)?.flavor;
    match flavor_change::objection(server, &flavor) {
        Some(why) => Err(NoChoice::Refused(reason!("the server cannot take flavor {}: {why}", flavor.name))),
        None => Ok(Some(flavor)),
    }
}

/// Returns the reason why the server may not leave its cell, if there is one.
fn stays_in_cell(plan: &DrainPlan) -> Option<String> {
    (!plan.may_leave_cell).then(|| "policy does not let the drain's operator move servers out of their cells".to_owned())
}

/// The parts of a question to the scheduler that are equal for each kind of move.
struct Question<'a> {
    spec: &'a RequestSpec,
    server: &'a Instance,
    cell: &'a str,
    port_requests: &'a [PortRequest],
    planned: &'a [PlannedMove],
}

impl Question<'_> {
    async fn explain(
        &self,
        world: &World,
        operation: OperationKind,
        flavor: Option<Flavor>,
        leaves: bool,
    ) -> Result<Explanation, NoChoice> {
        let flavor = flavor.unwrap_or_else(|| self.server.flavor.clone());
        let resources = flavor.resources(self.server.is_volume_backed());
        let source = SourceHost { cell: self.cell.to_owned(), host: self.server.host.clone().unwrap_or_default() };
        let destination = RequestedDestination::of_move(self.cell, None, leaves);
        let spec = RequestSpec { flavor, ..self.spec.clone() };
        let of_move = SelectDestinations::of_move(spec, resources, source, destination);
        let request = SelectDestinations { operation, port_requests: self.port_requests.to_vec(), ..of_move };
        Ok(world.scheduling.explain(request, self.planned.to_vec()).await?)
    }
}

/// The hosts of the server's cell, or those of others, to which the drain may move it.
fn considered<'a>(plan: &'a DrainPlan, explained: &'a Explanation, cell: &'a str, here: bool) -> impl Iterator<Item = &'a HostVerdict> {
    let is_candidate = move |host: &&HostVerdict| (host.cell == cell) == here && !plan.hosts.contains(&host.host);
    explained.destinations.iter().filter(is_candidate).filter(|host| plan.to.includes(&host.cell, host.availability_zone.as_deref()))
}

/// Returns the host with the highest weight. One that has refused the server comes last.
fn best<'a>(plan: &'a DrainPlan, explained: &'a Explanation, cell: &'a str, here: bool, beside: Beside<'_>) -> Option<&'a HostVerdict> {
    let fits = considered(plan, explained, cell, here).filter(|host| host.weight.is_some());
    // The best comes first, and `min_by_key` keeps the first of equals.
    fits.min_by_key(|host| beside.refused == Some(host.host.as_str()))
}

/// Says why the hosts are refused; empty if there is none. Silent if a cell that matters does not answer.
fn why_none(plan: &DrainPlan, explained: &Explanation, cell: &str, here: bool) -> Result<String, NoChoice> {
    let matters = |silent: &&String| (silent.as_str() == cell) == here && plan.to.may_include_cell(silent);
    if let Some(silent) = explained.silent_cells.iter().find(matters) {
        return Err(NoChoice::Silent(reason!("{silent} does not answer")));
    }
    let refusals = considered(plan, explained, cell, here).map(|host| {
        let rules: Vec<String> = host.refusals.iter().map(|refusal| format!("{}: {}", refusal.rule, refusal.reason)).collect();
        (rules.join(", "), host.host.as_str())
    });
    Ok(by_reason(refusals))
}

/// Tells each reason with its host or the number of its hosts, that of the most hosts first. Servers of one flavor get one text, so that a
/// drain can count them together.
fn by_reason<'a>(refusals: impl Iterator<Item = (String, &'a str)>) -> String {
    let mut hosts_of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (reason, host) in refusals {
        hosts_of.entry(reason).or_default().push(host);
    }
    let mut groups: Vec<(String, Vec<&str>)> = hosts_of.into_iter().collect();
    groups.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    let list = groups.iter().take(REASONS_MAX).map(|(reason, hosts)| match hosts.as_slice() {
        [host] => format!("{reason} ({host})"),
        hosts => format!("{reason} ({} hosts)", hosts.len()),
    });
    let list = list.collect::<Vec<_>>().join("; ");
    match groups.iter().skip(REASONS_MAX).map(|(_, hosts)| hosts.len()).sum::<usize>() {
        0 => list,
        1 => format!("{list}; and another reason (1 host)"),
        others => format!("{list}; and other reasons ({others} hosts)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_one_reason_stand_together() {
        let refusals = |pairs: &[(&str, &'static str)]| by_reason(pairs.iter().map(|(reason, host)| ((*reason).to_owned(), *host)));
        assert_eq!(refusals(&[]), "");
        assert_eq!(refusals(&[("full", "h1"), ("no such trait", "h2"), ("no such trait", "h3")]), "no such trait (2 hosts); full (h1)");
        let many = [("a", "h1"), ("b", "h2"), ("c", "h3"), ("d", "h4"), ("e", "h5"), ("e", "h6")];
        assert_eq!(refusals(&many), "e (2 hosts); a (h1); b (h2); and other reasons (2 hosts)");
    }
}
