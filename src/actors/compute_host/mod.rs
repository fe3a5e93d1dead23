//! One compute host. It carries requests into lanes, one per server, and replies out; its mailbox never waits for a request.
//!
//! `lanes` orders requests (fences, repeats, room), `memory` keeps fences and claims, `core` takes a request to its reply, `commands` and
//! `transfer` work on the driver, `report` answers queries. A host uses no database and knows only its own cell.

mod adapters;
pub mod belonging;
mod commands;
mod contents;
mod copies;
mod core;
mod first_boot;
mod guest_told;
mod lanes;
mod live;
mod memory;
mod neighbours;
mod report;
mod rescue;
mod stored;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_functions;
mod transfer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use uuid::Uuid;

use super::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::domain::flavor::Resources;
use crate::domain::host_network::VirtualFunction;
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::env::Env;
use crate::virt::Operation;
pub use adapters::{ServiceImages, ServicePorts};
pub use core::HostSite;
use core::{CommandError, Core};
pub use live::LiveOptions;
pub use neighbours::{ImageBytes, Images, NeighbourError, OwnershipOracle, Plugging, Ports};
pub use stored::StoredHosts;

/// A request and the channel for its reply. No reply comes if the host dies first.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The request.
    pub request: HostRequest,
    /// The channel for the reply.
    pub reply: oneshot::Sender<HostReply>,
    /// Held until the reply: it limits the requests at work.
    pub permit: OwnedSemaphorePermit,
}

/// A query and the channel for its answer. No answer comes if the host cannot tell.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ask {
    /// The query.
    pub query: HostQuery,
    /// The channel for the answer.
    pub answer: oneshot::Sender<HostAnswer>,
}

/// Bytes that a running simulated guest writes to its disks and volumes. For tests and the demo.
#[derive(Message)]
#[rtype(result = "()")]
pub struct GuestWrite {
    /// The guest's server.
    pub server: Uuid,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Answered when the bytes are written, or with the reason why they are not.
    pub done: oneshot::Sender<Result<(), String>>,
}

/// Asks at once for the interrupted guests, as the host does every few seconds. For tests.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ResumeGuests {
    /// Answered when each guest has been started or may not run now.
    pub done: oneshot::Sender<()>,
}

/// Makes the host panic in this message's handler. For tests and experiments.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Crash;

/// A host's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPlace {
    /// The cell's name.
    pub cell: String,
    /// The host's name.
    pub host: String,
    /// The cell's directory, which contains the host's.
    pub cell_dir: PathBuf,
}

impl HostPlace {
    /// Returns the host's own directory.
    pub fn dir(&self) -> PathBuf {
        self.cell_dir.join("hosts").join(&self.host)
    }

    /// Returns the directory of its guests.
    pub fn guests_dir(&self) -> PathBuf {
        self.dir().join("guests")
    }

    /// Returns the directory of its memory.
    pub fn memory_dir(&self) -> PathBuf {
        self.dir().join("obeyed")
    }

    /// Returns the storage that all hosts of the cell reach, for disks that move within the cell.
    pub fn transfer_area(&self) -> PathBuf {
        self.cell_dir.join("transfer")
    }

    /// Returns a server's directory in the transfer area.
    pub fn transfer_dir(&self, server: Uuid) -> PathBuf {
        self.transfer_area().join(server.to_string())
    }
}

/// The options of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct HostOptions {
    /// The number of virtual CPUs that may be claimed per CPU.
    pub cpu_allocation_ratio: f64,
    /// The amount of memory that may be claimed per amount present.
    pub ram_allocation_ratio: f64,
    /// The amount of disk that may be claimed per amount present.
    pub disk_allocation_ratio: f64,
    /// The duration of each operation of the simulated hypervisor; zero if it has no entry.
    pub latencies: BTreeMap<Operation, Duration>,
    /// The pause between two writes of running guests; zero for never.
    pub tick: Duration,
    /// The time within which the network must plug a starting guest's ports.
    pub vif_plug_timeout: Duration,
    /// The pause between two questions for interrupted guests that the host was not allowed to run.
    pub resume_interval: Duration,
    /// The time limit of an answer.
    pub oracle_patience: Duration,
    /// The pause between two looks for forgotten servers; zero for never.
    pub forget_interval: Duration,
    /// The maximum number of requests at work and waiting. Beyond it the host is busy.
    pub max_requests: usize,
    /// The options of live migrations.
    pub live: LiveOptions,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            latencies: BTreeMap::new(),
            tick: Duration::from_secs(1),
            vif_plug_timeout: Duration::from_secs(300),
            resume_interval: Duration::from_secs(2),
            oracle_patience: Duration::from_secs(10),
            forget_interval: Duration::from_secs(3600),
            max_requests: 256,
            live: LiveOptions::default(),
        }
    }
}

impl HostOptions {
    fn latency(&self, operation: Operation) -> Duration {
        self.latencies.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the amounts that may be claimed of this capacity: each class times its ratio, rounded down.
    pub fn claimable(&self, capacity: &Resources) -> Resources {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "capacities are far below 2^52")]
        let times = |amount: i64, ratio: f64| (amount as f64 * ratio).floor() as i64;
        Resources {
            vcpu: times(capacity.vcpu, self.cpu_allocation_ratio),
            memory_mb: times(capacity.memory_mb, self.ram_allocation_ratio),
            disk_gb: times(capacity.disk_gb, self.disk_allocation_ratio),
        }
    }
}

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
    /// The images.
    pub images: Arc<dyn Images>,
    /// The ports.
    pub ports: Arc<dyn Ports>,
    /// Answers for interrupted and for forgotten guests.
    pub oracle: Arc<dyn OwnershipOracle>,
}

/// The actor: one incarnation of a host.
pub struct ComputeHost {
    parts: HostParts,
    core: Option<Arc<Core>>,
    _guard: Option<DeathGuard>,
}

impl ComputeHost {
    /// Makes a host that has not started; `guard` reports its death.
    pub fn new(parts: HostParts, guard: Option<DeathGuard>) -> ComputeHost {
        ComputeHost { parts, core: None, _guard: guard }
    }

    /// Runs `work` on the core beside the mailbox, as long as the actor lives.
    fn aside<F>(&self, ctx: &mut Context<Self>, work: impl FnOnce(Arc<Core>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        // Messages wait until the start has ended. So there is a core, unless the start failed and the actor stops.
        if let Some(core) = &self.core {
            ctx.spawn(work(core.clone()).into_actor(self));
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.aside(ctx, |core| async move { core.resume().await });
        let options = &self.parts.options;
        let (tick, resume, forget) = (options.tick, options.resume_interval, options.forget_interval);
        self.aside(ctx, |core| while_guests(resume, core, |core| Box::pin(async move { core.resume().await })));
        self.aside(ctx, |core| every(forget, core, |core| Box::pin(async move { core.forget_servers().await })));
        self.aside(ctx, |core| {
            while_guests(tick, core, |core| {
                Box::pin(async move {
                    let hypervisor = core.parts.site.hypervisor.clone();
                    // Fails only if a successor has taken over; the successor ticks then.
                    let _ = core.blocking(move || hypervisor.tick()).await;
                })
            })
        });
    }
}

/// Repeats work at intervals, one run at a time; zero for never.
async fn every(pace: Duration, core: Arc<Core>, work: impl Fn(Arc<Core>) -> futures::future::LocalBoxFuture<'static, ()>) {
    while !pace.is_zero() {
        tokio::time::sleep(pace).await;
        work(core.clone()).await;
    }
}

/// Repeats work on guests, as [`every`] does. While the host has no guest, it waits for a command, which alone can bring a guest.
async fn while_guests(pace: Duration, core: Arc<Core>, work: impl Fn(Arc<Core>) -> futures::future::LocalBoxFuture<'static, ()>) {
    let mut carried_out = core.carried_out.subscribe();
    while !pace.is_zero() {
        carried_out.mark_unchanged();
        if core.parts.site.hypervisor.has_guests() {
            tokio::time::sleep(pace).await;
            work(core.clone()).await;
        } else if carried_out.changed().await.is_err() {
            return;
        }
    }
}

impl Actor for ComputeHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.parts.options.max_requests);
        let starting = Core::start(self.parts.clone()).into_actor(self).map(|started, host, ctx| match started {
            Ok(core) => {
                host.core = Some(Arc::new(core));
                host.begin(ctx);
            }
            Err(reason) => {
                log::error!(host = host.parts.site.place.host.as_str(); "the host cannot start: {reason}");
                ctx.stop();
            }
        });
        ctx.wait(starting);
    }
}

impl Handler<Deliver> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Deliver { request, reply, permit }: Deliver, ctx: &mut Self::Context) {
        self.aside(ctx, |core| async move {
            let _permit = permit;
            let told = core.obey(request).await;
            if matches!(told, HostReply::Stale { .. }) {
                core.parts.env.metrics().host_refused_fence();
            }
            // The asker may be gone. The effect stands, and the same request learns of it later.
            let _ = reply.send(told);
        });
    }
}

impl Handler<Ask> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Ask { query, mut answer }: Ask, ctx: &mut Self::Context) {
        self.aside(ctx, |core| async move {
            let told = tokio::select! {
                biased;
                told = core.answer(query) => told,
                // A query changes nothing, so it ends when the asker is gone.
                () = answer.closed() => return,
            };
            match told {
                Ok(told) => {
                    let _ = answer.send(told);
                }
                Err(CommandError::Refused(reason) | CommandError::Failed(reason)) => {
                    log::warn!(host = core.host(); "the host cannot answer a query: {reason}");
                }
                Err(CommandError::Overtaken) => {}
            }
        });
    }
}

impl Handler<GuestWrite> for ComputeHost {
    type Result = ();

    fn handle(&mut self, GuestWrite { server, bytes, done }: GuestWrite, ctx: &mut Self::Context) {
        self.aside(ctx, |core| async move {
            let written = core.virt(move |hypervisor| hypervisor.guest_write(server, &bytes)).await;
            let _ = done.send(written.map_err(|error| match error {
                CommandError::Refused(reason) | CommandError::Failed(reason) => reason,
                CommandError::Overtaken => "overtaken".to_owned(),
            }));
        });
    }
}

impl Handler<ResumeGuests> for ComputeHost {
    type Result = ();

    fn handle(&mut self, ResumeGuests { done }: ResumeGuests, ctx: &mut Self::Context) {
        self.aside(ctx, |core| async move {
            core.resume().await;
            let _ = done.send(());
        });
    }
}

impl Handler<Crash> for ComputeHost {
    type Result = ();

    fn handle(&mut self, _: Crash, _: &mut Self::Context) {
        panic!("an experiment crashes host {}", self.parts.site.place.host);
    }
}

impl Handler<Shutdown> for ComputeHost {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Pause> for ComputeHost {
    type Result = ();

    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        stand_still(self, pause, ctx);
    }
}
