//! Debts: what an ended saga owes because a participant did not answer, paid when it returns (architecture §5, rule 5).

use super::context::{Context, Kind, Place};
use super::error::StepError;
use super::step::Step;
use super::tables::table_of;
use super::world::World;
use crate::db::api::debts::Debt;
use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::{Expected, InstanceChange};
use crate::domain::server::{PowerState, VmState};

/// Tries after which a debt that is refused (not merely unanswered) asks for an operator.
const REFUSALS_BEFORE_OPERATOR: i64 = 10;

/// While a debt is paid: true when the server has come to that place again since, so that nothing there may be removed.
/// Within a live saga the place is the saga's own.
pub async fn in_use_again(world: &World, context: &Context, place: &Place) -> Result<bool, StepError> {
    if !context.settling {
        return Ok(false);
    }
    let owner = world.operations.ownership(context.server).await?.and_then(|row| row.owner);
    if owner == Some((place.cell.clone(), place.host.clone())) {
        return Ok(true);
    }
    let Ok((cell, _)) = super::accept::find(world, context.server).await else { return Ok(false) };
    let latest = world.cell(&cell)?.latest_migration(context.server, &[]).await?;
    Ok(latest.is_some_and(|migration| {
        migration.status.is_live() && (migration.source_compute == place.host || migration.dest_compute.as_deref() == Some(&place.host))
    }))
}

/// While a debt is paid: true when the server is no longer this place's to run, so that nothing there is to be restored.
pub async fn lost_ownership(world: &World, context: &Context, place: &Place) -> Result<bool, StepError> {
    if !context.settling {
        return Ok(false);
    }
    let owner = world.operations.ownership(context.server).await?.and_then(|row| row.owner);
    Ok(owner != Some((place.cell.clone(), place.host.clone())))
}

/// Tries every debt whose server is at rest.
pub async fn pay_all(world: &World) {
    let debts = match world.operations.debts(None).await {
        Ok(debts) => debts,
        Err(error) => return log::warn!("the debts cannot be read: {error}"),
    };
    for debt in debts {
        if let Err(error) = pay(world, &debt).await {
            log::warn!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt cannot be looked at: {error}");
        }
    }
}

/// Tries one debt under a hold of its server and a new fence.
async fn pay(world: &World, debt: &Debt) -> Result<(), StepError> {
    let Some(fence) = world.operations.hold(debt.saga, debt.server).await? else { return Ok(()) };
    let result = perform(world, debt, fence).await;
    let noted = match &result {
        Ok(()) => {
            log::info!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt is paid");
            world.operations.settle_debt(debt.saga, debt.owed_seq).await
        }
        Err(error) => {
            let refused = matches!(error, StepError::Refused(_)) && debt.tries + 1 >= REFUSALS_BEFORE_OPERATOR;
            if refused && !debt.needs_operator {
                log::error!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt needs an operator: {error}");
            }
            world.operations.debt_failed(debt.saga, debt.owed_seq, error.to_string(), refused).await
        }
    };
    if result.is_ok() && noted.is_ok() {
        recover_status(world, debt, fence).await?;
    }
    world.operations.release(debt.saga).await?;
    Ok(noted?)
}

async fn perform(world: &World, debt: &Debt, fence: crate::domain::fence::Fence) -> Result<(), StepError> {
    let (mut context, step) = read(debt)?;
    context.settling = true;
    let work = if debt.side == "undo" { step.undo.work() } else { Some(step.act) };
    let Some(work) = work else { return Ok(()) };
    match tokio::time::timeout(world.settings.debt_deadline, work(world, &mut context, fence)).await {
        Ok(result) => result,
        Err(_) => Err(StepError::Unknown("no answer within the deadline".into())),
    }
}

fn read(debt: &Debt) -> Result<(Context, Step), StepError> {
    let context: Context = serde_json::from_str(&debt.context).map_err(|error| StepError::Refused(error.to_string()))?;
    let table = table_of(&context);
    let position = table.position(&debt.step).ok_or_else(|| StepError::Refused(format!("no step {} in this release", debt.step)))?;
    Ok((context, table.steps[position]))
}

/// When the last debt on which a server in ERROR depended is paid, the server is what it was (rule 7).
async fn recover_status(world: &World, debt: &Debt, fence: crate::domain::fence::Fence) -> Result<(), StepError> {
    let (context, step) = read(debt)?;
    if !step.service_depends || !world.operations.debts(Some(debt.server)).await?.is_empty() {
        return Ok(());
    }
    let Ok((cell, _)) = super::accept::find(world, context.server).await else { return Ok(()) };
    let undone = debt.side == "undo";
    let reverted = context.kind == Kind::Revert && !undone;
    let runs = if reverted { context.running_before_move } else { context.ran_before() };
    let resized = undone && context.prior.as_ref().is_some_and(|prior| prior.vm_state == VmState::Resized);
    let vm_state = match (resized, runs) {
        // What was to be confirmed or reverted still is.
        (true, _) => VmState::Resized,
        (false, true) => VmState::Active,
        (false, false) => VmState::Stopped,
    };
    let power = if runs { PowerState::Running } else { PowerState::Shutdown };
    let change = InstanceChange { power_state: Some(power), ..InstanceChange::states(vm_state, None) };
    let txn = CellTxn::new().instance_change_if(context.server, Expected::at_rest(&[VmState::Error]), change);
    match world.cell(&cell)?.apply(fence, txn).await {
        Err(crate::db::DbError::WrongState { .. }) => Ok(()),
        other => Ok(other?),
    }
}
