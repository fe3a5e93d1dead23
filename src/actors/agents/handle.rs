//! The handle of a cell's agents: what one incarnation of their actor leaves to the next, and what others look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellshift_nats::{HostFacts, NatsLink, Presence};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The agents of a cell as this process knows them. Cheap to clone, and valid for each incarnation of the actor. A cell without agents has an
/// empty one.
#[derive(Clone, Default)]
pub struct AgentsHandle(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Wakes whoever records hosts and looks strangers up.
    arrived: Notify,
}

#[derive(Default)]
struct State {
    links: BTreeMap<String, Arc<NatsLink>>,
    /// The hosts whose links wait for the first report, or for the end of the time for it.
    awaited: BTreeSet<String>,
    /// The hosts that no cell has.
    discovered: BTreeSet<String>,
    /// The hosts that another cell has.
    misplaced: BTreeSet<String>,
    /// The facts that are to be recorded.
    due: BTreeMap<String, HostFacts>,
    /// The facts as they were recorded last.
    recorded: BTreeMap<String, HostFacts>,
    /// The reports of lives that this process has not accepted. Another controller may have.
    strangers: BTreeMap<String, Presence>,
}

impl AgentsHandle {
    /// True if the host's agent has been accepted and the host is mapped to no cell: it takes no servers.
    pub fn is_discovered(&self, host: &str) -> bool {
        self.0.state.lock().discovered.contains(host)
    }

    /// Returns the link to a host whose agent has been accepted.
    pub(super) fn link(&self, host: &str) -> Option<Arc<NatsLink>> {
        self.0.state.lock().links.get(host).cloned()
    }

    /// Returns the link to a host. Makes it if there is none.
    pub(super) fn link_or(&self, host: &str, make: impl FnOnce() -> NatsLink) -> Arc<NatsLink> {
        self.0.state.lock().links.entry(host.to_owned()).or_insert_with(|| Arc::new(make())).clone()
    }

    /// Notes that the link to a host is not open before the host reports.
    pub(super) fn await_report(&self, host: &str) {
        self.0.state.lock().awaited.insert(host.to_owned());
    }

    /// Notes that the link to a host need not wait any more. True if it waited.
    pub(super) fn end_awaiting(&self, host: &str) -> bool {
        self.0.state.lock().awaited.remove(host)
    }

    /// Returns the hosts whose links wait.
    pub(super) fn awaited(&self) -> BTreeSet<String> {
        self.0.state.lock().awaited.clone()
    }

    /// Returns the names of all hosts with a link.
    pub(super) fn linked(&self) -> Vec<String> {
        self.0.state.lock().links.keys().cloned().collect()
    }

    /// Forgets a host whose records an operator has removed.
    pub(super) fn forget(&self, host: &str) {
        let mut state = self.0.state.lock();
        state.links.remove(host);
        state.awaited.remove(host);
        state.discovered.remove(host);
        state.misplaced.remove(host);
        state.due.remove(host);
        state.recorded.remove(host);
    }

    /// Notes the facts of a host. They are due unless they are recorded.
    pub(super) fn note(&self, host: &str, facts: HostFacts) {
        let mut state = self.0.state.lock();
        if state.recorded.get(host) == Some(&facts) || state.due.get(host) == Some(&facts) {
            return;
        }
        state.due.insert(host.to_owned(), facts);
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Returns all facts that are to be recorded.
    pub(super) fn due(&self) -> BTreeMap<String, HostFacts> {
        self.0.state.lock().due.clone()
    }

    /// Notes that the facts are recorded. Later ones of the same host stay due.
    pub(super) fn recorded(&self, host: &str, facts: HostFacts) {
        let mut state = self.0.state.lock();
        state.discovered.remove(host);
        if state.due.get(host) == Some(&facts) {
            state.due.remove(host);
        }
        state.recorded.insert(host.to_owned(), facts);
    }

    /// Notes that the record of the host may have gone.
    pub(super) fn record_anew(&self, host: &str) {
        self.0.state.lock().recorded.remove(host);
    }

    /// Notes that the host is mapped to no cell. True if that is new.
    pub(super) fn discover(&self, host: &str) -> bool {
        self.0.state.lock().discovered.insert(host.to_owned())
    }

    /// Notes that another cell has the host. True if that is new.
    pub(super) fn misplace(&self, host: &str) -> bool {
        self.0.state.lock().misplaced.insert(host.to_owned())
    }

    /// Keeps a report of a life that this process has not accepted, until somebody looks it up.
    pub(super) fn strange(&self, host: &str, presence: Presence) {
        self.0.state.lock().strangers.insert(host.to_owned(), presence);
        self.0.arrived.notify_one();
    }

    /// Returns the reports of strangers, and forgets them.
    pub(super) fn strangers(&self) -> BTreeMap<String, Presence> {
        std::mem::take(&mut self.0.state.lock().strangers)
    }

    /// Waits until there are new facts or strangers.
    pub(super) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}
