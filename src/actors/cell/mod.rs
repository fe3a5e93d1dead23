//! A cell. It watches its database's health, tells when the cell goes down and comes back, and records when each host was seen. The hosts
//! themselves are started elsewhere ([`crate::actors::hosts_here`]).
//!
//! The state that must outlive the actor (the directory of hosts, health) is in its [`CellHandle`], which the other actors hold.

mod announce;
mod directory;
mod health;
pub mod request_clock;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use parking_lot::Mutex;
use uuid::Uuid;

use super::agents::AgentsHandle;
use super::hosts_here::HostsHandle;
use super::supervision::{DeathGuard, supervised};
use crate::db::cell::{CellDb, CellTxn};
use crate::env::Env;
use crate::metrics::Mailbox;
use crate::saga::notifications::Notifications;
use crate::saga::world::CellAccess;
use crate::virt::HostUnreachable;
use announce::announce;
pub use directory::{CellHosts, HostDirectory};
pub use health::{CellHealth, HealthReport, Standing};
pub use setup::{CellSetup, Silent};

/// The options of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellOptions {
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
    /// The hosts of the cell that run in this process.
    pub hosts_here: HostsHandle,
    /// The agents of the cell's hosts.
    pub agents: AgentsHandle,
    /// The work of a start that the cell's database still lacks.
    setup: Arc<Mutex<Option<Arc<dyn CellSetup>>>>,
}

impl CellHandle {
    /// Returns the cell as steps reach it.
    pub fn for_steps(&self) -> CellAccess {
        CellAccess { uuid: self.uuid, db: self.db.clone(), health: Arc::new(self.health.clone()) }
    }

    /// Makes the handle of a cell whose actor has not started.
    pub fn new(uuid: Uuid, name: &str, db: CellDb, env: &Env) -> CellHandle {
        let (health, hosts) = (CellHealth::new(name, env), HostDirectory::counting(env.metrics().messages(Mailbox::Host), env));
        let hosts_here = HostsHandle::new(name, hosts.clone(), env);
        CellHandle { uuid, name: name.to_owned(), db, health, hosts, hosts_here, agents: AgentsHandle::default(), setup: Arc::default() }
    }

    /// Cuts the power of a host here. See [`HostsHandle::power_off`].
    pub fn power_off_host(&self, host: &str, resume_guests: bool) -> impl Future<Output = Result<(), HostUnreachable>> + use<> {
        self.hosts_here.power_off(host, resume_guests)
    }

    /// Switches the power of a host here on. See [`HostsHandle::power_on`].
    pub async fn power_on_host(&self, host: &str) -> Result<(), HostUnreachable> {
        self.hosts_here.power_on(host).await
    }
}

/// The parts of a cell's actor.
#[derive(Clone)]
pub struct CellParts {
    /// The clock and the metrics.
    pub env: Env,
    /// The handle that the other actors hold.
    pub handle: CellHandle,
    /// The options.
    pub options: CellOptions,
    /// Receives notifications of the cell's going down and coming back.
    pub notifications: Arc<dyn Notifications>,
}

impl CellParts {
    /// Records the hosts that take requests as seen now, with the use of their servers.
    async fn beat(&self) {
        let handle = &self.handle;
        let recorded = handle.health.call(self.options.database_deadline, record_seen(handle)).await;
        let hosts = handle.hosts.hosts();
        let alive = hosts.iter().filter(|(_, alive)| *alive).count();
        self.env.metrics().heartbeat(&handle.name, (alive, hosts.len()), recorded.is_ok().then(|| self.env.now()));
        if let Err(error) = recorded {
            log::debug!(cell = handle.name.as_str(); "hosts are not recorded as seen: {error}");
        }
        // Again, because the first try may have failed.
        announce(handle, &*self.notifications).await;
    }

    /// Records the hosts as seen once they have started, and whenever one returns, without waiting for the next heartbeat.
    async fn beat_at_changes(&self) {
        loop {
            self.handle.hosts.until_started().await;
            self.handle.hosts.until_changed_since(self.beat()).await;
        }
    }

    /// Announces each change of the cell's health.
    async fn tell_of_health(&self) {
        loop {
            announce(&self.handle, &*self.notifications).await;
            self.handle.health.changed().await;
        }
    }

    async fn probe(&self) {
        // Not longer than a request's first call has.
        self.handle.probe(self.options.database_deadline / 2).await;
    }
}

/// The actor: one incarnation of a cell.
pub struct Cell {
    parts: CellParts,
    _guard: Option<DeathGuard>,
}

impl Cell {
    /// Makes a cell that has not started; `guard` reports its death.
    pub fn new(parts: CellParts, guard: Option<DeathGuard>) -> Cell {
        Cell { parts, _guard: guard }
    }

    /// Runs `work` beside the mailbox, as long as the actor lives.
    fn aside<F>(&self, ctx: &mut Context<Self>, work: impl FnOnce(CellParts) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        ctx.spawn(work(self.parts.clone()).into_actor(self));
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
        self.parts.handle.health.forget_probe();
        self.aside(ctx, |parts| async move { parts.tell_of_health().await });
        self.aside(ctx, |parts| async move { parts.beat_at_changes().await });
        let CellOptions { heartbeat, probe_interval, .. } = self.parts.options;
        ctx.run_interval(heartbeat, |cell, ctx| cell.aside(ctx, |parts| async move { parts.beat().await }));
        ctx.run_interval(probe_interval, |cell, ctx| cell.aside(ctx, |parts| async move { parts.probe().await }));
    }
}

supervised!(Cell);
