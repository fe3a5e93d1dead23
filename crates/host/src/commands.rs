//! The work of each command on a guest. Each command may be repeated, and copes with an earlier try that broke off.

use std::time::Duration;

use cellshift_domain::fence::Fence;
use cellshift_domain::guest::{GuestSpec, GuestVif, GuestVolume};
use cellshift_domain::host_protocol::{HostCommand, HostReply, NeighbourError, Plugging};
use cellshift_domain::reason;
use cellshift_domain::server::PowerState;
use cellshift_env::guard::{Guard, stands};
use futures::future::{BoxFuture, ready};
use uuid::Uuid;

use super::first_boot::unsealed;
use super::host::{CommandError, Host, unless_overtaken};
use super::lanes::Admission;
use crate::virt::{GuestRecord, Operation, StopCause};

/// The pause between two looks at a port while the host waits for its plugging.
const PLUG_POLL: Duration = Duration::from_millis(50);

type Outcome = Result<HostReply, CommandError>;

impl Host {
    pub(super) async fn perform(&self, admission: &Admission, operation: Uuid, command: &HostCommand) -> Outcome {
        let server = admission.fence.server;
        // On the heap, so that a host which waits holds no more than the command at hand takes.
        let performance: BoxFuture<'_, Outcome> = match command {
            HostCommand::StopGuest { grace_ms } => Box::pin(self.stop_guest(admission, operation, Duration::from_millis(*grace_ms))),
            HostCommand::UploadSnapshot { image_id } => Box::pin(self.upload_snapshot(admission, operation, *image_id)),
            HostCommand::UploadRootDisk { image_id } => Box::pin(self.upload_root_disk(admission, operation, *image_id)),
            HostCommand::SnapshotGuest { image_id } => Box::pin(self.snapshot_guest(admission, operation, *image_id)),
            HostCommand::ExportDisks => Box::pin(self.export_disks(admission, operation)),
            HostCommand::DropExport => Box::pin(self.drop_export(server)),
            HostCommand::ReleaseGuest => Box::pin(self.release_guest(admission)),
            HostCommand::PrepareGuest { spec } => Box::pin(self.prepare_guest(admission, operation, spec)),
            HostCommand::StartGuest => Box::pin(self.start_guest(admission)),
            HostCommand::RemoveGuest => Box::pin(self.remove_guest(admission, operation)),
            HostCommand::RebootGuest { grace_ms } => Box::pin(self.reboot_guest(admission, operation, Duration::from_millis(*grace_ms))),
            HostCommand::PauseGuest => Box::pin(self.pause_guest(admission)),
            HostCommand::SuspendGuest => Box::pin(self.suspend_guest(admission)),
            HostCommand::ResumeGuest => Box::pin(self.run_on(admission)),
            HostCommand::RescueGuest { image_id, config_drive, sealed } => {
                Box::pin(self.rescue_guest(admission, operation, *image_id, (config_drive, sealed)))
            }
            HostCommand::UnrescueGuest => Box::pin(self.unrescue_guest(admission, operation)),
            HostCommand::InjectNmi => Box::pin(self.inject_nmi(admission)),
            HostCommand::SetPassword { sealed } => Box::pin(self.set_password(admission, operation, sealed)),
            HostCommand::AttachVolume { volume } => Box::pin(self.attach_volume(admission, volume)),
            HostCommand::DetachVolume { volume_id } => Box::pin(self.detach_volume(admission, *volume_id)),
            HostCommand::AttachVif { vif } => Box::pin(self.attach_vif(admission, vif)),
            HostCommand::DetachVif { port_id } => Box::pin(self.detach_vif(admission, *port_id)),
            HostCommand::CheckLiveTarget => Box::pin(self.check_live_target(server)),
            HostCommand::AwaitLiveTurn => Box::pin(self.await_live_turn(admission, operation)),
            HostCommand::LeaveLiveQueue => Box::pin(ready(Ok(self.leave_live_queue(operation)))),
            HostCommand::CopyGuest => Box::pin(self.copy_guest(admission, operation)),
            HostCommand::EndLiveCopy { paused } => Box::pin(self.end_live_copy(admission, operation, *paused)),
            HostCommand::ReceiveGuest { spec, memory, paused } => {
                Box::pin(self.receive_guest(admission, operation, spec, (memory, *paused)))
            }
            HostCommand::Claim { .. } | HostCommand::DropClaim { .. } | HostCommand::Fence => {
                Box::pin(ready(Err(CommandError::Failed("a claim is not a guest's command".into()))))
            }
        };
        performance.await
    }

    /// Returns the guest or its leftovers, if there are any.
    pub(super) async fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, CommandError> {
        self.virt(move |hypervisor| hypervisor.guest(server)).await
    }

    pub(super) async fn defined_guest(&self, server: Uuid) -> Result<GuestRecord, CommandError> {
        let guest = self.guest(server).await?.filter(|guest| guest.defined);
        guest.ok_or_else(|| CommandError::Refused(reason!("server {server} has no guest on host {}", self.host())))
    }

    /// Powers the guest off: in good order within `grace`, else by cutting its power. Returns whether it ran before.
    pub(super) async fn power_off(&self, admission: &Admission, operation: Uuid, grace: Duration) -> Result<bool, CommandError> {
        let server = admission.fence.server;
        let runs = self.guest(server).await?.is_some_and(|guest| guest.runs());
        let own_way = self.parts.options.latency(Operation::GuestShutdown);
        let orderly = !grace.is_zero() && own_way <= grace;
        if runs {
            self.wait(admission, own_way.min(grace)).await?;
            self.latency(admission, Operation::PowerOff).await?;
        }
        self.virt(move |hypervisor| hypervisor.stop(server, StopCause::Operation(operation), orderly)).await
    }

    /// Plugs the interfaces, waits until the network confirms them, and powers the guest on.
    pub(super) async fn power_on(&self, admission: &Admission, guest: GuestRecord) -> Result<(), CommandError> {
        self.refuse_late_start(admission.fence).await?;
        let (server, epoch) = (admission.fence.server, admission.fence.epoch);
        self.wait_for_vifs(admission, &guest.spec.vifs).await?;
        self.latency(admission, Operation::Start).await?;
        self.virt(move |hypervisor| hypervisor.start(server, epoch)).await
    }

    /// Plugs the interfaces, and waits until the network confirms them.
    pub(super) async fn wait_for_vifs(&self, admission: &Admission, vifs: &[GuestVif]) -> Result<(), CommandError> {
        let server = admission.fence.server;
        let awaited = self.plug(admission, vifs).await?;
        let waiting = unless_overtaken(admission, self.wait_until_plugged(&awaited));
        let patience = self.parts.options.vif_plug_timeout;
        match tokio::time::timeout(patience, waiting).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                Err(CommandError::Failed(reason!("the network did not plug the ports of server {server} within {} s", patience.as_secs())))
            }
        }
    }

    async fn stop_guest(&self, admission: &Admission, operation: Uuid, grace: Duration) -> Outcome {
        Ok(HostReply::Stopped { was_running: self.power_off(admission, operation, grace).await? })
    }

    /// Refuses a start that has waited in the network while the host was away and its server went elsewhere: no fence can have been raised
    /// on a host that was off. Once a start is known to be the latest attempt, the lane refuses each earlier one by itself.
    pub(super) async fn refuse_late_start(&self, fence: Fence) -> Result<(), CommandError> {
        let may_be_late = stands(Guard::LateStart) && self.lanes.may_be_behind(fence.server);
        if !may_be_late {
            return Ok(());
        }
        let asker = self.asker();
        let answer = tokio::time::timeout(self.parts.options.oracle_patience, self.parts.upward.is_latest(&asker, fence)).await;
        match answer.ok().flatten() {
            Some(true) => {
                self.lanes.is_abreast(fence.server);
                Ok(())
            }
            Some(false) => Err(CommandError::Refused(reason!("a later attempt than this start has begun for server {}", fence.server))),
            None => {
                Err(CommandError::Refused(reason!("whether this start of server {} is the latest attempt cannot be told", fence.server)))
            }
        }
    }

    async fn start_guest(&self, admission: &Admission) -> Outcome {
        let guest = self.defined_guest(admission.fence.server).await?;
        // Also for a running guest, so that it counts as started for this epoch.
        self.power_on(admission, guest).await?;
        Ok(HostReply::Done)
    }

    async fn reboot_guest(&self, admission: &Admission, operation: Uuid, grace: Duration) -> Outcome {
        let guest = self.defined_guest(admission.fence.server).await?;
        self.power_off(admission, operation, grace).await?;
        self.power_on(admission, guest).await?;
        Ok(HostReply::Done)
    }

    /// Boots a guest that ran when its host went away: the operation cannot tell it from a guest that runs.
    pub(super) async fn back_after_interruption(&self, admission: &Admission) -> Result<(), CommandError> {
        let guest = self.defined_guest(admission.fence.server).await?;
        if guest.stopped_by == Some(StopCause::HostDown) { self.power_on(admission, guest).await } else { Ok(()) }
    }

    async fn pause_guest(&self, admission: &Admission) -> Outcome {
        let server = admission.fence.server;
        self.back_after_interruption(admission).await?;
        self.latency(admission, Operation::Pause).await?;
        self.virt(move |hypervisor| hypervisor.pause(server, StopCause::UserPaused)).await?;
        Ok(HostReply::Done)
    }

    async fn suspend_guest(&self, admission: &Admission) -> Outcome {
        let server = admission.fence.server;
        self.back_after_interruption(admission).await?;
        self.latency(admission, Operation::Suspend).await?;
        self.virt(move |hypervisor| hypervisor.suspend(server)).await?;
        Ok(HostReply::Done)
    }

    async fn run_on(&self, admission: &Admission) -> Outcome {
        let (server, epoch) = (admission.fence.server, admission.fence.epoch);
        let guest = self.defined_guest(server).await?;
        match guest.power_state {
            PowerState::Shutdown | PowerState::NoState => self.power_on(admission, guest).await?,
            PowerState::Running | PowerState::Paused | PowerState::Suspended => {
                self.refuse_late_start(admission.fence).await?;
                self.wait_for_vifs(admission, &guest.spec.vifs).await?;
                self.latency(admission, Operation::Start).await?;
                self.virt(move |hypervisor| hypervisor.resume(server, epoch, None)).await?;
            }
        }
        Ok(HostReply::Done)
    }

    async fn release_guest(&self, admission: &Admission) -> Outcome {
        let server = admission.fence.server;
        let Some(guest) = self.guest(server).await?.filter(|guest| guest.defined) else { return Ok(HostReply::Done) };
        if guest.runs() {
            return Err(CommandError::Refused(reason!("the guest of server {server} runs")));
        }
        for vif in &guest.spec.vifs {
            self.unplug(vif.port_id).await?;
        }
        self.latency(admission, Operation::Undefine).await?;
        self.virt(move |hypervisor| hypervisor.undefine(server)).await?;
        Ok(HostReply::Done)
    }

    pub(super) async fn prepare_guest(&self, admission: &Admission, operation: Uuid, spec: &GuestSpec) -> Outcome {
        let server = admission.fence.server;
        if spec.server != server {
            return Err(CommandError::Refused(reason!("the guest is for server {} and the request for server {server}", spec.server)));
        }
        if stands(Guard::RunningGuest) && self.guest(server).await?.is_some_and(|guest| guest.runs()) {
            return Err(CommandError::Refused(reason!("the guest of server {server} runs")));
        }
        let (request, key) = (spec.clone(), self.key.clone());
        // Before the old disks go: a refusal changes nothing.
        let owned = self.blocking(move || unsealed(&request, operation, &key)).await??;
        self.latency(admission, Operation::Define).await?;
        let built = async {
            let arrived = self.fetch_disks(admission, operation, spec).await?;
            self.virt(move |hypervisor| hypervisor.define(&owned, &arrived)).await
        };
        if let Err(error) = built.await {
            self.virt(move |hypervisor| hypervisor.discard_incoming(server)).await?;
            return Err(error);
        }
        self.plug(admission, &spec.vifs).await?;
        Ok(HostReply::Done)
    }

    async fn remove_guest(&self, admission: &Admission, operation: Uuid) -> Outcome {
        let server = admission.fence.server;
        let guest = self.guest(server).await?;
        self.power_off(admission, operation, Duration::ZERO).await?;
        for vif in guest.iter().flat_map(|guest| &guest.spec.vifs) {
            // The binding goes with the guest. A network that does not answer must not keep a guest alive.
            if let Err(CommandError::Failed(reason) | CommandError::Refused(reason)) = self.unplug(vif.port_id).await {
                log::warn!(server:% = server, host = self.host(); "port {} stays plugged: {reason}", vif.port_id);
            }
        }
        if guest.is_some() {
            self.latency(admission, Operation::Undefine).await?;
        }
        self.virt(move |hypervisor| hypervisor.remove(server)).await?;
        self.drop_own_export(server).await?;
        Ok(HostReply::Done)
    }

    async fn attach_volume(&self, admission: &Admission, volume: &GuestVolume) -> Outcome {
        self.latency(admission, Operation::Volume).await?;
        let (server, volume) = (admission.fence.server, volume.clone());
        self.virt(move |hypervisor| hypervisor.connect_volume(server, &volume)).await?;
        Ok(HostReply::Done)
    }

    async fn detach_volume(&self, admission: &Admission, volume: Uuid) -> Outcome {
        self.latency(admission, Operation::Volume).await?;
        let server = admission.fence.server;
        self.virt(move |hypervisor| hypervisor.disconnect_volume(server, volume)).await?;
        Ok(HostReply::Done)
    }

    async fn attach_vif(&self, admission: &Admission, vif: &GuestVif) -> Outcome {
        let server = admission.fence.server;
        self.defined_guest(server).await?;
        self.latency(admission, Operation::Vif).await?;
        let added = vif.clone();
        self.virt(move |hypervisor| hypervisor.add_vif(server, &added)).await?;
        self.wait_for_vifs(admission, std::slice::from_ref(vif)).await?;
        Ok(HostReply::Done)
    }

    async fn detach_vif(&self, admission: &Admission, port: Uuid) -> Outcome {
        let server = admission.fence.server;
        self.latency(admission, Operation::Vif).await?;
        self.virt(move |hypervisor| hypervisor.remove_vif(server, port)).await?;
        self.unplug(port).await?;
        self.free_function(server, port).await?;
        Ok(HostReply::Done)
    }

    /// Plugs the interfaces that are not plugged yet. Returns the ports that the network has not confirmed yet.
    async fn plug(&self, admission: &Admission, vifs: &[GuestVif]) -> Result<Vec<Uuid>, CommandError> {
        let (mut awaited, asker, upward) = (Vec::new(), self.asker(), &self.parts.upward);
        for vif in vifs {
            match unless_overtaken(admission, upward.plugging(&asker, vif.port_id)).await? {
                Err(NeighbourError::Missing(_)) => {
                    log::warn!(host = self.host(); "port {} was deleted; its interface stays without a network", vif.port_id);
                }
                Ok(Plugging::Confirmed) => {}
                Ok(Plugging::Plugged) => awaited.push(vif.port_id),
                Ok(Plugging::Unplugged) => {
                    self.latency(admission, Operation::Vif).await?;
                    unless_overtaken(admission, upward.set_plugged(&asker, vif.port_id, true)).await??;
                    awaited.push(vif.port_id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(awaited)
    }

    async fn unplug(&self, port: Uuid) -> Result<(), CommandError> {
        match self.parts.upward.set_plugged(&self.asker(), port, false).await {
            Ok(()) | Err(NeighbourError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_until_plugged(&self, ports: &[Uuid]) -> Result<(), CommandError> {
        let asker = self.asker();
        for port in ports {
            loop {
                match self.parts.upward.plugging(&asker, *port).await {
                    Err(NeighbourError::Missing(_)) | Ok(Plugging::Confirmed) => break,
                    Ok(Plugging::Unplugged | Plugging::Plugged) => tokio::time::sleep(PLUG_POLL).await,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}
