//! The requests of a server's ports for resources of its host's network. They are read when an operation chooses its host, because the
//! ports' policies may have changed since the last choice.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ports::is_gone;
use crate::domain::compute_host::PORT_REQUESTS_SINCE;
use crate::domain::fence::Fence;
use crate::domain::port_request::PortRequest;
use crate::domain::reason;
use crate::domain::reason::{Inside, Reason};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{Amounts, HealPlan, Place, PortShare, ServerFacts, Shares, share_of};
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::network::{FunctionKeys, HostKeys, Port};
use crate::services::placement::Allocations;

/// Reads the requests of the server's ports, and the providers that they have at the source.
pub async fn read_requests(world: &World, facts: &mut ServerFacts) -> Result<(), StepError> {
    let ports = world.network.ports_of(facts.server).await?;
    let source = facts.source.as_ref().map(|source| source.host.clone());
    let mut shares = Shares::new();
    for port in ports.iter().filter(|port| facts.ports.iter().any(|link| link.port_id == port.id)) {
        add(&mut shares, port, source.as_deref())?;
    }
    facts.shares = Some(shares);
    if facts.kind.operation().is_live && asks(facts) && !world.network.supports_extended_bindings().await? {
        // Without it the port would show the source's providers at the target.
        return Err(super::allocation::precheck(
            "a port asks for resources, and the network service has no extension binding-extended (Port Bindings Extended)",
        ));
    }
    Ok(())
}

/// Returns what a server's ports need of their host, for a question to the scheduler.
pub async fn requests_of(world: &World, server: Uuid) -> Result<Vec<PortRequest>, StepError> {
    let mut needs = Vec::new();
    for port in world.network.ports_of(server).await? {
        needs.extend(share_of(&port, None).map_err(|why| StepError::Refused(Reason::public(why)))?.need(port.id));
    }
    Ok(needs)
}

/// Reads the requests of ports that a new server is to take. A port that is gone is refused when the server takes it.
pub async fn read_requests_of(world: &World, facts: &mut ServerFacts, ports: impl Iterator<Item = Uuid>) -> Result<(), StepError> {
    let mut shares = Shares::new();
    for id in ports {
        match world.network.port(id).await {
            Ok(port) => add(&mut shares, &port, None)?,
            Err(ServiceError::NotFound(_)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    facts.shares = Some(shares);
    Ok(())
}

fn add(shares: &mut Shares, port: &Port, source: Option<&str>) -> Result<(), StepError> {
    let share = share_of(port, source).map_err(|why| StepError::Refused(Reason::public(why)))?;
    if share != PortShare::default() {
        shares.insert(port.id, share);
    }
    Ok(())
}

/// Refuses a port that was made on a network whose policy guarantees a minimum: no host was chosen for it.
pub fn refuse_policy_of_network(context: &ServerFacts, made: Port) -> Result<Port, StepError> {
    match made.resource_request {
        None => Ok(made),
        Some(_) => Err(StepError::Refused(reason!(
            "Using networks with QoS policy is not supported for instance {}: make a port on network {} first, and name the port.",
            context.server,
            made.network_id
        ))),
    }
}

/// Refuses a forced host for a server whose ports ask for resources, or that holds some of several providers: nobody would choose the new
/// ones.
pub async fn refuse_forced(world: &World, facts: &ServerFacts, host: &str) -> Result<(), StepError> {
    let held = world.placement.allocations_of(facts.move_id()).await?;
    if asks(facts) || held.is_some_and(|held| held.allocations.len() > 1) {
        let server = facts.server;
        return Err(StepError::Refused(Reason::no_valid_host(reason!(
            "Unable to move instance {server} to host {host}: the instance has complex allocations on its host, so a host cannot be forced."
        ))));
    }
    Ok(())
}

/// True if a port asks for resources.
pub fn asks(facts: &ServerFacts) -> bool {
    facts.shares.iter().flatten().any(|(_, share)| share.request.is_some())
}

/// Checks, before any port is written, that the target's service knows port requests, and that each port that requests resources has
/// providers. The scheduler has checked both, but the host may have restarted with an older service since.
pub async fn check_target(world: &World, facts: &ServerFacts) -> Result<(), StepError> {
    if facts.port_requests().is_empty() {
        return Ok(());
    }
    if let Some(why) = too_old(world, facts.target()?).await? {
        return Err(StepError::NextCandidate(why));
    }
    facts.check_shares()
}

/// Checks, before any port is written, that the service of a revert's source still knows port requests, if the ports had resources there.
async fn check_source(world: &World, facts: &ServerFacts) -> Result<(), StepError> {
    let has_some = |share: &PortShare| share.at_source.is_some() || share.function_at_source.is_some();
    if !facts.shares.iter().flatten().any(|(_, share)| has_some(share)) {
        return Ok(());
    }
    match too_old(world, facts.source()?).await? {
        Some(why) => Err(StepError::Refused(why)),
        None => Ok(()),
    }
}

/// Returns the reason if a host's compute service is too old for ports that need something of their host.
pub async fn too_old(world: &World, place: &Place) -> Result<Option<Reason>, StepError> {
    let service = world.cell(&place.cell)?.service_on(&place.host, "nova-compute").await?;
    Ok((service.version < PORT_REQUESTS_SINCE).then(|| {
        let which = Inside(format!("({}, version {})", place.host, service.version));
        reason!("the host's compute service is too old for ports with resource requests {which}")
    }))
}

/// Returns the shares of both sides for the move's record: whoever reverts or confirms the move finds them there.
pub fn recorded(facts: &ServerFacts) -> Value {
    let sides = |share: &PortShare| {
        json!({
            "source": share.at_source,
            "target": share.at_target,
            "source_function": share.function_at_source,
            "target_function": share.function_at_target,
        })
    };
    facts.shares.iter().flatten().map(|(port, share)| (port.to_string(), sides(share))).collect::<serde_json::Map<_, _>>().into()
}

/// Returns a port's keys at one side of a move, as the move's record has them.
fn recorded_keys(port: &Value, side: &str) -> HostKeys {
    HostKeys {
        allocation: Some(port[side].clone()).filter(|allocation| !allocation.is_null()),
        function: FunctionKeys::deserialize(&port[format!("{side}_function")]).ok(),
    }
}

/// Reads the shares of both sides of a move that is reverted: from the ports' bindings, and from the move's record for a binding that is
/// missing. A binding that is missing at the source is made again, before the source needs it.
pub async fn read_shares_of_move(world: &World, facts: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (facts.source()?.host.clone(), facts.target()?.clone());
    let recorded = world.cell(&target.cell)?.migration_context(facts.server).await?;
    let recorded = recorded.filter(|move_context| move_context.migration_uuid == facts.move_id());
    let at = |port: &Port, host: &str, side: &str| match port.bindings.iter().find(|binding| binding.host == host) {
        Some(binding) => HostKeys { allocation: binding.allocation().cloned(), function: binding.function() },
        None => recorded
            .as_ref()
            .map(|move_context| recorded_keys(&move_context.context["ports"][port.id.to_string()], side))
            .unwrap_or_default(),
    };
    let mut shares = Shares::new();
    let ports = world.network.ports_of(facts.server).await?;
    for port in &ports {
        let (source, target) = (at(port, &source, "source"), at(port, &target.host, "target"));
        let share = PortShare {
            at_source: source.allocation,
            at_target: target.allocation,
            function_at_source: source.function,
            function_at_target: target.function,
            ..PortShare::default()
        };
        if share != PortShare::default() {
            shares.insert(port.id, share);
        }
    }
    facts.shares = Some(shares);
    check_source(world, facts).await?;
    let is_ours = |port: &&Port| facts.ports.iter().any(|link| link.port_id == port.id);
    for port in ports.iter().filter(is_ours).filter(|port| port.bindings.iter().all(|binding| binding.host != source)) {
        is_gone(world.network.create_binding(fence, port.id, &source, facts.host_key(port.id, &source)).await)?;
    }
    Ok(())
}

/// Replaces what a server holds in placement.
pub async fn hold(world: &World, facts: &ServerFacts, fence: Fence, allocations: Amounts) -> Result<(), StepError> {
    // A server that was deleted since holds nothing.
    let Some(held) = world.placement.allocations_of(facts.server).await? else { return Ok(()) };
    Ok(world.placement.replace_allocations(fence, vec![Allocations { allocations, ..held }]).await?)
}

/// Gives a server that held nothing in placement what it takes.
pub async fn hold_anew(world: &World, facts: &ServerFacts, fence: Fence, allocations: Amounts) -> Result<(), StepError> {
    let held = world.placement.allocations_of(facts.server).await?.unwrap_or_else(|| Allocations {
        consumer: facts.server,
        consumer_generation: None,
        project_id: facts.project_id.clone(),
        user_id: facts.user_id.clone(),
        consumer_type: "INSTANCE".to_owned(),
        allocations: Amounts::new(),
    });
    Ok(world.placement.replace_allocations(fence, vec![Allocations { allocations, ..held }]).await?)
}

/// Undo: the server holds what it held before a plan was carried out.
pub async fn hold_as_before(world: &World, facts: &ServerFacts, fence: Fence, plan: Option<&HealPlan>) -> Result<(), StepError> {
    // Raises the fence first: a late act can then change nothing that is read here.
    if stands(Guard::TombstoneOfClaim) {
        world.placement.replace_allocations(fence, Vec::new()).await?;
    }
    match plan {
        Some(plan) => hold(world, facts, fence, plan.before.clone()).await,
        None => Ok(()),
    }
}
