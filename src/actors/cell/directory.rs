//! The ways to the hosts of a cell: a handle of the addresses that the supervisor of the hosts keeps current, and a handle of all cells' directories
//! for sagas.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Addr, Handler, Message};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tokio::sync::{Notify, Semaphore, oneshot};
use uuid::Uuid;

use crate::actors::compute_host::{Ask, ComputeHost, Crash, Deliver, GuestWrite, ResumeGuests};
use crate::actors::supervision::requests::{self, Unanswered};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::span::span;
use crate::domain::standing::{OffBy, Standing};
use crate::env::Env;
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
    /// Takes this many requests at once. `lost` is the moment from which on the address leads nowhere.
    Open { address: Addr<ComputeHost>, bound: Arc<Semaphore>, most: usize, lost: Arc<OnceLock<DateTime<Utc>>> },
    /// Takes no requests, for this reason.
    Closed { reason: Reason, since: DateTime<Utc>, guests_ended: bool },
    /// Will take requests, or will be closed, soon.
    Starting { since: DateTime<Utc> },
}

const STARTING: &str = "its cell is starting";

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

    /// Returns the host's standing. A host whose power was cut is off once its guests have ended; every other host that takes no requests is
    /// silent. The moment of its silence stays until it takes requests again.
    pub fn standing(&self, host: &str) -> Standing {
        let silent = |since: DateTime<Utc>, reason: Reason| Standing::Silent { since, reason };
        match self.hosts.read().get(host) {
            Some(entry) if entry.is_open() => Standing::Up,
            Some(HostEntry::Open { lost, .. }) => silent(*lost.get_or_init(|| self.env.now()), "it has just died".into()),
            Some(HostEntry::Closed { guests_ended: true, .. }) => Standing::Off(OffBy::Host),
            Some(HostEntry::Closed { reason, since, .. }) => silent(*since, reason.clone()),
            Some(HostEntry::Starting { since }) => silent(*since, STARTING.into()),
            None => silent(self.made_at, not_here(host)),
        }
    }

    /// Returns the number of the host's requests without an answer, waiting or at work. None while it takes none.
    pub fn at_work(&self, host: &str) -> Option<usize> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Open { bound, most, .. }) => Some(most.saturating_sub(bound.available_permits())),
            _ => None,
        }
    }

    /// Returns the reason why a host takes no requests.
    pub fn reason(&self, host: &str) -> Option<Reason> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Closed { reason, .. }) => Some(reason.clone()),
            Some(HostEntry::Starting { .. }) => Some(STARTING.into()),
            Some(HostEntry::Open { .. }) | None => None,
        }
    }

    /// Waits until no host is starting.
    pub async fn until_started(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Subscribes before the look, so that no change is missed.
            changed.as_mut().enable();
            let starting = |entry: &HostEntry| matches!(entry, HostEntry::Starting { .. });
            if !self.hosts.read().values().any(starting) {
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

    /// Delivers a request and waits for the reply until the deadline. A delivered request runs on after the deadline.
    pub async fn request(&self, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable> {
        let ((address, bound), _within) = (self.open(host)?, self.in_flight.enter());
        let permit = bound.try_acquire_owned().map_err(|_| unreachable(host, Unanswered::Busy))?;
        self::request(host, &address, deadline, |reply| Deliver { request, reply, permit }).await
    }

    /// Delivers a query and waits for the answer until the deadline.
    pub async fn query(&self, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        let ((address, _), _within) = (self.open(host)?, self.in_flight.enter());
        request(host, &address, deadline, |answer| Ask { query, answer }).await
    }

    /// Makes a running simulated guest write bytes to its disks and volumes. The inner error says why it does not.
    pub async fn guest_write(
        &self,
        host: &str,
        server: Uuid,
        bytes: Vec<u8>,
        deadline: Duration,
    ) -> Result<Result<(), Reason>, HostUnreachable> {
        let (address, _) = self.open(host)?;
        request(host, &address, deadline, |done| GuestWrite { server, bytes, done }).await
    }

    /// Makes the host ask at once for interrupted guests. Answered when each runs or may not run now.
    pub async fn resume_guests(&self, host: &str, deadline: Duration) -> Result<(), HostUnreachable> {
        let (address, _) = self.open(host)?;
        request(host, &address, deadline, |done| ResumeGuests { done }).await
    }

    /// Makes the host panic. For tests and experiments.
    pub fn crash(&self, host: &str) -> Result<(), HostUnreachable> {
        requests::deliver(&self.open(host)?.0, Crash).map_err(|reason| unreachable(host, reason))
    }

    /// Notes that the host takes at most `bound` requests at once at this address.
    pub(in crate::actors) fn opened(&self, host: &str, address: Addr<ComputeHost>, bound: usize) {
        let entry = HostEntry::Open { address, bound: Arc::new(Semaphore::new(bound)), most: bound, lost: Arc::default() };
        self.set(host, |_| entry);
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

    fn set(&self, host: &str, entry: impl FnOnce(Option<&HostEntry>) -> HostEntry) {
        let mut hosts = self.hosts.write();
        let entry = entry(hosts.get(host));
        hosts.insert(host.to_owned(), entry);
        drop(hosts);
        self.changed.notify_waiters();
    }

    fn open(&self, host: &str) -> Result<(Addr<ComputeHost>, Arc<Semaphore>), HostUnreachable> {
        match self.hosts.read().get(host) {
            Some(HostEntry::Open { address, bound, .. }) => Ok((address.clone(), bound.clone())),
            Some(HostEntry::Closed { reason, .. }) => Err(HostUnreachable::NotDelivered(reason.clone())),
            Some(HostEntry::Starting { .. }) => Err(HostUnreachable::NotDelivered(STARTING.into())),
            None => Err(HostUnreachable::NotDelivered(not_here(host))),
        }
    }
}

impl HostEntry {
    fn is_open(&self) -> bool {
        matches!(self, HostEntry::Open { address, .. } if address.connected())
    }

    fn is_off(&self) -> bool {
        matches!(self, HostEntry::Closed { guests_ended: true, .. })
    }

    /// Returns the moment since which the host has taken no requests; none while it takes them.
    fn silent_since(&self) -> Option<DateTime<Utc>> {
        match self {
            HostEntry::Open { lost, .. } => lost.get().copied(),
            HostEntry::Closed { since, .. } | HostEntry::Starting { since } => Some(*since),
        }
    }
}

fn not_here(host: &str) -> Reason {
    reason!("there is no host {host} in this cell")
}

/// Delivers a message to a host and waits for the answer until the deadline.
async fn request<M, T>(
    host: &str,
    address: &Addr<ComputeHost>,
    deadline: Duration,
    message: impl FnOnce(oneshot::Sender<T>) -> M,
) -> Result<T, HostUnreachable>
where
    M: Message<Result = ()> + Send + 'static,
    ComputeHost: Handler<M>,
    actix::Context<ComputeHost>: ToEnvelope<ComputeHost, M>,
{
    requests::request(address, deadline, message).await.map_err(|reason| unreachable(host, reason))
}

fn unreachable(host: &str, reason: Unanswered) -> HostUnreachable {
    match reason {
        Unanswered::Busy => HostUnreachable::NotDelivered(reason!("host {host} is busy")),
        Unanswered::Dead => HostUnreachable::NotDelivered(reason!("host {host} has just died")),
        Unanswered::Dropped => HostUnreachable::Unknown("it died with the request".into()),
        Unanswered::Late(deadline) => {
            let waited = span(TimeDelta::from_std(deadline).unwrap_or(TimeDelta::MAX));
            HostUnreachable::Unknown(reason!("no reply within {waited}"))
        }
    }
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
    async fn request(&self, cell: &str, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable> {
        self.reach(cell)?.request(host, request, deadline).await
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
mod tests {
    use super::*;
    use crate::metrics::Mailbox;

    #[test]
    fn silence_is_told_once() {
        let refusal = |reason| unreachable("compute1", reason).to_string();
        assert_eq!(refusal(Unanswered::Late(Duration::from_millis(1))), "the host did not answer: no reply within 1 ms");
        assert_eq!(refusal(Unanswered::Dropped), "the host did not answer: it died with the request");
    }
    /// Makes a directory with one host, which has closed, and returns the moment.
    fn closed() -> (HostDirectory, DateTime<Utc>) {
        let env = Env::system();
        let hosts = HostDirectory::counting(env.metrics().messages(Mailbox::Host), &env);
        let closed_at = hosts.closed("compute1", "it died too often".into());
        (hosts, closed_at)
    }

    fn silent(since: DateTime<Utc>, reason: &'static str) -> Standing {
        Standing::Silent { since, reason: reason.into() }
    }

    #[test]
    fn the_moment_of_silence_stays_until_a_host_opens() {
        let (hosts, since) = closed();
        assert_eq!(hosts.standing("compute1"), silent(since, "it died too often"));
        hosts.starting("compute1");
        assert_eq!(hosts.standing("compute1"), silent(since, STARTING));
        assert_eq!(hosts.closed("compute1", "its files cannot be read".into()), since);
        assert_eq!(hosts.standing("compute1"), silent(since, "its files cannot be read"));
        assert!(matches!(hosts.standing("elsewhere"), Standing::Silent { .. }), "a host that is not known may run guests");
    }

    #[test]
    fn a_host_is_off_by_the_end_of_its_latest_cut() {
        let (hosts, since) = closed();
        hosts.guests_ended("compute1", since - TimeDelta::seconds(1));
        assert_eq!(hosts.standing("compute1"), silent(since, "it died too often"), "an earlier cut says nothing of this one");
        hosts.guests_ended("compute1", since);
        assert_eq!(hosts.standing("compute1"), Standing::Off(OffBy::Host));
        hosts.closed("compute1", "it is powered off".into());
        assert_eq!(hosts.standing("compute1"), Standing::Off(OffBy::Host), "it has not begun since");
        hosts.starting("compute1");
        assert_eq!(hosts.standing("compute1"), silent(since, STARTING));
    }
}
