//! One compute host: it carries requests into lanes, one per server, and replies out; its mailbox never waits for one.
//!
//! `lanes` orders requests (fences, repeats, room), `memory` keeps what must not be forgotten, `core` takes a request to its
//! reply, `commands` and `transfer` do the work on the driver, `report` answers queries. A host touches no database and
//! knows only its own cell.

pub mod belonging;
mod commands;
mod contents;
mod copies;
mod core;
mod first_boot;
mod lanes;
mod memory;
mod report;
mod stored;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use uuid::Uuid;

use super::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::domain::flavor::Resources;
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::env::Env;
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::virt::Operation;
pub use core::HostSite;
use core::{CommandError, Core};
pub use stored::StoredHosts;

/// A request with the place for its reply. No reply comes when the host dies first.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// What to do.
    pub request: HostRequest,
    /// Where the reply goes.
    pub reply: oneshot::Sender<HostReply>,
    /// Held until the reply: the bound on requests at work.
    pub permit: OwnedSemaphorePermit,
}

/// A query with the place for its answer. No answer comes when the host cannot tell.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ask {
    /// What to tell.
    pub query: HostQuery,
    /// Where the answer goes.
    pub answer: oneshot::Sender<HostAnswer>,
}

/// Bytes that a running simulated guest writes to its disks and volumes: for tests and the demo.
#[derive(Message)]
#[rtype(result = "()")]
pub struct GuestWrite {
    /// Whose guest.
    pub server: Uuid,
    /// What it writes.
    pub bytes: Vec<u8>,
    /// Done, or why not.
    pub done: oneshot::Sender<Result<(), String>>,
}

/// Ask at once for the guests that were interrupted, as the host does every few seconds: for tests.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ResumeGuests {
    /// Each has been started, or may not run now.
    pub done: oneshot::Sender<()>,
}

/// For tests and experiments: the host panics in this message's handler.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Crash;

/// Says whether a host may run a guest that it ran before it went away.
#[async_trait]
pub trait OwnershipOracle: Send + Sync {
    /// The owner's epoch and the server's attempt counter when the host owns the server and its guest should run; none when
    /// another host owns it, it should be off, an operation on it is in flight, or nobody can tell now (the host asks
    /// again).
    async fn may_run(&self, cell: &str, host: &str, server: Uuid) -> Option<(i64, i64)>;

    /// Returns those of the servers whose fences the deployment has forgotten; none if nobody can tell now.
    async fn forgotten(&self, servers: Vec<Uuid>) -> Vec<Uuid>;
}

/// Where a host lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPlace {
    /// Its cell's name.
    pub cell: String,
    /// Its name.
    pub host: String,
    /// The cell's directory; the host's own is below.
    pub cell_dir: PathBuf,
}

impl HostPlace {
    /// The host's own directory.
    pub fn dir(&self) -> PathBuf {
        self.cell_dir.join("hosts").join(&self.host)
    }

    /// Where its guests are.
    pub fn guests_dir(&self) -> PathBuf {
        self.dir().join("guests")
    }

    /// Where it remembers what it has obeyed.
    pub fn memory_dir(&self) -> PathBuf {
        self.dir().join("obeyed")
    }

    /// Storage that all hosts of the cell reach, for disks that move inside it.
    pub fn transfer_area(&self) -> PathBuf {
        self.cell_dir.join("transfer")
    }

    /// A server's place in it.
    pub fn transfer_dir(&self, server: Uuid) -> PathBuf {
        self.transfer_area().join(server.to_string())
    }
}

/// How hosts behave.
#[derive(Clone, PartialEq, Debug)]
pub struct HostOptions {
    /// Virtual CPUs claimed per CPU there is.
    pub cpu_allocation_ratio: f64,
    /// Memory claimed per memory there is.
    pub ram_allocation_ratio: f64,
    /// Disk claimed per disk there is.
    pub disk_allocation_ratio: f64,
    /// Time that each operation of the simulated hypervisor takes; none is no time.
    pub latencies: BTreeMap<Operation, Duration>,
    /// How often running guests write; zero is never.
    pub tick: Duration,
    /// How long a guest's start waits for the network to plug its ports.
    pub vif_plug_timeout: Duration,
    /// How often the host asks for interrupted guests that it was not allowed to run.
    pub resume_interval: Duration,
    /// How long it waits for the answer.
    pub oracle_patience: Duration,
    /// The pause between two looks for servers whose fences it need not remember; zero never looks.
    pub forget_interval: Duration,
    /// Requests at work and waiting at most; past it the host is busy.
    pub max_requests: usize,
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
        }
    }
}

impl HostOptions {
    fn latency(&self, operation: Operation) -> Duration {
        self.latencies.get(&operation).copied().unwrap_or_default()
    }

    /// What may be claimed of a host of this capacity: each class times its ratio, rounded down.
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

/// What a host is made of.
#[derive(Clone)]
pub struct HostParts {
    /// Clock, ids, blocking pool.
    pub env: Env,
    /// Place and driver, shared by its incarnations.
    pub site: Arc<HostSite>,
    /// How much there is, before ratios.
    pub capacity: Resources,
    /// How it behaves.
    pub options: HostOptions,
    /// Where images are.
    pub images: Arc<dyn ImageService>,
    /// Where ports are.
    pub network: Arc<dyn NetworkService>,
    /// Whom it asks after an interruption.
    pub oracle: Arc<dyn OwnershipOracle>,
}

/// The actor: one life of a host.
pub struct ComputeHost {
    parts: HostParts,
    core: Option<Arc<Core>>,
    _guard: Option<DeathGuard>,
}

impl ComputeHost {
    /// A host that has not started; `guard` reports its death.
    pub fn new(parts: HostParts, guard: Option<DeathGuard>) -> ComputeHost {
        ComputeHost { parts, core: None, _guard: guard }
    }

    /// Runs `work` on the core, aside from the mailbox, for as long as the actor lives.
    fn aside<F>(&self, ctx: &mut Context<Self>, work: impl FnOnce(Arc<Core>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        // Messages wait until the start is over, so there is a core unless the start failed and the actor is stopping.
        if let Some(core) = &self.core {
            ctx.spawn(work(core.clone()).into_actor(self));
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.aside(ctx, |core| async move { core.resume().await });
        let options = &self.parts.options;
        let (tick, resume, forget) = (options.tick, options.resume_interval, options.forget_interval);
        self.aside(ctx, |core| every(resume, core, |core| Box::pin(async move { core.resume().await })));
        self.aside(ctx, |core| every(forget, core, |core| Box::pin(async move { core.forget_servers().await })));
        self.aside(ctx, |core| {
            every(tick, core, |core| {
                Box::pin(async move {
                    let hypervisor = core.parts.site.hypervisor.clone();
                    // Fails only when a successor has taken over; it ticks then.
                    let _ = core.blocking(move || hypervisor.tick()).await;
                })
            })
        });
    }
}

/// Repeats work at a pace, never two at once; zero is never.
async fn every(pace: Duration, core: Arc<Core>, work: impl Fn(Arc<Core>) -> futures::future::LocalBoxFuture<'static, ()>) {
    while !pace.is_zero() {
        tokio::time::sleep(pace).await;
        work(core.clone()).await;
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
            // Nobody may be waiting any more; the effect stands, and the same request again learns of it.
            let _ = reply.send(core.obey(request).await);
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
                // A query changes nothing: when nobody waits any more it is not worth going on.
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
