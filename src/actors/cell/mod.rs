//! One cell. It supervises its compute hosts, keeps the directory of their addresses, watches its database's health, and records when each
//! host was seen.
//!
//! What must outlive the actor (directory, health, the hosts' sites) is in its [`CellHandle`], which the other actors hold.

mod announce;
mod directory;
mod health;
pub mod request_clock;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::WeakAddr;
use actix::prelude::*;
use parking_lot::Mutex;
use uuid::Uuid;

use super::compute_host::{ComputeHost, HostOptions, HostParts, HostPlace, HostSite, OwnershipOracle, ServiceImages, ServicePorts};
use super::supervision::{ChildDied, ChildSpec, Children, DeathGuard, Escalated, Intensity, Roster, Verdict, supervised};
use crate::db::cell::{CellDb, CellTxn};
use crate::domain::flavor::Resources;
use crate::domain::host_network::VirtualFunction;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::Env;
use crate::metrics::{Level, Mailbox};
use crate::saga::notifications::Notifications;
use crate::saga::world::CellAccess;
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::virt::{HostUnreachable, Hypervisor};
use announce::announce;
pub use cellshift_host::{HypervisorFactory, of_deployment, simulated_hypervisors};
pub use directory::{CellHosts, HostDirectory};
pub use health::{CellHealth, HealthReport, Standing};
pub use setup::{CellSetup, Silent};

/// Cuts the power of a host: its actor ends, and no guest runs when this is answered. For tests, the demo and experiments.
#[derive(Message, Clone, Debug)]
#[rtype(result = "Result<(), Reason>")]
pub struct PowerOffHost {
    /// The host's name.
    pub host: String,
    /// If true, the guests that ran may return with the host; else they stay off until they are started.
    pub resume_guests: bool,
}

/// Switches the power of a host on; the host asks for its guests. Does nothing if the host is on.
#[derive(Message, Clone, Debug)]
#[rtype(result = "Result<(), Reason>")]
pub struct PowerOnHost {
    /// The host's name.
    pub host: String,
}

/// A host of a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// The name, unique over all cells.
    pub name: String,
    /// The capacity before ratios.
    pub capacity: Resources,
    /// The virtual functions of its physical functions.
    pub functions: Vec<VirtualFunction>,
}

/// The options of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellOptions {
    /// The options of its hosts.
    pub hosts: HostOptions,
    /// The limit of a host's restarts.
    pub intensity: Intensity,
    /// The pause before a host that died too often is started again.
    pub revive_after: Duration,
    /// The pause between two records that hosts were seen.
    pub heartbeat: Duration,
    /// The pause between two probes of a database that is down.
    pub probe_interval: Duration,
    /// The time limit of a call on the database; beyond it the call counts as a failure.
    pub database_deadline: Duration,
}

impl Default for CellOptions {
    fn default() -> CellOptions {
        CellOptions {
            hosts: HostOptions::default(),
            intensity: Intensity::default(),
            revive_after: Duration::from_secs(60),
            heartbeat: Duration::from_secs(10),
            probe_interval: Duration::from_secs(2),
            database_deadline: Duration::from_secs(5),
        }
    }
}

/// The handle by which the rest of the controller reaches a cell. Cheap to clone, and valid for each incarnation of the cell's actor.
#[derive(Clone)]
pub struct CellHandle {
    /// The cell mapping's id.
    pub uuid: Uuid,
    /// The name.
    pub name: String,
    /// The database.
    pub db: CellDb,
    /// The database's health.
    pub health: CellHealth,
    /// The hosts.
    pub hosts: HostDirectory,
    kept: Arc<Mutex<Kept>>,
    /// The messages to all cells' actors without an answer.
    messages: Level,
}

/// The state that one incarnation of the actor leaves to the next.
#[derive(Default)]
struct Kept {
    sites: BTreeMap<String, Arc<HostSite>>,
    powered_off: BTreeSet<String>,
    actor: Option<WeakAddr<Cell>>,
    /// The work of a start that the cell's database still lacks.
    setup: Option<Arc<dyn CellSetup>>,
}

impl CellHandle {
    /// Returns the cell as steps reach it.
    pub fn for_steps(&self) -> CellAccess {
        CellAccess { uuid: self.uuid, db: self.db.clone(), health: Arc::new(self.health.clone()) }
    }

    /// Makes the handle of a cell whose actor has not started.
    pub fn new(uuid: Uuid, name: &str, db: CellDb, env: &Env) -> CellHandle {
        let (health, hosts) = (CellHealth::new(name, env), HostDirectory::counting(env.metrics().messages(Mailbox::Host), env));
        let messages = env.metrics().messages(Mailbox::Cell);
        CellHandle { uuid, name: name.to_owned(), db, health, hosts, kept: Arc::default(), messages }
    }

    /// Cuts the power of a host: no request reaches the host once this has returned. The future ends when no guest runs any more.
    pub fn power_off_host(&self, host: &str, resume_guests: bool) -> impl Future<Output = Result<(), HostUnreachable>> + use<> {
        if self.cut(host) {
            self.hosts.closed(host, "it is powered off".into());
        }
        let (cell, message) = (self.clone(), PowerOffHost { host: host.to_owned(), resume_guests });
        async move { cell.tell(message).await }
    }

    /// Notes that a host has no power. False if the cell has no such host.
    fn cut(&self, host: &str) -> bool {
        let mut kept = self.kept.lock();
        kept.sites.contains_key(host) && {
            kept.powered_off.insert(host.to_owned());
            true
        }
    }

    /// See [`PowerOnHost`].
    pub async fn power_on_host(&self, host: &str) -> Result<(), HostUnreachable> {
        self.tell(PowerOnHost { host: host.to_owned() }).await
    }

    /// Returns the driver of a host once the cell has started. For tests and experiments.
    pub fn hypervisor(&self, host: &str) -> Option<Arc<dyn Hypervisor>> {
        self.kept.lock().sites.get(host).map(|site| site.hypervisor.clone())
    }

    async fn tell<M>(&self, message: M) -> Result<(), HostUnreachable>
    where
        M: Message<Result = Result<(), Reason>> + Send + 'static,
        Cell: Handler<M>,
    {
        let actor = self.kept.lock().actor.as_ref().and_then(WeakAddr::upgrade);
        let actor = actor.ok_or_else(|| HostUnreachable::NotDelivered(reason!("cell {} has not started", self.name)))?;
        let _within = self.messages.enter();
        match actor.send(message).await {
            Ok(outcome) => outcome.map_err(HostUnreachable::NotDelivered),
            Err(error) => Err(HostUnreachable::Unknown(reason!("cell {}: {error}", self.name))),
        }
    }
}

/// The parts of a cell's actor.
#[derive(Clone)]
pub struct CellParts {
    /// Clock, ids and blocking pool.
    pub env: Env,
    /// The handle that the other actors hold.
    pub handle: CellHandle,
    /// The cell's directory.
    pub dir: PathBuf,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// The options.
    pub options: CellOptions,
    /// The image service.
    pub images: Arc<dyn ImageService>,
    /// The network service.
    pub network: Arc<dyn NetworkService>,
    /// Answers for interrupted and for forgotten guests.
    pub oracle: Arc<dyn OwnershipOracle>,
    /// Opens drivers.
    pub hypervisors: HypervisorFactory,
    /// Receives notifications of the cell's going down and coming back.
    pub notifications: Arc<dyn Notifications>,
    /// Receives reports of hosts that die too often.
    pub escalations: Option<Recipient<Escalated>>,
    /// The roster that lists its hosts.
    pub roster: Roster,
}

/// The actor: one incarnation of a cell.
pub struct Cell {
    parts: CellParts,
    hosts: Option<Children<ComputeHost>>,
    _guard: Option<DeathGuard>,
}

impl Cell {
    /// Makes a cell that has not started; `guard` reports its death.
    pub fn new(parts: CellParts, guard: Option<DeathGuard>) -> Cell {
        Cell { parts, hosts: None, _guard: guard }
    }

    fn spec_of(&self, host: &str) -> Option<&HostSpec> {
        self.parts.hosts.iter().find(|spec| spec.name == host)
    }

    /// Starts a host's actor. Opens its driver first if no incarnation of this cell has done so.
    fn start_host(&mut self, host: String, ctx: &mut Context<Self>) {
        if self.parts.handle.kept.lock().powered_off.contains(&host) {
            self.parts.handle.hosts.closed(&host, "it is powered off".into());
            return;
        }
        let site = self.parts.handle.kept.lock().sites.get(&host).cloned();
        let place = HostPlace { cell: self.parts.handle.name.clone(), host: host.clone(), cell_dir: self.parts.dir.clone() };
        let (factory, env) = (self.parts.hypervisors.clone(), self.parts.env.clone());
        let opening = async move {
            match site {
                Some(site) => Ok(site),
                None => {
                    let on_pool = env.clone();
                    env.run_blocking(move || factory(&place, &on_pool).map(|driver| HostSite::new(place, driver))).await
                }
            }
        };
        // The mailbox waits, so that no other message starts the same host meanwhile.
        ctx.wait(opening.into_actor(self).map(move |opened, cell, ctx| match opened {
            Ok(site) => cell.begin_host(site),
            Err(error) => {
                log::error!(host = host.as_str(); "host {host} cannot start: {error}");
                cell.parts.handle.hosts.closed(&host, reason!("{error}"));
                cell.revive_later(host, ctx);
            }
        }));
    }

    fn begin_host(&mut self, site: Arc<HostSite>) {
        let host = site.place.host.clone();
        let (Some(spec), Some(children)) = (self.spec_of(&host).cloned(), self.hosts.as_mut()) else { return };
        self.parts.handle.kept.lock().sites.insert(host.clone(), site.clone());
        let host_parts = HostParts {
            env: self.parts.env.clone(),
            site,
            capacity: spec.capacity,
            functions: spec.functions,
            options: self.parts.options.hosts.clone(),
            images: Arc::new(ServiceImages(self.parts.images.clone())),
            ports: Arc::new(ServicePorts(self.parts.network.clone())),
            oracle: self.parts.oracle.clone(),
        };
        let factory = Box::new(move |guard| ComputeHost::new(host_parts.clone(), Some(guard)).start());
        let address = children.start(ChildSpec { name: host.clone(), intensity: self.parts.options.intensity, factory });
        self.host_returned(&host, address);
    }

    fn host_returned(&self, host: &str, address: Addr<ComputeHost>) {
        self.parts.handle.hosts.opened(host, address, self.parts.options.hosts.max_requests);
    }

    fn revive_later(&self, host: String, ctx: &mut Context<Self>) {
        ctx.run_later(self.parts.options.revive_after, move |cell, ctx| {
            let runs = cell.hosts.as_ref().is_some_and(|children| children.get(&host).is_some());
            if !runs {
                cell.start_host(host, ctx);
            }
        });
    }

    /// Records the hosts that take requests as seen now, with the use of their servers.
    fn beat(&self, ctx: &mut Context<Self>) {
        let (handle, deadline) = (self.parts.handle.clone(), self.parts.options.database_deadline);
        let (notifications, env) = (self.parts.notifications.clone(), self.parts.env.clone());
        let beating = async move {
            let recorded = handle.health.call(deadline, record_seen(&handle)).await;
            let hosts = handle.hosts.hosts();
            let alive = hosts.iter().filter(|(_, alive)| *alive).count();
            env.metrics().heartbeat(&handle.name, (alive, hosts.len()), recorded.is_ok().then(|| env.now()));
            if let Err(error) = recorded {
                log::debug!(cell = handle.name.as_str(); "hosts are not recorded as seen: {error}");
            }
            // Again, because the first try may have failed.
            announce(&handle, &*notifications).await;
        };
        ctx.spawn(beating.into_actor(self));
    }

    /// Announces each change of the cell's health during this incarnation.
    fn tell_of_health(&self, ctx: &mut Context<Self>) {
        let (handle, notifications) = (self.parts.handle.clone(), self.parts.notifications.clone());
        let telling = async move {
            loop {
                announce(&handle, &*notifications).await;
                handle.health.changed().await;
            }
        };
        ctx.spawn(telling.into_actor(self));
    }

    fn probe(&self, ctx: &mut Context<Self>) {
        // Not longer than a request's first call has.
        let (handle, deadline) = (self.parts.handle.clone(), self.parts.options.database_deadline / 2);
        let probing = async move { handle.probe(deadline).await };
        ctx.spawn(probing.into_actor(self));
    }
}

async fn record_seen(handle: &CellHandle) -> Result<(), crate::db::DbError> {
    let alive: BTreeSet<String> = handle.hosts.hosts().into_iter().filter(|(_, alive)| *alive).map(|(host, _)| host).collect();
    let services = handle.db.services().await?;
    let seen = services.into_iter().filter(|service| alive.contains(&service.host)).map(|service| service.uuid).collect();
    handle.db.apply_unfenced(CellTxn::new().services_seen(seen).recount_usage(alive)).await
}

impl Actor for Cell {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let hosts = Children::new(ctx.address().downgrade().recipient());
        self.hosts = Some(hosts.listed(&self.parts.roster, &format!("{}/", self.parts.handle.name)));
        self.parts.handle.kept.lock().actor = Some(ctx.address().downgrade());
        self.parts.handle.health.forget_probe();
        let powered_off = self.parts.handle.kept.lock().powered_off.clone();
        for spec in self.parts.hosts.clone() {
            // A host without power stays off.
            if !powered_off.contains(&spec.name) {
                self.parts.handle.hosts.starting(&spec.name);
            }
            self.start_host(spec.name, ctx);
        }
        self.tell_of_health(ctx);
        ctx.run_later(Duration::ZERO, |cell, ctx| cell.beat(ctx));
        ctx.run_interval(self.parts.options.heartbeat, |cell, ctx| cell.beat(ctx));
        ctx.run_interval(self.parts.options.probe_interval, |cell, ctx| cell.probe(ctx));
    }
}

impl Handler<ChildDied> for Cell {
    type Result = ();

    fn handle(&mut self, died: ChildDied, ctx: &mut Self::Context) {
        let Some(children) = &mut self.hosts else { return };
        match children.on_death(&died) {
            Verdict::Nothing | Verdict::Died => {}
            Verdict::Restarted(address) => {
                self.host_returned(&died.name, address);
                self.beat(ctx);
            }
            Verdict::TooOften(escalated) => {
                log::error!(host = died.name.as_str(); "{}; it is left down", escalated.reason);
                self.parts.handle.hosts.closed(&died.name, Reason::public(&escalated.reason));
                if let Some(parent) = &self.parts.escalations {
                    let name = format!("{}/{}", self.parts.handle.name, escalated.name);
                    parent.do_send(Escalated { name, reason: escalated.reason });
                }
                self.revive_later(died.name, ctx);
            }
        }
    }
}

impl Handler<PowerOffHost> for Cell {
    type Result = ResponseActFuture<Self, Result<(), Reason>>;

    fn handle(&mut self, PowerOffHost { host, resume_guests }: PowerOffHost, _: &mut Self::Context) -> Self::Result {
        let site = self.parts.handle.kept.lock().sites.get(&host).cloned();
        let Some(site) = site else {
            return Box::pin(actix::fut::ready(Err(reason!("there is no host {host} in cell {}", self.parts.handle.name))));
        };
        self.parts.handle.kept.lock().powered_off.insert(host.clone());
        let closed_at = self.parts.handle.hosts.closed(&host, "it is powered off".into());
        if let Some(children) = &mut self.hosts {
            children.stop(&host);
        }
        let (env, hosts) = (self.parts.env.clone(), self.parts.handle.hosts.clone());
        let off = async move {
            site.take_over().await;
            site.lost_power();
            let hypervisor = site.hypervisor.clone();
            env.run_blocking(move || hypervisor.interrupted(resume_guests)).await.map_err(|error| reason!("{error}"))?;
            hosts.guests_ended(&host, closed_at);
            Ok::<(), Reason>(())
        };
        Box::pin(off.into_actor(self))
    }
}

impl Handler<PowerOnHost> for Cell {
    type Result = Result<(), Reason>;

    fn handle(&mut self, PowerOnHost { host }: PowerOnHost, ctx: &mut Self::Context) -> Self::Result {
        if self.spec_of(&host).is_none() {
            return Err(reason!("there is no host {host} in cell {}", self.parts.handle.name));
        }
        self.parts.handle.kept.lock().powered_off.remove(&host);
        let runs = self.hosts.as_ref().is_some_and(|children| children.get(&host).is_some());
        if !runs {
            self.start_host(host, ctx);
            ctx.run_later(Duration::ZERO, |cell, ctx| cell.beat(ctx));
        }
        Ok(())
    }
}

supervised!(Cell);
