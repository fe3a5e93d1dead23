//! Takes a host's request through its lane to a reply.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_network::VirtualFunction;
use cellshift_domain::host_protocol::{Asker, HostCommand, HostReply, HostRequest, NeighbourError};
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_env::Env;
use cellshift_env::guard::{Guard, stands};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use super::asks::Asks;
use super::key::HostKey;
use super::lanes::{Admission, Lanes};
use super::link::Delivered;
use super::live::Leaving;
use super::memory::MemoryStore;
use super::options::HostOptions;
use super::site::HostSite;
use super::upward::Upward;
use crate::virt::files::Durability;
use crate::virt::{Hypervisor, Operation, VirtError};

/// The parts of a host.
#[derive(Clone)]
pub struct HostParts {
    /// Clock, ids and blocking pool.
    pub env: Env,
    /// Place and driver, shared by the host's incarnations.
    pub site: Arc<HostSite>,
    /// The capacity before ratios.
    pub capacity: Resources,
    /// The virtual functions of its physical functions.
    pub functions: Vec<VirtualFunction>,
    /// The options.
    pub options: HostOptions,
    /// The way to images, ports and owners.
    pub upward: Arc<dyn Upward>,
}

/// The reason why a command ends without a reply of its own.
pub(crate) enum CommandError {
    /// A higher fence cancelled it.
    Overtaken,
    /// The command is surely not done, and left nothing.
    Refused(Reason),
    /// The command began and failed.
    Failed(Reason),
}

impl CommandError {
    /// The host's own disk failed.
    pub fn io(what: &str, error: &io::Error) -> CommandError {
        CommandError::Failed(reason!("{what}: {}", Reason::of_system(error)))
    }

    /// Returns the reason, as a sentence.
    pub fn reason(self) -> Reason {
        match self {
            CommandError::Refused(reason) | CommandError::Failed(reason) => reason,
            CommandError::Overtaken => "overtaken".into(),
        }
    }
}

impl From<VirtError> for CommandError {
    fn from(error: VirtError) -> CommandError {
        match error {
            VirtError::NoGuest(_) | VirtError::Refused(_) => CommandError::Refused(reason!("{error}")),
            VirtError::Io { .. } => CommandError::Failed(reason!("{error}")),
        }
    }
}

impl From<NeighbourError> for CommandError {
    fn from(error: NeighbourError) -> CommandError {
        CommandError::Failed(reason!("{error}"))
    }
}

/// An incarnation of a host: a restart makes the next.
pub struct Host {
    pub(crate) parts: HostParts,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) leaving: Leaving,
    /// Changes when a command has been carried out: a host without guests rests until then.
    pub(crate) carried_out: watch::Sender<()>,
    pub(crate) store: Arc<MemoryStore>,
    /// Opens the secrets of guests.
    pub(crate) key: Arc<HostKey>,
    /// The queries that acted, by their ids.
    pub(crate) asks: Asks,
    /// A place for each request at work.
    places: Arc<Semaphore>,
    generation: u64,
}

impl Host {
    /// Takes the site over from the earlier incarnation, reads its memory and its key, and notes that no guest runs. Fails with the reason if
    /// the memory, the key or the driver's files cannot be read.
    pub async fn start(parts: HostParts) -> Result<Host, Reason> {
        let generation = parts.site.take_over().await;
        parts.site.has_power(parts.env.now());
        let (site, durability) = (parts.site.clone(), Durability::of(&parts.env));
        let opened = parts.env.run_blocking(move || {
            let opened =
                MemoryStore::open(&site.place.memory_dir(), durability).map_err(|e| reason!("its memory cannot be read: {}", Inside(e)))?;
            site.hypervisor.interrupted(true).map_err(|e| reason!("{e}"))?;
            discard_broken_imports(&*site.hypervisor);
            let key = HostKey::open(&site.place, durability).map_err(|e| reason!("its key cannot be read: {}", Inside(e)))?;
            Ok::<_, Reason>((opened, key))
        });
        let ((store, memories), key) = opened.await?;
        let remembered = memories.into_iter().filter(|_| stands(Guard::HostMemory)).collect();
        let lanes = Lanes::new(parts.options.claimable(&parts.capacity), parts.functions.clone(), remembered);
        let leaving = Leaving::new(&parts.options.live);
        let carried_out = watch::Sender::new(());
        let places = Arc::new(Semaphore::new(parts.options.max_requests));
        let (store, key) = (Arc::new(store), Arc::new(key));
        Ok(Host { parts, lanes, leaving, carried_out, store, key, asks: Asks::default(), places, generation })
    }

    /// Returns the host's name.
    pub fn host(&self) -> &str {
        &self.parts.site.place.host
    }

    /// Returns the host's name and its cell's, for questions upwards.
    pub(crate) fn asker(&self) -> Asker {
        self.parts.site.place.asker()
    }

    /// Obeys a request, or answers why it does not. Requests may come at once: those for one server wait for each other. If the future is
    /// dropped, the request breaks off, and a repeated one takes it up.
    pub(crate) async fn obey(&self, request: HostRequest) -> Delivered<HostReply> {
        let delivered = match self.lanes.enter(request.fence, &request.command, &self.places).await {
            Err(delivered) => delivered,
            Ok(admission) => {
                let reply = self.run(&admission, &request).await;
                self.carried_out.send_replace(());
                admission.publish(reply.clone());
                Delivered::Answered(reply)
            }
        };
        if matches!(delivered, Delivered::Answered(HostReply::Stale { .. })) {
            self.parts.env.metrics().host_refused_fence();
        }
        delivered
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
        let mut grant = BTreeMap::new();
        match command {
            HostCommand::Claim { holder, resources, functions } => match self.lanes.claim(server, *holder, *resources, functions) {
                Ok(functions) => grant = functions,
                Err(reason) => {
                    self.record(server, true).await?;
                    return Err(CommandError::Refused(Reason::public(reason)));
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
            _ if !grant.is_empty() => HostReply::Claimed { functions: grant },
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
    pub(crate) async fn free_function(&self, server: Uuid, port: Uuid) -> Result<(), CommandError> {
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
    pub(crate) async fn raise(&self, server: Uuid) -> Result<(), CommandError> {
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
    pub(crate) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, CommandError> {
        let restarted = || CommandError::Failed("the host was restarted meanwhile".into());
        let permit = self.parts.site.enter(self.generation).await.ok_or_else(restarted)?;
        let work = move || {
            let _permit = permit;
            work()
        };
        Ok(self.parts.env.run_blocking(work).await)
    }

    /// Calls the driver.
    pub(crate) async fn virt<T, F>(&self, call: F) -> Result<T, CommandError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Hypervisor) -> Result<T, VirtError> + Send + 'static,
    {
        let hypervisor = self.parts.site.hypervisor.clone();
        Ok(self.blocking(move || call(&*hypervisor)).await??)
    }

    /// Waits for the operation's configured time. A higher fence ends the wait.
    pub(crate) async fn latency(&self, admission: &Admission, operation: Operation) -> Result<(), CommandError> {
        self.wait(admission, self.parts.options.latency(operation)).await
    }

    /// Waits for this time. A higher fence ends the wait.
    pub(crate) async fn wait(&self, admission: &Admission, time: Duration) -> Result<(), CommandError> {
        if time.is_zero() {
            return Ok(());
        }
        unless_overtaken(admission, tokio::time::sleep(time)).await
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

/// Runs `work` to its end. If a higher fence overtakes the request, drops the work.
pub(crate) async fn unless_overtaken<T>(admission: &Admission, work: impl Future<Output = T>) -> Result<T, CommandError> {
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
