//! The handle of a cell's hosts here: it leads to the present incarnation of their actor, and keeps what one incarnation leaves to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use actix::{WeakAddr, dev::ToEnvelope};
use parking_lot::Mutex;

use super::{HostsHere, POWERED_OFF, PowerOffHost, PowerOnHost};
use crate::actors::cell::HostDirectory;
use crate::actors::compute_host::HostSite;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::Env;
use crate::metrics::{Level, Mailbox};
use crate::virt::{HostUnreachable, Hypervisor};

/// The handle of a cell's hosts in this process. Cheap to clone, and valid for each incarnation of the actor.
#[derive(Clone)]
pub struct HostsHandle {
    cell: String,
    hosts: HostDirectory,
    kept: Arc<Mutex<Kept>>,
    /// The messages to all such actors without an answer.
    messages: Level,
}

/// The state that one incarnation of the actor leaves to the next.
#[derive(Default)]
struct Kept {
    sites: BTreeMap<String, Arc<HostSite>>,
    powered_off: BTreeSet<String>,
    actor: Option<WeakAddr<HostsHere>>,
}

impl HostsHandle {
    /// Makes the handle of an actor that has not started. `hosts` is the directory in which it tells of its hosts.
    pub fn new(cell: &str, hosts: HostDirectory, env: &Env) -> HostsHandle {
        HostsHandle { cell: cell.to_owned(), hosts, kept: Arc::default(), messages: env.metrics().messages(Mailbox::Cell) }
    }

    /// Returns the cell's name.
    pub fn cell(&self) -> &str {
        &self.cell
    }

    /// Returns the directory of the cell's hosts.
    pub fn hosts(&self) -> &HostDirectory {
        &self.hosts
    }

    /// Cuts the power of a host: no request reaches the host once this has returned. The future ends when no guest runs any more.
    pub fn power_off(&self, host: &str, resume_guests: bool) -> impl Future<Output = Result<(), HostUnreachable>> + use<> {
        if self.cut(host).is_some() {
            self.hosts.closed(host, POWERED_OFF.into());
        }
        let (handle, message) = (self.clone(), PowerOffHost { host: host.to_owned(), resume_guests });
        async move { handle.tell(message).await }
    }

    /// See [`PowerOnHost`].
    pub async fn power_on(&self, host: &str) -> Result<(), HostUnreachable> {
        self.tell(PowerOnHost { host: host.to_owned() }).await
    }

    /// Returns the driver of a host that has started. For tests and experiments.
    pub fn hypervisor(&self, host: &str) -> Option<Arc<dyn Hypervisor>> {
        self.site(host).map(|site| site.hypervisor.clone())
    }

    /// Returns the site of a host that has started.
    pub(super) fn site(&self, host: &str) -> Option<Arc<HostSite>> {
        self.kept.lock().sites.get(host).cloned()
    }

    /// Keeps a host's site for later incarnations.
    pub(super) fn keep(&self, site: Arc<HostSite>) {
        self.kept.lock().sites.insert(site.place.host.clone(), site);
    }

    /// Notes that a host has no power, and returns its site. None if no such host has started.
    pub(super) fn cut(&self, host: &str) -> Option<Arc<HostSite>> {
        let mut kept = self.kept.lock();
        let site = kept.sites.get(host).cloned()?;
        kept.powered_off.insert(host.to_owned());
        Some(site)
    }

    /// Notes that a host has power.
    pub(super) fn has_power(&self, host: &str) {
        self.kept.lock().powered_off.remove(host);
    }

    /// True if the host has no power.
    pub(super) fn is_off(&self, host: &str) -> bool {
        self.kept.lock().powered_off.contains(host)
    }

    /// Notes the present incarnation.
    pub(super) fn started(&self, actor: WeakAddr<HostsHere>) {
        self.kept.lock().actor = Some(actor);
    }

    /// Returns the sentence about a host that is not here.
    pub(super) fn no_such_host(&self, host: &str) -> Reason {
        reason!("there is no host {host} in cell {}", self.cell)
    }

    async fn tell<M>(&self, message: M) -> Result<(), HostUnreachable>
    where
        M: Message<Result = Result<(), Reason>> + Send + 'static,
        HostsHere: Handler<M>,
        Context<HostsHere>: ToEnvelope<HostsHere, M>,
    {
        let actor = self.kept.lock().actor.as_ref().and_then(WeakAddr::upgrade);
        let actor = actor.ok_or_else(|| HostUnreachable::NotDelivered(reason!("the hosts of cell {} have not started", self.cell)))?;
        let _within = self.messages.enter();
        match actor.send(message).await {
            Ok(outcome) => outcome.map_err(HostUnreachable::NotDelivered),
            Err(error) => Err(HostUnreachable::Unknown(reason!("the hosts of cell {}: {error}", self.cell))),
        }
    }
}
