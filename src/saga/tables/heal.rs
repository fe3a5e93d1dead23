//! Heal: a server that holds more or less than its flavor and its ports ask for gets the right allocation in placement on its own host, and its
//! ports the right providers. If placement or a port refuses, both are as before.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::reason::Reason;
use crate::domain::request_spec::RequestSpec;
use crate::saga::accept::ACCEPT;
use crate::saga::claim::{Claimed, GiveUp};
use crate::saga::context::{Amounts, Heal, HealPlan, Place, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Moot, Step, Table, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::heal_plan::{PlacedServer, plan};
use crate::saga::steps::port_shares::{hold, hold_anew, hold_as_before};
use crate::saga::steps::ports::is_gone;
use crate::saga::world::World;
use crate::services::network::{HostKey, Port};
use crate::services::placement::{Allocations, Provider};

/// The operation.
pub const OPERATION: Operation = Operation::new("heal", &[("heal", TABLE)], |_| TABLE);

/// The saga.
pub const TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::PlanShares, work!(plan_shares), Undo::Nothing("it only looks")),
    Step::claiming(StepName::ClaimShares, claims!(claim_shares), GiveUp::By(work!(return_shares))).before_the_next_move(),
    Step::reversible(StepName::NameProviders, work!(name_providers), Undo::By(work!(name_earlier_providers)))
        .moot_when(Moot::LostOwnership(At::Source)),
    Step::forward(StepName::FinishHeal, work!(finish_heal)),
]);

/// Looks what is to be changed. Nothing changes if the host cannot give what is missing, or could in several ways.
async fn plan_shares(world: &World, context: &mut Heal, _: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    context.plan = Some(plan_of(world, context, &here).await?);
    Ok(())
}

/// Returns the plan of a server on this host.
pub async fn plan_of(world: &World, facts: &ServerFacts, here: &Place) -> Result<HealPlan, StepError> {
    let server = facts.server;
    let records = HealRecords {
        held: world.placement.allocations_of(server).await?,
        ports: world.network.ports_of(server).await?,
        tree: world.placement.trees(Some(vec![here.provider])).await?,
        spec: facts.request_spec.as_ref(),
        own: facts.old_flavor.as_ref().and_then(|flavor| own_amounts(flavor, facts.volume_backed)),
    };
    plan_over(server, here, records).map_err(|why| StepError::Refused(Reason::public(why)))
}

/// The records that a plan needs: a server's, and those of the providers below its host.
pub struct HealRecords<'a> {
    pub held: Option<Allocations>,
    pub ports: Vec<Port>,
    pub tree: Vec<(Provider, Option<Uuid>)>,
    pub spec: Option<&'a RequestSpec>,
    /// See [`own_amounts`].
    pub own: Option<BTreeMap<String, i64>>,
}

/// Returns what a server takes of its host itself; none if extra specs of its flavor say something else.
pub fn own_amounts(flavor: &Flavor, volume_backed: bool) -> Option<BTreeMap<String, i64>> {
    (!flavor.overrides_amounts()).then(|| flavor.resources(volume_backed).by_class())
}

/// Makes the plan of a server on this host. Fails with the reason if it cannot be healed there.
pub fn plan_over(server: Uuid, here: &Place, records: HealRecords<'_>) -> Result<HealPlan, String> {
    let HealRecords { held, ports, tree, spec, own } = records;
    let held = match (held, &own) {
        (Some(held), _) => held.allocations,
        (None, Some(_)) => Amounts::new(),
        (None, None) => {
            return Err(format!("Instance {server} has no allocation, and the extra specs of its flavor say what it takes: migrate it"));
        }
    };
    let isolate = spec.and_then(|spec| spec.flavor.extra_specs.get("group_policy")).is_some_and(|policy| policy == "isolate");
    plan(&PlacedServer { host: &here.host, node: here.provider, ports: &ports, held: &held, isolate, own: own.as_ref() }, tree)
}

fn planned(context: &Heal) -> Result<HealPlan, StepError> {
    context.plan.clone().ok_or_else(|| StepError::Refused("nothing was planned".into()))
}

async fn claim_shares(world: &World, context: &mut Heal, fence: Fence) -> Result<Claimed, StepError> {
    let plan = planned(context)?;
    match plan.before.is_empty() {
        true => hold_anew(world, context, fence, plan.after).await?,
        false => hold(world, context, fence, plan.after).await?,
    }
    Ok(Claimed::made())
}

/// Undo: the server holds what it held.
async fn return_shares(world: &World, context: &mut Heal, fence: Fence) -> Result<(), StepError> {
    hold_as_before(world, context, fence, context.plan.as_ref()).await
}

async fn name_providers(world: &World, context: &mut Heal, fence: Fence) -> Result<(), StepError> {
    let (plan, host) = (planned(context)?, context.source()?.host.clone());
    for (port, (_, after)) in plan.keys {
        is_gone(world.network.create_binding(fence, port, &host, HostKey::AllocationIs(after)).await)?;
    }
    Ok(())
}

/// Undo: the ports name the providers that they named.
async fn name_earlier_providers(world: &World, context: &mut Heal, fence: Fence) -> Result<(), StepError> {
    let (plan, host) = (planned(context)?, context.source()?.host.clone());
    for (port, (before, _)) in plan.keys {
        is_gone(world.network.create_binding(fence, port, &host, HostKey::AllocationIs(before)).await)?;
    }
    Ok(())
}

async fn finish_heal(world: &World, context: &mut Heal, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    Ok(world.cell(&here.cell)?.apply(fence, history::succeeded(CellTxn::new(), context)).await?)
}
