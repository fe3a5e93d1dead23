//! Makes faults happen, except those of steps: to hosts, databases, messages, actors and the clock, during one life of a cloud.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::fault::What;
use super::plan::Call;
use crate::actors::cell::CellHandle;
use crate::actors::root::Tree;
use crate::chaos::borders::{Outage, OutageGate};
use crate::chaos::seams::Seams;
use crate::db::Db;
use crate::db::api::operations::Operations;
use crate::domain::host_trial::HostTrial;
use crate::saga::context::{Context, Place};
use crate::virt::HostUnreachable;

/// The time for a host to break down.
const PATIENCE: Duration = Duration::from_secs(5);

/// A clock that can jump.
pub trait Jump: Send + Sync {
    /// Moves the wall clock forward or backward, but not timers.
    fn jump(&self, ms: i64);
}

/// Makes faults happen to one life of a cloud.
pub struct Injector {
    tree: Tree,
    /// By their names in an experiment's file.
    databases: BTreeMap<String, Db>,
    seams: Seams,
    clock: Option<Arc<dyn Jump>>,
    /// A separate handle, so that an outage cannot hide the hosts of a move.
    operations: Operations,
}

/// The result of beginning a fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// The fault has happened.
    Done,
    /// The fault lasts until [`Injector::over`].
    Lasts(Lasting),
    /// The controller's process must die.
    Kills,
}

/// A fault that lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lasting {
    pub what: What,
    /// The maximum duration in milliseconds; none for a fault that waits for its victim.
    pub for_ms: Option<u64>,
    /// The ticket of a message fault in the network.
    ticket: Option<u64>,
}

impl Lasting {
    fn timed(for_ms: u64, what: What) -> Begun {
        Begun::Lasts(Lasting { what, for_ms: Some(for_ms), ticket: None })
    }

    fn waiting(what: What, ticket: Option<u64>) -> Begun {
        Begun::Lasts(Lasting { what, for_ms: None, ticket })
    }
}

impl Injector {
    /// Makes an injector for one life of a cloud.
    pub fn new(tree: Tree, databases: BTreeMap<String, Db>, seams: Seams, clock: Option<Arc<dyn Jump>>) -> Injector {
        let operations = Operations::new(tree.world.api.db().named("chaos"));
        Injector { tree, databases, seams, clock, operations }
    }

    /// Makes a fault happen, or says why it cannot. The fault must not name the move's own places ([`Injector::resolved`]).
    pub async fn begin(&self, call: &Call) -> Result<Begun, String> {
        let what = call.what.clone();
        match &what {
            What::HostOff { host, resume_guests, for_ms } => {
                // The end may take long, and no request reaches the host meanwhile. Succeeds if the host is off already.
                tokio::spawn(self.cell_of(host)?.hosts_here.power_off(host, *resume_guests));
                Ok(Lasting::timed(*for_ms, what.clone()))
            }
            What::HostCrash { host } => self.crash(host).await,
            What::Driver { host, operation, times } => {
                self.cell_of(host)?;
                self.seams.drivers.fail_next(host, *operation, *times);
                Ok(Lasting::waiting(what, None))
            }
            What::Database { name, outage, calls, for_ms } => {
                self.gate(name)?.set(*outage, *calls);
                Ok(Lasting::timed(*for_ms, what.clone()))
            }
            What::Partition { cell, for_ms } => {
                self.tree.cell(cell).ok_or_else(|| format!("there is no cell {cell}"))?;
                self.seams.network.cut(cell, true);
                Ok(Lasting::timed(*for_ms, what.clone()))
            }
            What::Message(fault) => {
                let ticket = self.seams.network.arm(call.saga, *fault);
                Ok(Lasting::waiting(what, Some(ticket)))
            }
            What::Clock { ms } => {
                self.clock.as_ref().ok_or("this clock cannot be made to jump")?.jump(*ms);
                Ok(Begun::Done)
            }
            What::Kill { actor } => match (self.tree.roster.kill(actor), self.agent_of(actor)) {
                (true, _) => Ok(Begun::Done),
                (false, Some(host)) => self.crash(host).await,
                (false, None) => Err(format!("no actor {actor} is alive")),
            },
            What::Pause { actor, for_ms } => match self.tree.roster.pause(actor) {
                true => Ok(Lasting::timed(*for_ms, what.clone())),
                false => Err(format!("no actor {actor} is alive, or it is paused already")),
            },
            What::Restart => Ok(Begun::Kills),
            // The runner has made it happen.
            What::Step(_) => Ok(Begun::Done),
        }
    }

    /// Lets a host's actor panic, wherever the host is.
    async fn crash(&self, host: &str) -> Result<Begun, String> {
        match self.cell_of(host)?.hosts.trial(host, HostTrial::Crash, PATIENCE).await {
            // A host that breaks down does not answer.
            Err(HostUnreachable::Unknown(_)) => Ok(Begun::Done),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err(format!("host {host} has not broken down")),
        }
    }

    /// Returns the host of an actor that is in an agent's process: this process's roster lacks it, and its host takes requests.
    fn agent_of<'a>(&self, actor: &'a str) -> Option<&'a str> {
        let (cell, host) = actor.split_once('/')?;
        self.tree.cell(cell)?.hosts.standing(host).is_up().then_some(host)
    }

    /// True while a lasting fault continues. It ends once it has happened the given number of times.
    pub fn goes_on(&self, lasting: &Lasting) -> bool {
        match (&lasting.what, lasting.ticket) {
            (What::Message(_), Some(ticket)) => self.seams.network.is_armed(ticket),
            (What::Driver { host, operation, .. }, _) => self.seams.drivers.failing(host, *operation) > 0,
            (What::Database { name, .. }, _) => self.gate(name).is_ok_and(OutageGate::is_spoiled),
            _ => true,
        }
    }

    /// Ends a lasting fault. Succeeds if it has ended already.
    pub async fn over(&self, lasting: &Lasting) {
        match &lasting.what {
            What::Message(_) => lasting.ticket.into_iter().for_each(|ticket| self.seams.network.disarm(ticket)),
            What::Driver { host, operation, .. } => self.seams.drivers.fail_next(host, *operation, 0),
            What::HostOff { host, .. } => self.power_on(host),
            What::Partition { cell, .. } => self.seams.network.cut(cell, false),
            What::Pause { actor, .. } => drop(self.tree.roster.resume(actor)),
            What::Database { name, .. } => {
                if let Ok(gate) = self.gate(name) {
                    gate.set(Outage::None, 0);
                }
            }
            _ => {}
        }
    }

    /// Ends all faults.
    pub async fn heal(&self) {
        self.seams.network.heal();
        self.tree.roster.resume_all();
        for cell in &self.tree.cells {
            for (host, _) in cell.hosts.hosts() {
                self.power_on(&host);
                self.seams.drivers.heal(&host);
            }
        }
        self.databases.values().filter_map(OutageGate::of).for_each(|gate| gate.set(Outage::None, 0));
    }

    fn power_on(&self, host: &str) {
        if let Ok(cell) = self.cell_of(host) {
            let (cell, host) = (cell.clone(), host.to_owned());
            // Answers once the host has started. Succeeds if it is on already.
            tokio::spawn(async move { drop(cell.hosts_here.power_on(&host).await) });
        }
    }

    fn cell_of(&self, host: &str) -> Result<&CellHandle, String> {
        let has = |cell: &&CellHandle| cell.hosts.hosts().iter().any(|(name, _)| name == host);
        self.tree.cells.iter().find(has).ok_or_else(|| format!("there is no host {host}"))
    }

    fn gate(&self, name: &str) -> Result<&OutageGate, String> {
        let db = self.databases.get(name).ok_or_else(|| format!("there is no database {name}"))?;
        OutageGate::of(db).ok_or_else(|| format!("database {name} was opened without faults"))
    }

    /// Replaces the move's own places in a fault by their names.
    pub async fn resolved(&self, call: Call) -> Result<Call, String> {
        let what = self.named(&call).await?;
        Ok(Call { what, ..call })
    }

    async fn named(&self, call: &Call) -> Result<What, String> {
        let mut what = call.what.clone();
        let (name, of_cell) = match &mut what {
            What::HostOff { host, .. } | What::HostCrash { host } | What::Driver { host, .. } => (host, false),
            What::Database { name, .. } => (name, true),
            What::Partition { cell, .. } => (cell, true),
            _ => return Ok(what),
        };
        if let side @ ("source" | "target") = name.as_str() {
            let place = self.place(call, side).await?;
            *name = if of_cell { place.cell } else { place.host };
        }
        Ok(what)
    }

    async fn place(&self, call: &Call, side: &str) -> Result<Place, String> {
        let saga = call.saga.ok_or_else(|| format!("there is no move whose {side} could be meant"))?;
        let record = self.operations.saga(saga).await.map_err(|error| error.to_string())?;
        let context = record.and_then(|record| serde_json::from_str::<Context>(&record.context).ok());
        let place = context.and_then(|context| if side == "source" { context.source.clone() } else { context.target.clone() });
        place.ok_or_else(|| format!("operation {saga} has no {side} yet"))
    }
}
