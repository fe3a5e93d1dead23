//! The root of the supervision tree. It starts all actors in order and supervises them. If a child dies more often than its intensity
//! allows, the process ends, and its successor goes on from the journal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::WeakRecipient;
use actix::prelude::*;
use tokio::sync::watch;
use uuid::Uuid;

use super::address::Address;
use super::agents::{Agents, AgentsOptions, AgentsParts, HostRecorder};
use super::arbiters::{Arbiters, Home};
use super::cell::{Cell, CellHandle, CellHosts, CellOptions, CellParts, Silent};
use super::compute_host::tickets::{IMAGES, Tickets};
use super::compute_host::{HostServices, Upward};
use super::conductor::{Conductor, ConductorHandle, ConductorParts, Controller, Worker};
use super::death_count::DeathsByKind;
use super::host_facts::HostFacts;
use super::hosts_here::{HostSpec, HostsHere, HostsHereOptions, HostsHereParts, HypervisorFactory};
use super::notifier::{Notifier, NotifierConfig, NotifierHandle, Outbox};
use super::periodic::Periodic;
use super::scheduler::config::{ConfigError, SchedulerConfig};
use super::scheduler::host_state::HostStates;
use super::scheduler::{Scheduler, SchedulerHandle};
use super::service_report::{CONDUCTOR, SCHEDULER, ServiceReport};
use super::supervision::{ChildDied, ChildSpec, Children, Escalated, Listed, Roster, Shutdown, Verdict};
use crate::db::Db;
use crate::db::api::ApiDb;
use crate::db::api::operations::Operations;
use crate::db::cell::CellDb;
use crate::env::Env;
use crate::metrics::Mailbox;
use crate::reconcilers::{PeriodicOptions, PeriodicParts};
use crate::saga::notifications::Notifications;
use crate::saga::performer::Performers;
use crate::saga::tables;
use crate::saga::world::{CELL0, Settings, World};
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::services::placement::PlacementService;
use crate::services::volume::VolumeService;
use crate::virt::Hosts;
use cellshift_nats::{CellAddress, Connection};

/// The first part of the name of an actor that supervises a cell's hosts: `hosts/cell1`.
pub(super) const HOSTS_HERE: &str = "hosts";

/// Returns the name of the actor that supervises the hosts of this cell.
pub fn hosts_here_name(cell: &str) -> String {
    format!("{HOSTS_HERE}/{cell}")
}

/// The first part of the name of an actor that keeps the agents of a cell's hosts: `agents/cell1`.
pub(super) const AGENTS: &str = "agents";

/// Returns the name of the actor that keeps the agents of this cell's hosts.
pub fn agents_name(cell: &str) -> String {
    format!("{AGENTS}/{cell}")
}

/// The agents of a cell whose hosts run elsewhere.
#[derive(Clone)]
pub struct AgentsStart {
    /// The cell on NATS.
    pub address: CellAddress,
    /// The connection to the cell's NATS.
    pub connection: Arc<Connection>,
    /// Records hosts.
    pub recorder: Arc<dyn HostRecorder>,
    /// The hosts that are mapped to the cell.
    pub hosts: Vec<String>,
    /// The options.
    pub options: AgentsOptions,
}

/// A cell to start.
#[derive(Clone)]
pub struct CellStart {
    pub uuid: Uuid,
    pub name: String,
    pub db: CellDb,
    pub dir: PathBuf,
    /// The hosts that run in this process.
    pub hosts: Vec<HostSpec>,
    /// Set if the cell's hosts are agents.
    pub agents: Option<AgentsStart>,
    /// Set if the database does not answer yet.
    pub silent: Option<Silent>,
}

impl CellStart {
    fn handle(&self, env: &Env) -> CellHandle {
        let handle = CellHandle::new(self.uuid, &self.name, self.db.clone(), env);
        match &self.silent {
            Some(silent) => handle.silent_at_start(silent.clone()),
            None => handle,
        }
    }
}

/// Wraps a participant.
pub type Wrap<T> = Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>;

/// Wrappers between sagas and the participants that they address. A service has none; a simulation delays and loses messages there.
#[derive(Clone, Default)]
pub struct Between {
    pub hosts: Option<Wrap<dyn Hosts>>,
    pub notifications: Option<Wrap<dyn Notifications>>,
}

fn wrapped<T: ?Sized>(wrap: Option<&Wrap<T>>, inner: Arc<T>) -> Arc<T> {
    match wrap {
        Some(wrap) => wrap(inner),
        None => inner,
    }
}

/// The parts of the tree.
#[derive(Clone)]
pub struct Parts {
    pub env: Env,
    pub api: ApiDb,
    /// Includes cell0.
    pub cells: Vec<CellStart>,
    pub images: Arc<dyn ImageService>,
    pub network: Arc<dyn NetworkService>,
    pub volumes: Arc<dyn VolumeService>,
    pub placement: Arc<dyn PlacementService>,
    /// The services' database, whose fences of forgotten servers are removed.
    pub services: Db,
    pub hypervisors: HypervisorFactory,
    /// The URL at which hosts that are agents reach the APIs of this process.
    pub agents_endpoint: String,
    pub cell_options: CellOptions,
    pub host_options: HostsHereOptions,
    pub scheduler: SchedulerConfig,
    pub notifier: NotifierConfig,
    pub settings: Settings,
    pub periodic: PeriodicOptions,
    /// The number of threads for actors. With 0, all run on the thread that starts the tree.
    pub arbiters: usize,
    /// The maximum size of each such thread's pool for blocking work.
    pub blocking_threads: usize,
    /// The controller that holds operations.
    pub controller: Controller,
    /// The time within which one cell reports its hosts.
    pub cell_patience: Duration,
    pub between: Between,
    /// The performers of sagas' steps.
    pub performers: Arc<dyn Performers>,
}

/// The reason why the tree does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the scheduler's configuration: {0}")]
    Scheduler(#[from] ConfigError),
    #[error("the threads for actors do not start: {0}")]
    Arbiters(std::io::Error),
    #[error("the notifications' file cannot be opened: {0}")]
    Notifier(#[from] std::io::Error),
}

/// A handle of the running tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    pub world: Arc<World>,
    /// Includes cell0.
    pub cells: Vec<CellHandle>,
    pub conductor: ConductorHandle,
    pub notifier: NotifierHandle,
    /// The file of notifications, for a publisher.
    pub outbox: Outbox,
    /// All supervised actors.
    pub roster: Roster,
    /// The tickets of hosts for images' bytes.
    pub tickets: Arc<Tickets>,
    root: Addr<Root>,
    failed: Failed,
}

/// Set when the root cannot go on: the reason.
#[derive(Clone)]
struct Failed(Arc<watch::Sender<Option<String>>>);

impl Tree {
    /// Ends all actors in good order. Operations in flight stay in the journal.
    pub fn stop(&self) {
        self.root.do_send(Shutdown);
    }

    /// Waits until a child of the root has died too often, and returns the reason. The process must end then; its successor goes on from
    /// the journal.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.0.subscribe();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The tree holds the sender, so the channel does not close here.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns all supervised actors with their work: a host's requests, a conductor's operations. None for other actors, because actix
    /// does not tell the length of a mailbox.
    pub fn actors(&self) -> Vec<(Listed, Option<usize>)> {
        let at_work = |name: &str| match name.split_once('/') {
            Some((cell, host)) => self.cell(cell).and_then(|cell| cell.hosts.at_work(host)),
            None => self.conductor.in_flight_of(name),
        };
        self.roster.all().into_iter().map(|listed| (listed.clone(), at_work(&listed.name))).collect()
    }

    /// Returns the cell with this name.
    pub fn cell(&self, name: &str) -> Option<&CellHandle> {
        self.cells.iter().find(|cell| cell.name == name)
    }
}

/// Starts all actors. Operations in the journal go on at once.
pub async fn start(parts: Parts) -> Result<Tree, StartError> {
    let operations = Operations::new(parts.api.db().clone()).leased_for(parts.controller.lease).knowing(tables::is_known);
    let cells: Vec<CellHandle> = parts.cells.iter().map(|cell| cell.handle(&parts.env)).collect();
    let hosts = hosts_of(&parts.env, &cells);
    let facts = HostFacts {
        api: parts.api.clone(),
        operations: operations.clone(),
        cells: cells.iter().filter(|cell| cell.name != CELL0).cloned().collect(),
        patience: parts.cell_patience,
        default_zone: parts.scheduler.default_availability_zone.as_str().into(),
    };
    let states: Arc<dyn HostStates> = Arc::new(facts.clone());
    let scheduler = Scheduler::new(parts.scheduler.clone(), parts.placement.clone(), states, &parts.env)?;
    let scheduler = scheduler.reporting(report_of(&parts, &cells, SCHEDULER));
    let notifier = Notifier::open(parts.notifier.clone(), parts.env.clone()).await?;
    let outbox = notifier.outbox();
    let roster = Roster::counting(Arc::new(DeathsByKind(parts.env.metrics().clone())));
    let arbiters = Arbiters::start(parts.arbiters, parts.blocking_threads).map_err(StartError::Arbiters)?;
    let root = Root::create(|ctx| {
        let death_reports: WeakRecipient<ChildDied> = ctx.address().downgrade().recipient();
        let mut notifiers = Children::new(death_reports.clone()).listed(&roster, "");
        let notifier_address =
            Address::new(notifiers.start(ChildSpec::at_home("notifier", arbiters.home(), move |guard| notifier.next_life(guard))));
        let mut schedulers = Children::new(death_reports.clone()).listed(&roster, "");
        let scheduler_address =
            Address::new(schedulers.start(ChildSpec::at_home("scheduler", arbiters.home(), move |guard| scheduler.next_life(guard))));
        let world = Arc::new(world_of(&parts, operations, (&cells, &hosts), &scheduler_address, &notifier_address));
        let upward = services_of_hosts(&parts, facts, &hosts);
        let tickets = upward.tickets.clone();
        let heard = HostsHeardBy { upward: Arc::new(upward), escalations: ctx.address().recipient(), roster: roster.clone() };
        let (cell_children, hosts_here, agents) = start_cells(&parts, (&cells, &world), &heard, &death_reports, &arbiters);
        let conductor_parts =
            ConductorParts::new(world.clone(), hosts.clone(), parts.performers.clone(), &parts.controller).listed(&roster);
        let conductor_parts = conductor_parts.reporting(report_of(&parts, &cells, CONDUCTOR));
        let mut conductors = Children::new(death_reports.clone()).listed(&roster, "");
        let conductor = start_conductors(&parts, conductor_parts, &mut conductors, &arbiters);
        let mut periodics = Children::new(death_reports).listed(&roster, "");
        let periodic = PeriodicParts {
            world: world.clone(),
            services: parts.services.clone(),
            conductor: Arc::new(conductor.clone()),
            controller: parts.controller.name.clone(),
            options: parts.periodic,
        };
        periodics.start(ChildSpec::at_home("periodic", arbiters.home(), move |guard| Periodic::new(periodic.clone(), Some(guard))));
        Root {
            tree: Tree {
                world,
                cells,
                conductor,
                notifier: notifier_at(&parts, &notifier_address),
                outbox,
                roster,
                tickets,
                root: ctx.address(),
                failed: Failed(Arc::new(watch::Sender::new(None))),
            },
            notifiers,
            notifier_address,
            schedulers,
            scheduler_address,
            cell_children,
            hosts_here,
            agents,
            conductors,
            periodics,
        }
    });
    root.send(Describe).await.map_err(|error| StartError::Notifier(std::io::Error::other(error)))
}

/// Returns the report by which operators see that a service of this process lives. None without cell0, which keeps the records.
fn report_of(parts: &Parts, cells: &[CellHandle], binary: &'static str) -> Option<ServiceReport> {
    let cell0 = cells.iter().find(|cell| cell.name == CELL0)?.clone();
    let (interval, deadline) = (parts.cell_options.heartbeat, parts.cell_options.database_deadline);
    Some(ServiceReport { env: parts.env.clone(), cell0, host: parts.controller.name.clone(), binary, interval, deadline })
}

/// Makes a handle of the notifier that counts its messages.
fn notifier_at(parts: &Parts, address: &Address<Notifier>) -> NotifierHandle {
    NotifierHandle::new(address.clone()).counting(parts.env.metrics().messages(Mailbox::Notifier))
}

/// Makes the world of the sagas.
fn world_of(
    parts: &Parts,
    operations: Operations,
    (cells, hosts): (&[CellHandle], &CellHosts),
    scheduler: &Address<Scheduler>,
    notifier: &Address<Notifier>,
) -> World {
    World {
        env: parts.env.clone(),
        operations,
        api: parts.api.clone(),
        cells: cells.iter().map(|cell| (cell.name.clone(), cell.for_steps())).collect(),
        hosts: wrapped(parts.between.hosts.as_ref(), Arc::new(hosts.clone())),
        scheduling: Arc::new(SchedulerHandle::new(scheduler.clone(), &parts.env)),
        images: parts.images.clone(),
        network: parts.network.clone(),
        volumes: parts.volumes.clone(),
        placement: parts.placement.clone(),
        notifications: wrapped(parts.between.notifications.as_ref(), Arc::new(notifier_at(parts, notifier))),
        settings: parts.settings.clone(),
        default_zone: parts.scheduler.default_availability_zone.clone(),
    }
}

/// Returns what answers the hosts' questions.
fn services_of_hosts(parts: &Parts, facts: HostFacts, hosts: &CellHosts) -> HostServices {
    let folder = format!("{}{IMAGES}", parts.agents_endpoint.trim_end_matches('/'));
    HostServices {
        images: parts.images.clone(),
        network: parts.network.clone(),
        owners: Arc::new(facts),
        hosts: Arc::new(hosts.clone()),
        tickets: Arc::new(Tickets::new(parts.env.clone(), folder)),
    }
}

/// Returns the hosts of all cells.
fn hosts_of(env: &Env, cells: &[CellHandle]) -> CellHosts {
    let hosts = CellHosts::new(env);
    for cell in cells {
        hosts.add(&cell.name, cell.hosts.clone());
    }
    hosts
}

/// Starts the conductors.
fn start_conductors(parts: &Parts, first: ConductorParts, children: &mut Children<Conductor>, arbiters: &Arbiters) -> ConductorHandle {
    let mut start = |parts: ConductorParts| {
        let for_lives = parts.clone();
        let conductor = ChildSpec::at_home(parts.actor(), arbiters.home(), move |guard| Conductor::new(for_lives.clone(), Some(guard)));
        let address = children.start(conductor);
        Worker::new(Address::new(address), parts)
    };
    let others: Vec<ConductorParts> = parts.controller.others().map(|actor| first.another(&parts.controller, &actor)).collect();
    let first = start(first);
    ConductorHandle::new(first, others.into_iter().map(start))
}

/// The actors of all cells, of the supervisors of their hosts here, and of their agents.
type CellChildren = (Children<Cell>, Children<HostsHere>, Children<Agents>);

/// Starts the actors of all cells, of the supervisors of their hosts here, and of their agents.
fn start_cells(
    parts: &Parts,
    (handles, world): (&[CellHandle], &World),
    heard: &HostsHeardBy,
    death_reports: &WeakRecipient<ChildDied>,
    arbiters: &Arbiters,
) -> CellChildren {
    let mut cells = Children::new(death_reports.clone()).listed(&heard.roster, "");
    let mut hosts_here = Children::new(death_reports.clone()).listed(&heard.roster, "");
    let mut agents = Children::new(death_reports.clone()).listed(&heard.roster, "");
    for (cell, handle) in parts.cells.iter().zip(handles) {
        let home = arbiters.home();
        start_cell(parts, handle, world, (&mut cells, home.clone()));
        if let Some(start) = &cell.agents {
            start_agents(parts, start, (handle, heard), (&mut agents, home.clone()));
        }
        start_hosts(parts, cell, (handle, heard), (&mut hosts_here, home));
    }
    (cells, hosts_here, agents)
}

/// Starts the actor that keeps the agents of a cell's hosts.
fn start_agents(
    parts: &Parts,
    start: &AgentsStart,
    (handle, heard): (&CellHandle, &HostsHeardBy),
    (children, home): (&mut Children<Agents>, Home),
) {
    // At once, because the conductor waits for starting hosts.
    start.hosts.iter().for_each(|host| handle.hosts.starting(host));
    let agents_parts = AgentsParts {
        env: parts.env.clone(),
        cell: handle.clone(),
        api: parts.api.clone(),
        address: start.address.clone(),
        connection: start.connection.clone(),
        recorder: start.recorder.clone(),
        upward: heard.upward.clone(),
        options: start.options.clone(),
    };
    let name = agents_name(&handle.name);
    children.start(ChildSpec::at_home(&name, home, move |guard| Agents::new(agents_parts.clone(), Some(guard))));
}

/// Starts a cell's actor.
fn start_cell(parts: &Parts, handle: &CellHandle, world: &World, (children, home): (&mut Children<Cell>, Home)) {
    let notifications = world.notifications.clone();
    let cell_parts = CellParts { env: parts.env.clone(), handle: handle.clone(), options: parts.cell_options.clone(), notifications };
    children.start(ChildSpec::at_home(&handle.name, home, move |guard| Cell::new(cell_parts.clone(), Some(guard))));
}

/// The receivers of what hosts ask and report.
struct HostsHeardBy {
    upward: Arc<dyn Upward>,
    escalations: Recipient<Escalated>,
    roster: Roster,
}

/// Starts the actor that supervises a cell's hosts here. A cell without hosts has none.
fn start_hosts(
    parts: &Parts,
    cell: &CellStart,
    (handle, heard): (&CellHandle, &HostsHeardBy),
    (children, home): (&mut Children<HostsHere>, Home),
) {
    if cell.hosts.is_empty() {
        return;
    }
    // At once, because the conductor waits for starting hosts.
    cell.hosts.iter().for_each(|host| handle.hosts.starting(&host.name));
    let hosts_parts = HostsHereParts {
        env: parts.env.clone(),
        handle: handle.hosts_here.clone(),
        dir: cell.dir.clone(),
        hosts: cell.hosts.clone(),
        options: parts.host_options.clone(),
        upward: heard.upward.clone(),
        hypervisors: parts.hypervisors.clone(),
        escalations: Some(heard.escalations.clone()),
        roster: heard.roster.clone(),
    };
    let name = hosts_here_name(&cell.name);
    children.start(ChildSpec::at_home(&name, home, move |guard| HostsHere::new(hosts_parts.clone(), Some(guard))));
}

#[derive(Message)]
#[rtype(result = "Tree")]
struct Describe;

/// The root actor.
struct Root {
    tree: Tree,
    notifiers: Children<Notifier>,
    notifier_address: Address<Notifier>,
    schedulers: Children<Scheduler>,
    scheduler_address: Address<Scheduler>,
    cell_children: Children<Cell>,
    hosts_here: Children<HostsHere>,
    agents: Children<Agents>,
    conductors: Children<Conductor>,
    periodics: Children<Periodic>,
}

impl Actor for Root {
    type Context = Context<Self>;
}

impl Handler<Describe> for Root {
    type Result = MessageResult<Describe>;

    fn handle(&mut self, _: Describe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.tree.clone())
    }
}

impl Handler<ChildDied> for Root {
    type Result = ();

    fn handle(&mut self, died: ChildDied, _: &mut Self::Context) {
        let too_often = match died.name.as_str() {
            "notifier" => replace(self.notifiers.on_death(&died), Some(&self.notifier_address)),
            "scheduler" => replace(self.schedulers.on_death(&died), Some(&self.scheduler_address)),
            "periodic" => replace(self.periodics.on_death(&died), None),
            name => match self.tree.conductor.address_of(name) {
                Some(address) => replace(self.conductors.on_death(&died), Some(address)),
                None if is_of_kind(HOSTS_HERE, name) => replace(self.hosts_here.on_death(&died), None),
                None if is_of_kind(AGENTS, name) => replace(self.agents.on_death(&died), None),
                None => replace(self.cell_children.on_death(&died), None),
            },
        };
        if let Some(escalated) = too_often {
            log::error!("{}: the process ends, and its successor goes on from the journal", escalated.reason);
            self.tree.failed.0.send_replace(Some(escalated.reason));
        }
    }
}

/// True for the name of an actor of a cell that is of this kind.
fn is_of_kind(kind: &str, name: &str) -> bool {
    name.split_once('/').is_some_and(|(first, _)| first == kind)
}

/// Publishes the address of a child's successor. If the child died too often, ends the tree.
fn replace<A: Actor>(verdict: Verdict<A>, address: Option<&Address<A>>) -> Option<Escalated> {
    match verdict {
        Verdict::Nothing | Verdict::Died => None,
        Verdict::Restarted(successor) => {
            if let Some(address) = address {
                address.replace(successor);
            }
            None
        }
        Verdict::TooOften(escalated) => Some(escalated),
    }
}

impl Handler<Escalated> for Root {
    type Result = ();

    /// A host that dies too often is left down by its supervisor; the rest of the cloud goes on.
    fn handle(&mut self, escalated: Escalated, _: &mut Self::Context) {
        log::error!(child = escalated.name.as_str(); "{}", escalated.reason);
    }
}

impl Handler<Shutdown> for Root {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        // Children end when their holder is dropped. Only the journal knows the operations in flight then.
        ctx.stop();
    }
}
