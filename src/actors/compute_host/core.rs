//! Takes a host's request through its lane to a reply. The actor carries messages in and replies out; this file knows no mailbox.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::{RwLock, watch};
use uuid::Uuid;

use super::lanes::{Admission, Entry, Lanes, digest};
use super::live::Leaving;
use super::memory::MemoryStore;
use super::neighbours::NeighbourError;
use super::{HostParts, HostPlace};
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply, HostRequest};
use crate::domain::inside;
use crate::env::guard::{Guard, stands};
use crate::virt::files::Durability;
use crate::virt::{GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// The number of servers in one question.
const FORGOTTEN_AT_ONCE: usize = 500;

/// The parts that all incarnations of a host share: its place, its driver, and a gate. The gate keeps the last blocking calls of a dead
/// incarnation from overlapping with the first calls of its successor.
pub struct HostSite {
    /// The host's place.
    pub place: HostPlace,
    /// The host's driver.
    pub hypervisor: Arc<dyn Hypervisor>,
    generation: AtomicU64,
    gate: Arc<RwLock<()>>,
    /// The moment at which the machine got its power; none without power.
    up_since: Mutex<Option<DateTime<Utc>>>,
}

impl HostSite {
    /// Makes the site of a host before its first incarnation.
    pub fn new(place: HostPlace, hypervisor: Arc<dyn Hypervisor>) -> Arc<HostSite> {
        let (generation, gate) = (AtomicU64::new(0), Arc::new(RwLock::new(())));
        Arc::new(HostSite { place, hypervisor, generation, gate, up_since: Mutex::new(None) })
    }

    /// Returns since when the machine has had power; none without power.
    pub fn up_since(&self) -> Option<DateTime<Utc>> {
        *self.up_since.lock()
    }

    /// Notes that the machine has power. A new incarnation on a running machine changes nothing.
    fn has_power(&self, now: DateTime<Utc>) {
        self.up_since.lock().get_or_insert(now);
    }

    /// Notes that the machine has lost its power.
    pub fn lost_power(&self) {
        *self.up_since.lock() = None;
    }

    /// Ends the power of each earlier incarnation: it begins no further blocking call, and its running calls have ended when this returns.
    /// Returns the new generation.
    pub async fn take_over(&self) -> u64 {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        drop(self.gate.write().await);
        generation
    }
}

/// The reason why a command ends without a reply of its own.
pub(super) enum CommandError {
    /// A higher fence cancelled it.
    Overtaken,
    /// The command is surely not done, and left nothing.
    Refused(String),
    /// The command began and failed.
    Failed(String),
}

impl CommandError {
    /// The host's own disk failed.
    pub fn io(what: &str, error: &io::Error) -> CommandError {
        CommandError::Failed(format!("{what}: {}", inside::of_system(error)))
    }
}

impl From<VirtError> for CommandError {
    fn from(error: VirtError) -> CommandError {
        match error {
            VirtError::NoGuest(_) | VirtError::Refused(_) => CommandError::Refused(error.to_string()),
            VirtError::Io { .. } => CommandError::Failed(error.to_string()),
        }
    }
}

impl From<NeighbourError> for CommandError {
    fn from(error: NeighbourError) -> CommandError {
        CommandError::Failed(error.to_string())
    }
}

/// One incarnation of a host.
pub(super) struct Core {
    pub parts: HostParts,
    pub lanes: Arc<Lanes>,
    pub leaving: Leaving,
    /// Changes when a command has been carried out: a host without guests rests until then.
    pub carried_out: watch::Sender<()>,
    store: Arc<MemoryStore>,
    generation: u64,
}

impl Core {
    /// Takes the site over from the earlier incarnation, reads its memory, and notes that no guest runs.
    pub async fn start(parts: HostParts) -> Result<Core, String> {
        let generation = parts.site.take_over().await;
        parts.site.has_power(parts.env.now());
        let (site, durability) = (parts.site.clone(), Durability::of(&parts.env));
        let opened = parts.env.run_blocking(move || {
            let opened = MemoryStore::open(&site.place.memory_dir(), durability)
                .map_err(|e| format!("its memory cannot be read: {}", inside::of(e)))?;
            site.hypervisor.interrupted(true).map_err(|e| e.to_string())?;
            discard_broken_imports(&*site.hypervisor);
            Ok::<_, String>(opened)
        });
        let (store, memories) = opened.await?;
        let remembered = memories.into_iter().filter(|_| stands(Guard::HostMemory)).collect();
        let lanes = Lanes::new(parts.options.claimable(&parts.capacity), parts.functions.clone(), remembered);
        let leaving = Leaving::new(&parts.options.live);
        let carried_out = watch::Sender::new(());
        Ok(Core { parts, lanes, leaving, carried_out, store: Arc::new(store), generation })
    }

    pub fn host(&self) -> &str {
        &self.parts.site.place.host
    }

    /// Obeys a request, or answers why it does not.
    pub async fn obey(&self, request: HostRequest) -> HostReply {
        let digest = digest(&request.command);
        loop {
            match self.lanes.admit(request.fence, digest.clone()) {
                Entry::Answer(reply) => return reply,
                Entry::Join(mut reply) => {
                    let joined = reply.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone());
                    // The joined request ended without a reply, so this request runs.
                    if let Some(reply) = joined {
                        return reply;
                    }
                }
                Entry::Run(admission) => {
                    let reply = self.run(&admission, &request).await;
                    self.carried_out.send_replace(());
                    admission.publish(reply.clone());
                    return reply;
                }
            }
        }
    }

    async fn run(&self, admission: &Admission, request: &HostRequest) -> HostReply {
        let _turn = admission.turn.lock().await;
        if let Some(stale) = admission.stale() {
            return stale;
        }
        let HostRequest { fence, operation, ref command, ref request_id } = *request;
        let outcome = match command {
            HostCommand::Claim { .. } | HostCommand::DropClaim { .. } | HostCommand::Fence => {
                self.remember_only(admission, fence, command).await
            }
            _ => self.act(admission, operation, command).await,
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(CommandError::Refused(reason)) => HostReply::Refused { reason },
            Err(CommandError::Failed(reason)) => HostReply::Failed { reason },
            Err(CommandError::Overtaken) => {
                let (epoch, attempt) = self.lanes.fence(fence.server);
                HostReply::Stale { epoch, attempt }
            }
        };
        let is_done = matches!(
            reply,
            HostReply::Done | HostReply::Claimed { .. } | HostReply::Stopped { .. } | HostReply::Exported { .. } | HostReply::Copied { .. }
        );
        let (level, did) = if is_done { (log::Level::Debug, "did") } else { (log::Level::Info, "did not do") };
        log::log!(
            level, server:% = fence.server, operation:% = operation, host = self.host(), request = request_id.as_str();
            "the host {did} {}: {reply}", name_of(command)
        );
        reply
    }

    /// Performs a command whose whole effect is in the host's memory: one durable write has the fence, the effect and the reply.
    async fn remember_only(&self, admission: &Admission, fence: Fence, command: &HostCommand) -> Result<HostReply, CommandError> {
        let server = fence.server;
        let before = self.lanes.change_claims(server, |_| ());
        let mut given = BTreeMap::new();
        match command {
            HostCommand::Claim { holder, resources, functions } => match self.lanes.claim(server, *holder, *resources, functions) {
                Ok(functions) => given = functions,
                Err(reason) => {
                    self.record(server, true).await?;
                    return Err(CommandError::Refused(reason));
                }
            },
            HostCommand::DropClaim { holder } => {
                self.lanes.change_claims(server, |claims| {
                    claims.remove(holder);
                });
            }
            _ => {}
        }
        let reply = match command {
            HostCommand::Fence => HostReply::Stopped { was_running: self.guest(server).await?.is_some_and(|guest| guest.runs()) },
            _ if !given.is_empty() => HostReply::Claimed { functions: given },
            _ => HostReply::Done,
        };
        // Whether a guest runs changes without a request, so this reply is never repeated from memory.
        if !matches!(command, HostCommand::Fence) {
            admission.remember(&reply);
        }
        if let Err(error) = self.record(server, true).await {
            self.lanes.change_claims(server, |claims| *claims = before);
            admission.forget();
            return Err(error);
        }
        Ok(reply)
    }

    /// Performs a command with an effect outside the memory: the fence is durable before it, and the reply is remembered after it.
    async fn act(&self, admission: &Admission, operation: Uuid, command: &HostCommand) -> Result<HostReply, CommandError> {
        let server = admission.fence.server;
        self.raise(server).await?;
        let reply = self.perform(admission, operation, command).await?;
        if admission.remember(&reply) {
            // A command whose reply is forgotten runs again. All commands may, except a start: a guest that went off with its host must not
            // run again because of a late request. Another start comes under a new attempt.
            let flush = matches!(command, HostCommand::StartGuest | HostCommand::ReceiveGuest { .. } | HostCommand::EndLiveCopy { .. });
            if let Err(CommandError::Failed(reason)) = self.record(server, flush).await {
                log::warn!(server:% = server, host = self.host(); "a reply is not remembered: {reason}");
            }
        }
        Ok(reply)
    }

    /// Frees the virtual function of a port that has left the server.
    pub(super) async fn free_function(&self, server: Uuid, port: Uuid) -> Result<(), CommandError> {
        let before = self.lanes.change_claims(server, |claims| {
            claims.values_mut().for_each(|claim| drop(claim.functions.remove(&port)));
        });
        if before.values().all(|claim| !claim.functions.contains_key(&port)) {
            return Ok(());
        }
        let recorded = self.record(server, true).await;
        if recorded.is_err() {
            self.lanes.change_claims(server, |claims| *claims = before);
        }
        recorded
    }

    /// Makes the server's fence durable if it is not.
    pub async fn raise(&self, server: Uuid) -> Result<(), CommandError> {
        let (_, is_unrecorded) = self.lanes.memory(server);
        match stands(Guard::DurableFence) && is_unrecorded {
            true => self.record(server, true).await,
            false => Ok(()),
        }
    }

    async fn record(&self, server: Uuid, flush: bool) -> Result<(), CommandError> {
        let (memory, _) = self.lanes.memory(server);
        let (store, fence) = (self.store.clone(), memory.fence);
        let recorded = self.blocking(move || store.record(server, &memory, flush)).await?;
        recorded.map_err(|error| CommandError::io("the host cannot record what it obeys", &error))?;
        if flush {
            self.lanes.recorded(server, fence);
        }
        Ok(())
    }

    /// Runs blocking work, unless a successor of this incarnation has started.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, CommandError> {
        let site = &self.parts.site;
        let permit = site.gate.clone().read_owned().await;
        if stands(Guard::HostLife) && site.generation.load(Ordering::SeqCst) != self.generation {
            return Err(CommandError::Failed("the host was restarted meanwhile".into()));
        }
        let work = move || {
            let _permit = permit;
            work()
        };
        Ok(self.parts.env.run_blocking(work).await)
    }

    /// Calls the driver.
    pub async fn virt<T, F>(&self, call: F) -> Result<T, CommandError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Hypervisor) -> Result<T, VirtError> + Send + 'static,
    {
        let hypervisor = self.parts.site.hypervisor.clone();
        Ok(self.blocking(move || call(&*hypervisor)).await??)
    }

    /// Waits for the operation's configured time. A higher fence ends the wait.
    pub async fn latency(&self, admission: &Admission, operation: Operation) -> Result<(), CommandError> {
        self.wait(admission, self.parts.options.latency(operation)).await
    }

    /// Waits for this time. A higher fence ends the wait.
    pub async fn wait(&self, admission: &Admission, time: Duration) -> Result<(), CommandError> {
        if time.is_zero() {
            return Ok(());
        }
        unless_overtaken(admission, tokio::time::sleep(time)).await
    }

    /// Asks for the guests that ran when the host went away, and starts those that it may run. The others stay off; the next look asks for
    /// them again.
    pub async fn resume(&self) {
        let guests = match self.virt(|hypervisor| hypervisor.guests()).await {
            Ok(guests) => guests,
            Err(CommandError::Failed(reason) | CommandError::Refused(reason)) => {
                log::warn!(host = self.host(); "the host cannot look for interrupted guests: {reason}");
                return;
            }
            Err(CommandError::Overtaken) => return,
        };
        let interrupted = guests.into_iter().filter(|guest| guest.defined && was_interrupted(guest));
        for guest in interrupted {
            let server = guest.spec.server;
            let place = &self.parts.site.place;
            let asked = self.parts.oracle.may_run(&place.cell, &place.host, server);
            let answer = tokio::time::timeout(self.parts.options.oracle_patience, asked).await;
            let Ok(Some((epoch, attempt))) = answer else { continue };
            self.resume_guest(Fence { server, epoch, attempt }).await;
        }
    }

    /// Forgets the fences of servers that the deployment has forgotten. Keeps the fence of a server whose guest is here.
    pub async fn forget_servers(&self) {
        let Ok(guests) = self.virt(|hypervisor| hypervisor.guests()).await else { return };
        let present: BTreeSet<Uuid> = guests.into_iter().map(|guest| guest.spec.server).collect();
        let idle: Vec<Uuid> = self.lanes.idle().into_iter().filter(|server| !present.contains(server)).collect();
        for part in idle.chunks(FORGOTTEN_AT_ONCE) {
            let asked = self.parts.oracle.forgotten(part.to_vec());
            let Ok(forgotten) = tokio::time::timeout(self.parts.options.oracle_patience, asked).await else { return };
            for server in forgotten.into_iter().filter(|server| self.lanes.forget(*server)) {
                let store = self.store.clone();
                if let Ok(Err(error)) = self.blocking(move || store.forget(server)).await {
                    log::warn!(server:% = server, host = self.host(); "the host cannot remove what it remembers of a server that is gone: {error}");
                }
            }
        }
    }

    async fn resume_guest(&self, fence: Fence) {
        // Differs from a command's digest, so that neither the reply to a command nor this start stands in for the other.
        let admission = match self.lanes.admit(fence, "resume".to_owned()) {
            Entry::Run(admission) => admission,
            Entry::Join(mut other) => {
                // Another request starts the guest. No reply comes; the channel closes at the end.
                let _ = other.wait_for(Option::is_some).await;
                return;
            }
            Entry::Answer(_) => return,
        };
        let _turn = admission.turn.lock().await;
        if admission.stale().is_some() {
            return;
        }
        let started = async {
            self.raise(fence.server).await?;
            let guest = self.guest(fence.server).await?;
            match guest.filter(|guest| guest.defined && was_interrupted(guest)) {
                None => Ok(()),
                Some(guest) => self.power_on(&admission, guest).await,
            }
        };
        match started.await {
            Ok(()) => log::info!(server:% = fence.server, host = self.host(); "the guest runs again after its host came back"),
            Err(CommandError::Refused(reason) | CommandError::Failed(reason)) => {
                log::warn!(server:% = fence.server, host = self.host(); "the guest cannot be started again: {reason}");
            }
            Err(CommandError::Overtaken) => {}
        }
    }
}

/// Removes what imports of an earlier incarnation left. No request continues them: a repeated one begins anew.
fn discard_broken_imports(hypervisor: &dyn Hypervisor) {
    let left = hypervisor.leftovers();
    let removed = left.and_then(|left| left.into_iter().try_for_each(|(server, _)| hypervisor.discard_incoming(server)));
    if let Err(error) = removed {
        log::warn!("a broken-off import stays on its host: {error}");
    }
}

/// True if the guest ran when its host went away, and nobody has stopped it since.
fn was_interrupted(guest: &GuestRecord) -> bool {
    let was_stopped = stands(Guard::InterruptedGuest) && guest.stopped_by != Some(StopCause::HostDown);
    !was_stopped
}

/// Runs `work` to its end. If a higher fence overtakes the request, drops the work.
pub(super) async fn unless_overtaken<T>(admission: &Admission, work: impl Future<Output = T>) -> Result<T, CommandError> {
    tokio::select! {
        biased;
        () = admission.overtaken() => Err(CommandError::Overtaken),
        value = work => Ok(value),
    }
}

/// Returns a command's name for logs.
fn name_of(command: &HostCommand) -> String {
    let text = format!("{command:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}
