//! Live migration on a host: turns at the source, and the copy of a guest that runs and goes on writing. Disks are real bytes in files;
//! memory is a number of pages at a configured pace, with a few real bytes.

mod copy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellshift_domain::guest::{DiskPart, GuestSpec};
use cellshift_domain::host_protocol::{HostReply, LiveProgress};
use cellshift_domain::reason;
use cellshift_domain::server::PowerState;
use cellshift_env::guard::{Guard, stands};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use uuid::Uuid;

use super::host::{CommandError, Host, unless_overtaken};
use super::lanes::Admission;
use crate::virt::{GuestRecord, StopCause};

type Outcome = Result<HostReply, CommandError>;

/// The options of live migrations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveOptions {
    /// The number of guests that leave a host at once.
    pub at_once: usize,
    /// The bytes per second between hosts; 0 for no limit.
    pub bandwidth: u64,
    /// The bytes of memory per second that a running guest changes.
    pub dirty_rate: u64,
    /// The longest time for which a guest may be paused.
    pub max_downtime: Duration,
    /// The time limit of a copy per GiB of the guest; zero for none.
    pub completion_timeout: Duration,
    /// Whether a copy at its time limit pauses its guest and ends, or is given up.
    pub forces_at_timeout: bool,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            at_once: 1,
            bandwidth: 0,
            dirty_rate: 0,
            max_downtime: Duration::from_millis(50),
            completion_timeout: Duration::from_secs(800),
            forces_at_timeout: false,
        }
    }
}

/// The guests that leave this host, by their live migrations. They are forgotten with the incarnation, which ends their copies, too.
pub(super) struct Leaving {
    turns: Arc<Semaphore>,
    inner: Mutex<BTreeMap<Uuid, Arc<Leave>>>,
}

/// A guest that leaves, or waits for its turn.
pub(super) struct Leave {
    turn: Mutex<Option<OwnedSemaphorePermit>>,
    hurries: watch::Sender<bool>,
    progress: Mutex<Option<LiveProgress>>,
}

impl Leave {
    /// True if the copy is under way: a guest that waits has nothing to hasten.
    fn is_copied(&self) -> bool {
        let waits = self.progress.lock().is_none();
        !(stands(Guard::HastenedCopy) && waits)
    }

    fn show(&self, progress: LiveProgress) {
        *self.progress.lock() = Some(progress);
    }
}

impl Leaving {
    pub fn new(options: &LiveOptions) -> Leaving {
        Leaving { turns: Arc::new(Semaphore::new(options.at_once.max(1))), inner: Mutex::default() }
    }

    /// Returns the leave of this operation, new or known.
    fn of(&self, operation: Uuid) -> Arc<Leave> {
        let new = || Leave { turn: Mutex::default(), hurries: watch::channel(false).0, progress: Mutex::default() };
        self.inner.lock().entry(operation).or_insert_with(|| Arc::new(new())).clone()
    }

    /// Ends the leave, and gives its turn to the next.
    fn end(&self, operation: Uuid) {
        self.inner.lock().remove(&operation);
    }

    pub fn progress(&self, operation: Uuid) -> Option<LiveProgress> {
        self.inner.lock().get(&operation).and_then(|leave| *leave.progress.lock())
    }

    /// Hastens the copy. False if none is under way.
    pub fn hasten(&self, operation: Uuid) -> bool {
        let leave = self.inner.lock().get(&operation).cloned();
        let copies = leave.filter(|leave| leave.is_copied());
        copies.map(|leave| leave.hurries.send_replace(true)).is_some()
    }
}

impl Host {
    pub(super) async fn check_live_target(&self, server: Uuid) -> Outcome {
        match self.guest(server).await? {
            Some(_) => Err(CommandError::Refused(reason!("host {} still has disks of server {server}", self.host()))),
            None => Ok(HostReply::Done),
        }
    }

    pub(super) async fn await_live_turn(&self, admission: &Admission, operation: Uuid) -> Outcome {
        let leave = self.leaving.of(operation);
        self.take_turn(admission, &leave).await?;
        Ok(HostReply::Done)
    }

    async fn take_turn(&self, admission: &Admission, leave: &Leave) -> Result<(), CommandError> {
        if leave.turn.lock().is_some() {
            return Ok(());
        }
        let turn = unless_overtaken(admission, self.leaving.turns.clone().acquire_owned()).await?;
        *leave.turn.lock() = turn.ok();
        Ok(())
    }

    pub(super) fn leave_live_queue(&self, operation: Uuid) -> HostReply {
        self.leaving.end(operation);
        HostReply::Done
    }

    /// Copies and pauses. A repeated request finds the guest paused, and only writes the rest again.
    pub(super) async fn copy_guest(&self, admission: &Admission, operation: Uuid) -> Outcome {
        let server = admission.fence.server;
        let leave = self.leaving.of(operation);
        self.take_turn(admission, &leave).await?;
        let guest = self.defined_guest(server).await?;
        if !guest.runs() && guest.power_state != PowerState::Paused {
            return Err(CommandError::Refused(reason!("the guest of server {server} does not run")));
        }
        let (manifest, memory) = copy::Copying::begin(self, admission, operation, &leave, &guest).await?.finish().await?;
        self.leaving.end(operation);
        let exported = self.sent_as_written(admission, manifest).await?;
        match exported {
            HostReply::Exported { manifest } => Ok(HostReply::Copied { manifest, memory }),
            other => Ok(other),
        }
    }

    /// A guest that its user paused lost its memory if it is off now, so it stays off.
    pub(super) async fn end_live_copy(&self, admission: &Admission, operation: Uuid, paused: bool) -> Outcome {
        let (server, epoch) = (admission.fence.server, admission.fence.epoch);
        self.leaving.end(operation);
        let guest = self.defined_guest(server).await?;
        match guest.power_state {
            _ if paused || guest.stopped_by == Some(StopCause::UserPaused) => {}
            PowerState::Paused | PowerState::Running => self.virt(move |hypervisor| hypervisor.resume(server, epoch, None)).await?,
            PowerState::Shutdown | PowerState::NoState | PowerState::Suspended => self.power_on(admission, guest).await?,
        }
        self.drop_export(server).await
    }

    pub(super) async fn receive_guest(
        &self,
        admission: &Admission,
        operation: Uuid,
        spec: &GuestSpec,
        (memory, paused): (&DiskPart, bool),
    ) -> Outcome {
        let (server, epoch) = (admission.fence.server, admission.fence.epoch);
        // The guest has run here, so its disks have moved on. If its host went away since, the guest boots, unless its user paused it.
        if let Some(guest) = self.guest(server).await?.filter(|guest| has_come(guest, epoch)) {
            if !paused {
                self.power_on(admission, guest).await?;
            }
            return Ok(HostReply::Done);
        }
        self.refuse_late_start(admission.fence).await?;
        let arrived = self.arrived_memory(admission, &spec.disks, memory).await?;
        self.prepare_guest(admission, operation, spec).await?;
        self.wait_for_vifs(admission, &spec.vifs).await?;
        self.virt(move |hypervisor| match paused {
            true => hypervisor.arrive_paused(server, epoch, arrived),
            false => hypervisor.resume(server, epoch, Some(arrived)),
        })
        .await?;
        Ok(HostReply::Done)
    }
}

fn has_come(guest: &GuestRecord, epoch: i64) -> bool {
    guest.defined && guest.started_epoch == epoch
}
