//! The hosts of one cell that run in this process. It starts, supervises and revives their actors, opens their drivers, and cuts and gives
//! their power.
//!
//! Its parts know the hosts' directory and what the hosts need from outside, and no database: whoever runs hosts can run it. What must outlive
//! the actor (the hosts' sites, and which of them have no power) is in its [`HostsHandle`].

mod handle;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::compute_host::{ComputeHost, HostOptions, HostParts, HostPlace, HostSite, MailboxLink, Upward};
use super::supervision::{ChildDied, ChildSpec, Children, DeathGuard, Escalated, Intensity, Roster, Verdict, supervised};
use crate::domain::flavor::Resources;
use crate::domain::host_network::VirtualFunction;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::Env;
pub use cellshift_host::{HypervisorFactory, of_deployment, simulated_hypervisors};
pub use handle::HostsHandle;

/// The reason why a host without power takes no requests.
const POWERED_OFF: &str = "it is powered off";

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

/// The options of a cell's hosts here.
#[derive(Clone, PartialEq, Debug)]
pub struct HostsHereOptions {
    /// The options of each host.
    pub hosts: HostOptions,
    /// The limit of a host's restarts.
    pub intensity: Intensity,
    /// The pause before a host that died too often is started again.
    pub revive_after: Duration,
}

impl Default for HostsHereOptions {
    fn default() -> HostsHereOptions {
        HostsHereOptions { hosts: HostOptions::default(), intensity: Intensity::default(), revive_after: Duration::from_secs(60) }
    }
}

/// The parts of the actor.
#[derive(Clone)]
pub struct HostsHereParts {
    /// Clock, ids and blocking pool.
    pub env: Env,
    /// The handle that others hold.
    pub handle: HostsHandle,
    /// The cell's directory.
    pub dir: PathBuf,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// The options.
    pub options: HostsHereOptions,
    /// The way of the hosts to their images, ports and owners.
    pub upward: Arc<dyn Upward>,
    /// Opens drivers.
    pub hypervisors: HypervisorFactory,
    /// Receives reports of hosts that die too often.
    pub escalations: Option<Recipient<Escalated>>,
    /// The roster that lists the hosts.
    pub roster: Roster,
}

/// The actor: one incarnation.
pub struct HostsHere {
    parts: HostsHereParts,
    hosts: Option<Children<ComputeHost>>,
    _guard: Option<DeathGuard>,
}

impl HostsHere {
    /// Makes an actor that has started no host yet; `guard` reports its death.
    pub fn new(parts: HostsHereParts, guard: Option<DeathGuard>) -> HostsHere {
        HostsHere { parts, hosts: None, _guard: guard }
    }

    fn spec_of(&self, host: &str) -> Option<&HostSpec> {
        self.parts.hosts.iter().find(|spec| spec.name == host)
    }

    fn runs(&self, host: &str) -> bool {
        self.hosts.as_ref().is_some_and(|children| children.get(host).is_some())
    }

    /// Starts a host's actor. Opens its driver first if no incarnation of this actor has done so.
    fn start_host(&mut self, host: String, ctx: &mut Context<Self>) {
        let handle = &self.parts.handle;
        if handle.is_off(&host) {
            handle.hosts().closed(&host, POWERED_OFF.into());
            return;
        }
        let site = handle.site(&host);
        let place = HostPlace { cell: handle.cell().to_owned(), host: host.clone(), cell_dir: self.parts.dir.clone() };
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
        ctx.wait(opening.into_actor(self).map(move |opened, actor, ctx| match opened {
            Ok(site) => actor.begin_host(site),
            Err(error) => {
                log::error!(host = host.as_str(); "host {host} cannot start: {error}");
                actor.parts.handle.hosts().closed(&host, reason!("{error}"));
                actor.revive_later(host, ctx);
            }
        }));
    }

    fn begin_host(&mut self, site: Arc<HostSite>) {
        let host = site.place.host.clone();
        let (Some(spec), Some(children)) = (self.spec_of(&host).cloned(), self.hosts.as_mut()) else { return };
        self.parts.handle.keep(site.clone());
        let host_parts = HostParts {
            env: self.parts.env.clone(),
            site,
            capacity: spec.capacity,
            functions: spec.functions,
            options: self.parts.options.hosts.clone(),
            upward: self.parts.upward.clone(),
        };
        let factory = Box::new(move |guard| ComputeHost::new(host_parts.clone(), Some(guard)).start());
        let address = children.start(ChildSpec { name: host.clone(), intensity: self.parts.options.intensity, factory });
        self.host_returned(&host, address);
    }

    fn host_returned(&self, host: &str, address: Addr<ComputeHost>) {
        self.parts.handle.hosts().opened(host, Arc::new(MailboxLink::new(address, &self.parts.env)));
    }

    fn revive_later(&self, host: String, ctx: &mut Context<Self>) {
        ctx.run_later(self.parts.options.revive_after, move |actor, ctx| {
            if !actor.runs(&host) {
                actor.start_host(host, ctx);
            }
        });
    }
}

impl Actor for HostsHere {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let hosts = Children::new(ctx.address().downgrade().recipient());
        self.hosts = Some(hosts.listed(&self.parts.roster, &format!("{}/", self.parts.handle.cell())));
        self.parts.handle.started(ctx.address().downgrade());
        for spec in self.parts.hosts.clone() {
            // A host without power stays off.
            if !self.parts.handle.is_off(&spec.name) {
                self.parts.handle.hosts().starting(&spec.name);
            }
            self.start_host(spec.name, ctx);
        }
    }
}

impl Handler<ChildDied> for HostsHere {
    type Result = ();

    fn handle(&mut self, died: ChildDied, ctx: &mut Self::Context) {
        let Some(children) = &mut self.hosts else { return };
        match children.on_death(&died) {
            Verdict::Nothing | Verdict::Died => {}
            Verdict::Restarted(address) => self.host_returned(&died.name, address),
            Verdict::TooOften(escalated) => {
                log::error!(host = died.name.as_str(); "{}; it is left down", escalated.reason);
                self.parts.handle.hosts().closed(&died.name, Reason::public(&escalated.reason));
                if let Some(parent) = &self.parts.escalations {
                    let name = format!("{}/{}", self.parts.handle.cell(), escalated.name);
                    parent.do_send(Escalated { name, reason: escalated.reason });
                }
                self.revive_later(died.name, ctx);
            }
        }
    }
}

impl Handler<PowerOffHost> for HostsHere {
    type Result = ResponseActFuture<Self, Result<(), Reason>>;

    fn handle(&mut self, PowerOffHost { host, resume_guests }: PowerOffHost, _: &mut Self::Context) -> Self::Result {
        let handle = &self.parts.handle;
        let Some(site) = handle.cut(&host) else {
            return Box::pin(actix::fut::ready(Err(handle.no_such_host(&host))));
        };
        let closed_at = handle.hosts().closed(&host, POWERED_OFF.into());
        if let Some(children) = &mut self.hosts {
            children.stop(&host);
        }
        let (env, hosts) = (self.parts.env.clone(), self.parts.handle.hosts().clone());
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

impl Handler<PowerOnHost> for HostsHere {
    type Result = Result<(), Reason>;

    fn handle(&mut self, PowerOnHost { host }: PowerOnHost, ctx: &mut Self::Context) -> Self::Result {
        if self.spec_of(&host).is_none() {
            return Err(self.parts.handle.no_such_host(&host));
        }
        self.parts.handle.has_power(&host);
        if !self.runs(&host) {
            self.start_host(host, ctx);
        }
        Ok(())
    }
}

supervised!(HostsHere);
