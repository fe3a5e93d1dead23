//! A crash dump, and another password: commands to the running guest. The server stays as it is.

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{ChangePassword, CrashDump, Part, Place, first_boot};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{Deadline, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// A crash dump.
pub const CRASH_DUMP: Operation = Operation::new("crash_dump", &[("crash_dump", CRASH_DUMP_TABLE)], |_| CRASH_DUMP_TABLE);

const CRASH_DUMP_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::InjectNmi, work!(inject_nmi), Undo::Nothing("what the guest does about it is the guest's own"))
        .within(Deadline::Within(60)),
    Step::forward(StepName::RecordAsBefore, work!(record_dump)),
]);

/// A change of the password.
pub const CHANGE_PASSWORD: Operation =
    Operation::new("change_password", &[("change_password", CHANGE_PASSWORD_TABLE)], |_| CHANGE_PASSWORD_TABLE);

const CHANGE_PASSWORD_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::SetPassword, work!(set_password), Undo::Nothing("the guest may know either password, and so does its user"))
        .within(Deadline::Within(60))
        .tried(4),
    Step::forward(StepName::RecordAsBefore, work!(record_password)),
]);

/// Returns the place of the guest.
fn guest_of(context: &CrashDump) -> Result<Place, StepError> {
    context.here().cloned().ok_or_else(|| StepError::Refused("the server is on no host".into()))
}

async fn inject_nmi(world: &World, context: &mut CrashDump, fence: Fence) -> Result<(), StepError> {
    let here = guest_of(context)?;
    let event = (StepName::InjectNmi, InstanceAction::TriggerCrashDump, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &here).await?;
    world.ask(context, &here, fence, HostCommand::InjectNmi).await.map(drop)
}

async fn record_dump(world: &World, context: &mut CrashDump, fence: Fence) -> Result<(), StepError> {
    let here = guest_of(context)?;
    let txn = history::succeeded(CellTxn::new(), context);
    let event = (StepName::RecordAsBefore, InstanceAction::TriggerCrashDump, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await
}

async fn set_password(world: &World, context: &mut ChangePassword, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let (_, secrets) = first_boot::read(context, &world.env)?;
    let sealed = world.seal_for(&here, &secrets).await?;
    world.ask(context, &here, fence, HostCommand::SetPassword { sealed }).await.map(drop)
}

async fn record_password(world: &World, context: &mut ChangePassword, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let txn = CellTxn::new().instance_change(context.server, InstanceChange::task(None));
    Ok(world.cell(&here.cell)?.apply(fence, history::succeeded(txn, context)).await?)
}
