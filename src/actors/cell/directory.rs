//! The ways to the hosts of a cell: a handle of the links that the supervisor of the hosts keeps current, and a handle of all cells'
//! directories for sagas. A request that takes long is delivered again here, and nowhere else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_host::link::{HostLink, LONGEST_PATIENCE};
use chrono::{DateTime, Utc};
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::host_trial::{HostTrial, TrialOutcome};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::standing::{OffBy, Standing};
use crate::env::Env;
use crate::env::guard::{Guard, stands};
use crate::metrics::Level;
use crate::virt::{HostUnreachable, Hosts};

/// The hosts of one cell. Clones share them.
#[derive(Clone)]
pub struct HostDirectory {
    hosts: Arc<RwLock<HashMap<String, HostEntry, RandomState>>>,
    changed: Arc<Notify>,
    /// The messages of all cells without an answer, for metrics.
    in_flight: Level,
    env: Arc<Env>,
    made_at: DateTime<Utc>,
}

#[derive(Clone)]
enum HostEntry {
    /// Takes requests over this link.
    Open(Arc<dyn HostLink>),
    /// Takes no requests, for this reason.
    Closed { reason: Reason, since: DateTime<Utc>, guests_ended: bool },
    /// Will take requests, or will be closed, soon.
    Starting { since: DateTime<Utc> },
}

const STARTING: &str = "its cell is starting";

/// The time after which a request without a reply is delivered again. The host joins the delivery to the work, or repeats a reply that was
/// lost.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);
const _: () = assert!(ASK_AGAIN_AFTER.as_secs() <= LONGEST_PATIENCE.as_secs());

impl HostDirectory {
    /// Makes an empty directory that counts the messages without an answer here.
    pub fn counting(in_flight: Level, env: &Env) -> HostDirectory {
        HostDirectory { hosts: Arc::default(), changed: Arc::default(), in_flight, env: Arc::new(env.clone()), made_at: env.now() }
    }

    /// Returns all hosts of the cell in order, and whether each takes requests.
    pub fn hosts(&self) -> Vec<(String, bool)> {
        let mut hosts: Vec<(String, bool)> = self.hosts.read().iter().map(|(name, entry)| (name.clone(), entry.is_open())).collect();
        hosts.sort_unstable();
        hosts
    }

    /// Returns the host's standing; that of an open host is its link's word. A host whose power was cut is off once its guests have ended;
    /// every other host that takes no requests is silent. The moment of its silence stays until it takes requests again.
    pub fn standing(&self, host: &str) -> Standing {
        let silent = |since: DateTime<Utc>, reason: Reason| Standing::Silent { since, reason };
        match self.hosts.read().get(host) {
            Some(HostEntry::Open(link)) => link.standing(),
            Some(HostEntry::Closed { guests_ended: true, .. }) => Standing::Off(OffBy::Host),
            Some(HostEntry::Closed { reason, since, .. }) => silent(*since, reason.clone()),
            Some(HostEntry::Starting { since }) => silent(*since, STARTING.into()),
            None => silent(self.made_at, not_here(host)),
        }
    }

    /// Returns the number of the host's requests without an answer, waiting or at work. None while it takes none.
    pub fn at_work(&self, host: &str) -> Option<usize> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Open(link)) => Some(link.at_work()),
            _ => None,
        }
    }

    /// Returns the reason why a host takes no requests.
    pub fn reason(&self, host: &str) -> Option<Reason> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Closed { reason, .. }) => Some(reason.clone()),
            Some(HostEntry::Starting { .. }) => Some(STARTING.into()),
            Some(HostEntry::Open(_)) | None => None,
        }
    }

    /// Waits until no host is starting.
    pub async fn until_started(&self) {
        self.until(|| !self.hosts.read().values().any(|entry| matches!(entry, HostEntry::Starting { .. }))).await;
    }

    /// Waits until the host has a link (`open`), or has none. The link to a host that has just died still counts.
    pub async fn until_open(&self, host: &str, open: bool) {
        self.until(|| matches!(self.hosts.read().get(host), Some(HostEntry::Open(_))) == open).await;
    }

    /// Waits until the start of the host has ended: it takes requests, or could not be started.
    pub async fn until_begun(&self, host: &str) {
        self.until(|| self.hosts.read().get(host).is_some_and(|entry| !matches!(entry, HostEntry::Starting { .. }))).await;
    }

    /// Waits until the condition holds, which changes with the hosts' entries.
    async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Subscribes before the look, so that no change is missed.
            changed.as_mut().enable();
            if holds() {
                return;
            }
            changed.await;
        }
    }

    /// Runs `work`, then waits until a host has opened or closed since the work began.
    pub(super) async fn until_changed_since(&self, work: impl Future<Output = ()>) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        work.await;
        changed.await;
    }

    /// Delivers a request as [`HostDirectory::until_reply`] does, and waits until the deadline.
    pub async fn request(&self, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable> {
        match timeout(deadline, self.until_reply(host, request)).await {
            Ok(replied) => replied,
            Err(_) => Err(HostUnreachable::late(deadline)),
        }
    }

    /// Delivers a request, and again every few seconds until the host replies or cannot be reached. Whoever has a deadline drops the future;
    /// a delivered request runs on. Once a delivery may have been done, no later word of the link makes the request surely not done.
    pub async fn until_reply(&self, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let _within = self.in_flight.enter();
        let mut may_be_done = false;
        loop {
            let delivered_at = Instant::now();
            let outcome = match self.open(host) {
                Ok(link) => link.request(request.clone(), ASK_AGAIN_AFTER).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(HostUnreachable::Unknown(_)) if waited_in_vain(delivered_at) => may_be_done = true,
                Err(error) if stands(Guard::LastingDoubt) && may_be_done && !error.may_be_done() => {
                    return Err(HostUnreachable::Unknown(reason!("{error}")));
                }
                outcome => return outcome,
            }
        }
    }

    /// Delivers a query and waits for the answer until the deadline.
    pub async fn query(&self, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        let (link, _within) = (self.open(host)?, self.in_flight.enter());
        link.query(query, deadline).await
    }

    /// Makes a trial with a host that allows trials. The inner error says why the trial could not be made.
    pub async fn trial(&self, host: &str, trial: HostTrial, deadline: Duration) -> Result<Result<TrialOutcome, Reason>, HostUnreachable> {
        match self.query(host, HostQuery::Trial(trial), deadline).await? {
            HostAnswer::Trial(outcome) => Ok(outcome),
            other => Ok(Err(reason!("host {host} answered a trial with {other:?}"))),
        }
    }

    /// Notes that the host takes requests over this link.
    pub(in crate::actors) fn opened(&self, host: &str, link: Arc<dyn HostLink>) {
        self.set(host, |_| HostEntry::Open(link));
    }

    /// Notes that the host takes no requests. A host that was off and has not begun since stays off. Returns the moment of its silence.
    pub(in crate::actors) fn closed(&self, host: &str, reason: Reason) -> DateTime<Utc> {
        let mut since = self.env.now();
        self.set(host, |before| {
            since = before.and_then(HostEntry::silent_since).unwrap_or(since);
            HostEntry::Closed { reason, since, guests_ended: before.is_some_and(HostEntry::is_off) }
        });
        since
    }

    /// Notes that no guest runs on the host, which was closed at this moment. A host that has begun since then may run guests again, and this
    /// changes nothing.
    pub(in crate::actors) fn guests_ended(&self, host: &str, closed_at: DateTime<Utc>) {
        if let Some(HostEntry::Closed { since, guests_ended, .. }) = self.hosts.write().get_mut(host) {
            *guests_ended |= *since == closed_at;
        }
    }

    /// Notes that the host will take requests, or will be closed, soon.
    pub(in crate::actors) fn starting(&self, host: &str) {
        let now = self.env.now();
        self.set(host, |before| HostEntry::Starting { since: before.and_then(HostEntry::silent_since).unwrap_or(now) });
    }

    /// Forgets a host that an operator has removed from the cell.
    pub(in crate::actors) fn removed(&self, host: &str) {
        self.hosts.write().remove(host);
        self.changed.notify_waiters();
    }

    fn set(&self, host: &str, entry: impl FnOnce(Option<&HostEntry>) -> HostEntry) {
        let mut hosts = self.hosts.write();
        let entry = entry(hosts.get(host));
        hosts.insert(host.to_owned(), entry);
        drop(hosts);
        self.changed.notify_waiters();
    }

    /// Returns the link to a host, or why it takes no requests.
    pub fn open(&self, host: &str) -> Result<Arc<dyn HostLink>, HostUnreachable> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Open(link)) => Ok(link.clone()),
            Some(HostEntry::Closed { reason, .. }) => Err(HostUnreachable::NotDelivered(reason.clone())),
            Some(HostEntry::Starting { .. }) => Err(HostUnreachable::NotDelivered(STARTING.into())),
            None => Err(HostUnreachable::NotDelivered(not_here(host))),
        }
    }
}

impl HostEntry {
    fn is_open(&self) -> bool {
        matches!(self, HostEntry::Open(link) if link.standing().is_up())
    }

    fn is_off(&self) -> bool {
        matches!(self, HostEntry::Closed { guests_ended: true, .. })
    }

    /// Returns the moment since which the host has taken no requests; none while it takes them.
    fn silent_since(&self) -> Option<DateTime<Utc>> {
        match self {
            HostEntry::Open(link) => match link.standing() {
                Standing::Silent { since, .. } => Some(since),
                Standing::Up | Standing::Off(_) => None,
            },
            HostEntry::Closed { since, .. } | HostEntry::Starting { since } => Some(*since),
        }
    }
}

fn not_here(host: &str) -> Reason {
    reason!("there is no host {host} in this cell")
}

/// True if the whole wait for a reply is over. A link that ends the wait before knows that the host has died, and the request with it.
fn waited_in_vain(delivered_at: Instant) -> bool {
    stands(Guard::DeliveredAgain) && delivered_at.elapsed() >= ASK_AGAIN_AFTER
}

/// The hosts of all cells. Only controllers have this, no host does.
#[derive(Clone)]
pub struct CellHosts {
    cells: Arc<RwLock<BTreeMap<String, HostDirectory>>>,
    made_at: DateTime<Utc>,
}

impl CellHosts {
    /// Makes the hosts of no cell.
    pub fn new(env: &Env) -> CellHosts {
        CellHosts { cells: Arc::default(), made_at: env.now() }
    }

    /// Adds a cell's hosts under its name.
    pub fn add(&self, cell: &str, hosts: HostDirectory) {
        self.cells.write().insert(cell.to_owned(), hosts);
    }

    /// Returns a cell's hosts.
    pub fn of(&self, cell: &str) -> Option<HostDirectory> {
        self.cells.read().get(cell).cloned()
    }

    /// Waits until no host of any cell is starting.
    pub async fn until_started(&self) {
        let cells: Vec<HostDirectory> = self.cells.read().values().cloned().collect();
        for hosts in cells {
            hosts.until_started().await;
        }
    }

    fn reach(&self, cell: &str) -> Result<HostDirectory, HostUnreachable> {
        self.of(cell).ok_or_else(|| HostUnreachable::NotDelivered(no_cell(cell)))
    }
}

fn no_cell(cell: &str) -> Reason {
    reason!("there is no cell {cell}")
}

#[async_trait]
impl Hosts for CellHosts {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        self.reach(cell)?.until_reply(host, request).await
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.reach(cell)?.query(host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        match self.of(cell) {
            Some(hosts) => hosts.standing(host),
            None => Standing::Silent { since: self.made_at, reason: no_cell(cell) },
        }
    }
}

#[cfg(test)]
mod tests;
