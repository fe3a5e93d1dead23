//! Start, stop, reboot, pause, unpause, suspend and resume, and the steps that they share with unrescue: the guest stays where it is. A hard
//! reboot defines the guest anew from the control plane's records, on its kept disks and with fresh connections, and so recovers a server
//! in ERROR (NOVA-DIFFERENCES L16).

use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Context, Power, PowerRequest, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, Work, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::guest::guest_spec;
use crate::saga::steps::ports::activate_ports;
use crate::saga::steps::volumes::{attachments, connect_volumes};
use crate::saga::world::World;

/// A hard reboot that fails leaves the server in ERROR, and the next one mends it.
const NOT_UNDONE: Undo = Undo::Nothing("another hard reboot mends it");
/// After a lost reply the guest's power is unknown: the undo makes it agree with the record.
pub(super) const BACK: Undo = Undo::By(work!(power_as_before));

/// The first step of an operation on the guest: consumers hear that it begins.
pub(super) const BEGIN: Step = Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells"));

/// Makes the step that tells the guest's host to change its power, within these seconds. Its undo makes the power agree with the record.
pub(super) const fn on_guest(name: StepName, act: Work, seconds: u64) -> Step {
    Step::reversible(name, act, BACK).moot_when(Moot::OutOfHand(At::Source)).within(Deadline::Within(seconds)).tried(4).serving()
}

/// Start.
pub const START: Operation = Operation::new("start", &[("start", START_TABLE)], |_| START_TABLE);

const START_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::StartGuest, work!(start_guest), 300),
    Step::forward(StepName::RecordRunning, work!(record_running)),
]);

/// Stop.
pub const STOP: Operation = Operation::new("stop", &[("stop", STOP_TABLE)], |_| STOP_TABLE);

const STOP_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::StopGuest, work!(stop_guest), 180),
    Step::forward(StepName::RecordStopped, work!(record_stopped)),
]);

/// Reboot.
pub const REBOOT: Operation =
    Operation::new("reboot", &[("soft_reboot", SOFT_REBOOT), ("hard_reboot", HARD_REBOOT)], |context| match context {
        Context::Reboot(reboot) if reboot.request == PowerRequest::Reboot { hard: false } => SOFT_REBOOT,
        _ => HARD_REBOOT,
    });

const SOFT_REBOOT: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::RebootGuest, work!(reboot_guest), 300),
    Step::forward(StepName::RecordRunning, work!(record_running)),
]);

const HARD_REBOOT: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    Step::reversible(StepName::StopGuest, work!(stop_guest), NOT_UNDONE).within(Deadline::Within(180)).tried(4).serving().no_way_back(),
    Step::reversible(StepName::DefineGuest, work!(define_guest), NOT_UNDONE).tried(4).serving().no_way_back(),
    Step::reversible(StepName::StartGuest, work!(start_guest), NOT_UNDONE).within(Deadline::Within(300)).tried(4).serving().no_way_back(),
    Step::forward(StepName::RecordRunning, work!(record_running)),
]);

/// Pause: the guest stands still with its memory.
pub const PAUSE: Operation = Operation::new("pause", &[("pause", PAUSE_TABLE)], |_| PAUSE_TABLE);

const PAUSE_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::PauseGuest, work!(pause_guest), 180),
    Step::forward(StepName::RecordPaused, work!(record_paused)),
]);

/// Unpause.
pub const UNPAUSE: Operation = Operation::new("unpause", &[("unpause", UNPAUSE_TABLE)], |_| UNPAUSE_TABLE);

const UNPAUSE_TABLE: Table = Table::of(GOES_ON);

/// Suspend: the guest is off, and its memory lies on the host's disk.
pub const SUSPEND: Operation = Operation::new("suspend", &[("suspend", SUSPEND_TABLE)], |_| SUSPEND_TABLE);

const SUSPEND_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::SuspendGuest, work!(suspend_guest), 300),
    Step::forward(StepName::RecordSuspended, work!(record_suspended)),
]);

/// Resume.
pub const RESUME: Operation = Operation::new("resume", &[("resume", RESUME_TABLE)], |_| RESUME_TABLE);

const RESUME_TABLE: Table = Table::of(GOES_ON);

const GOES_ON: &[Step] = &[
    ACCEPT,
    BEGIN,
    on_guest(StepName::ResumeGuest, work!(resume_guest), 300),
    Step::forward(StepName::RecordRunning, work!(record_running)),
];

async fn begin(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    if matches!(context.request, PowerRequest::Reboot { hard: true } | PowerRequest::Unrescue) {
        services_answer(world, context.server).await?;
    }
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::Begin, action(context), Phase::Start), &here).await
}

/// Asks the services that the guest's next start needs. While one does not answer, the guest is not stopped, and the server stays as it is.
async fn services_answer(world: &World, server: Uuid) -> Result<(), StepError> {
    world.network.ports_of(server).await?;
    world.volumes.attachments_of(server).await?;
    Ok(())
}

/// Stops the guest within its grace time.
pub async fn stop_guest(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &here, fence, stop).await.map(drop)
}

pub(super) async fn start_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::StartGuest).await.map(drop)
}

async fn pause_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::PauseGuest).await.map(drop)
}

async fn suspend_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::SuspendGuest).await.map(drop)
}

async fn resume_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::ResumeGuest).await.map(drop)
}

/// Undo: lets the guest run if it ran before, and stand still or be off if that was so. Leaves the guest of a server that was in ERROR to
/// its user.
async fn power_as_before(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let Some(prior) = &context.prior else { return Ok(()) };
    let command = match (prior.vm_state, prior.running) {
        (VmState::Error, _) => return Ok(()),
        (VmState::Paused, _) => HostCommand::PauseGuest,
        (VmState::Suspended, _) => HostCommand::SuspendGuest,
        (_, true) => HostCommand::ResumeGuest,
        (_, false) => HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms },
    };
    let lost_memory = matches!(command, HostCommand::PauseGuest | HostCommand::SuspendGuest);
    match world.ask(context, &here, fence, command).await {
        // Its host went away meanwhile: the guest is off, and power following tells so.
        Err(StepError::Refused(why)) if lost_memory => match world.ask(context, &here, fence, HostCommand::Fence).await? {
            HostReply::Stopped { was_running: false } => Ok(()),
            _ => Err(StepError::Refused(why)),
        },
        other => other.map(drop),
    }
}

async fn reboot_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let reboot = HostCommand::RebootGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &here, fence, reboot).await.map(drop)
}

/// Defines the guest from the record, and connects its volumes and ports here alone.
async fn define_guest(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    activate_ports(world, context, fence, &here.host).await?;
    let volumes = connect_volumes(world, context, fence, &here, |volume| volume.source_attachment).await?;
    let disks = if context.has_local_disks() { DiskSource::Kept } else { DiskSource::Volume };
    let flavor = context.old_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, &here, flavor, disks, volumes).await?;
    world.ask(context, &here, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await?;
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.source_attachment).await?;
    }
    let txn = attachments(world, context, &here.cell, CellTxn::new(), |volume| volume.source_attachment).await?;
    Ok(world.cell(&here.cell)?.apply(fence, txn).await?)
}

pub(super) async fn record_running(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    record(world, context, fence, StepName::RecordRunning, (VmState::Active, PowerState::Running)).await
}

async fn record_paused(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    record(world, context, fence, StepName::RecordPaused, (VmState::Paused, PowerState::Paused)).await
}

async fn record_suspended(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    record(world, context, fence, StepName::RecordSuspended, (VmState::Suspended, PowerState::Suspended)).await
}

async fn record_stopped(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    record(world, context, fence, StepName::RecordStopped, (VmState::Stopped, PowerState::Shutdown)).await
}

async fn record(
    world: &World,
    context: &mut Power,
    fence: Fence,
    step: StepName,
    (vm_state, power): (VmState, PowerState),
) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let vm_state = if context.awaits_confirm { VmState::Resized } else { vm_state };
    let change = InstanceChange { power_state: Some(power), ..InstanceChange::states(vm_state, None) };
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, change), context);
    history::apply_and_notify(world, context, fence, txn, (step, action(context), Phase::End), &here).await
}

fn action(context: &Power) -> InstanceAction {
    match context.request {
        PowerRequest::Start => InstanceAction::PowerOn,
        PowerRequest::Stop => InstanceAction::PowerOff,
        PowerRequest::Reboot { .. } => InstanceAction::Reboot,
        PowerRequest::Pause => InstanceAction::Pause,
        PowerRequest::Unpause => InstanceAction::Unpause,
        PowerRequest::Suspend => InstanceAction::Suspend,
        PowerRequest::Resume => InstanceAction::Resume,
        PowerRequest::Unrescue => InstanceAction::Unrescue,
        PowerRequest::Restore => InstanceAction::Restore,
    }
}
