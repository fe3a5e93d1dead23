//! The tickets with which hosts read and store bytes over HTTP: those of images at a controller, those of exports at another host's agent.
//! They are in the memory of this process alone: after a restart a host asks for another one.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use crate::domain::host_protocol::{Asker, NeighbourError};
use crate::domain::secret::Secret;
use crate::env::Env;

/// The path of a controller below which images' bytes are.
pub const IMAGES: &str = "/host-bytes/v1/images";

/// The direction that a ticket allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read the bytes.
    Read,
    /// To store the bytes.
    Write,
}

/// The reason why a ticket does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAllowed {
    /// The host may ask for another ticket.
    #[error("The ticket is not known here, or its time is over.")]
    Unknown,
    /// Another ticket of this kind would be refused too.
    #[error("The ticket is for other bytes, or for the other direction.")]
    Elsewhere,
}

/// The bounds of tickets.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The time for which a ticket opens. A transfer that has begun goes on.
    pub life: Duration,
    /// The maximum number of tickets of one host. A further one replaces its oldest.
    pub of_a_host: usize,
    /// The maximum number of all tickets. Further ones are refused until some are over.
    pub in_all: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { life: Duration::from_secs(600), of_a_host: 256, in_all: 65_536 }
    }
}

/// The tickets that this process has given out.
pub struct Tickets {
    env: Env,
    /// The URL below which the bytes are, as hosts reach it.
    folder: String,
    bounds: Bounds,
    held: Mutex<Held>,
}

struct Ticket {
    host: Asker,
    /// The image, or the server of an export.
    subject: Uuid,
    access: Access,
    /// The SHA-256 of the secret, so that no memory of this process opens anything.
    digest: [u8; 32],
    until: Instant,
}

#[derive(Default)]
struct Held {
    tickets: HashMap<Uuid, Ticket>,
    /// The tickets of each host, the oldest first.
    of_hosts: HashMap<Asker, VecDeque<Uuid>>,
}

impl Tickets {
    /// Makes an office without tickets, whose URLs begin with `folder`.
    pub fn new(env: Env, folder: String) -> Tickets {
        Tickets::bounded(env, folder, Bounds::default())
    }

    /// Makes an office with these bounds.
    pub fn bounded(env: Env, folder: String, bounds: Bounds) -> Tickets {
        Tickets { env, folder, bounds, held: Mutex::default() }
    }

    /// Gives the host a ticket for an image or a server's export: the URL of the bytes, and the secret that opens it. Whether the host may have
    /// it, the caller has judged; the ticket opens until its time is over, whatever becomes of the operation meanwhile.
    pub fn issue(&self, host: &Asker, subject: Uuid, access: Access) -> Result<(String, Secret<String>), NeighbourError> {
        // An id has 122 bits of the system's random numbers.
        let (id, key) = (self.env.uuid(), format!("{}{}", self.env.uuid().simple(), self.env.uuid().simple()));
        let until = Instant::now() + self.bounds.life;
        let ticket = Ticket { host: host.clone(), subject, access, digest: digest(&key), until };
        if !self.held.lock().add(id, ticket, &self.bounds) {
            return Err(NeighbourError::Unavailable("too many tickets are given out: ask again".into()));
        }
        Ok((format!("{}/{subject}", self.folder), Secret::new(format!("{}.{key}", id.simple()))))
    }

    /// Returns the host whose ticket this secret opens, if the ticket allows this access to this subject.
    pub fn check(&self, secret: &str, subject: Uuid, access: Access) -> Result<Asker, NotAllowed> {
        let (id, key) = secret.split_once('.').ok_or(NotAllowed::Unknown)?;
        let id = Uuid::parse_str(id).map_err(|_| NotAllowed::Unknown)?;
        let (digest, now) = (digest(key), Instant::now());
        let held = self.held.lock();
        let ticket = held.tickets.get(&id).filter(|ticket| ticket.until > now && is_same(&ticket.digest, &digest));
        let ticket = ticket.ok_or(NotAllowed::Unknown)?;
        match (ticket.subject, ticket.access) == (subject, access) {
            true => Ok(ticket.host.clone()),
            false => Err(NotAllowed::Elsewhere),
        }
    }
}

impl Held {
    /// Adds a ticket. False if there is no room.
    fn add(&mut self, id: Uuid, ticket: Ticket, bounds: &Bounds) -> bool {
        let now = Instant::now();
        if self.tickets.len() >= bounds.in_all {
            self.sweep(now);
        }
        let own = self.of_hosts.entry(ticket.host.clone()).or_default();
        let is_over = |tickets: &HashMap<Uuid, Ticket>, id: &Uuid| tickets.get(id).is_none_or(|ticket| ticket.until <= now);
        while own.len() >= bounds.of_a_host || own.front().is_some_and(|oldest| is_over(&self.tickets, oldest)) {
            let Some(oldest) = own.pop_front() else { break };
            self.tickets.remove(&oldest);
        }
        if self.tickets.len() >= bounds.in_all {
            return false;
        }
        own.push_back(id);
        self.tickets.insert(id, ticket);
        true
    }

    /// Forgets all tickets whose time is over.
    fn sweep(&mut self, now: Instant) {
        let Held { tickets, of_hosts } = self;
        tickets.retain(|_, ticket| ticket.until > now);
        of_hosts.retain(|_, ids| {
            ids.retain(|id| tickets.contains_key(id));
            !ids.is_empty()
        });
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Compares in constant time.
fn is_same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    left.iter().zip(right).fold(0, |difference, (left, right)| difference | (left ^ right)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Uuid = Uuid::from_u128(1);

    fn host(name: &str) -> Asker {
        Asker { cell: "cell1".into(), host: name.into() }
    }

    fn office(of_a_host: usize, in_all: usize) -> Tickets {
        let bounds = Bounds { of_a_host, in_all, ..Bounds::default() };
        Tickets::bounded(Env::system(), "http://cloud/folder".into(), bounds)
    }

    fn secret(tickets: &Tickets, name: &str) -> String {
        tickets.issue(&host(name), IMAGE, Access::Read).unwrap().1.expose().clone()
    }

    #[actix::test]
    async fn a_ticket_opens_one_image_in_one_direction() {
        let tickets = office(9, 9);
        let (url, secret) = tickets.issue(&host("host1"), IMAGE, Access::Read).unwrap();
        assert_eq!(url, format!("http://cloud/folder/{IMAGE}"));
        let check = |image, access| tickets.check(secret.expose(), image, access);
        assert_eq!(check(IMAGE, Access::Read), Ok(host("host1")));
        assert_eq!(check(IMAGE, Access::Write), Err(NotAllowed::Elsewhere));
        assert_eq!(check(Uuid::from_u128(2), Access::Read), Err(NotAllowed::Elsewhere));
    }

    #[actix::test]
    async fn a_wrong_secret_opens_nothing() {
        let tickets = office(9, 9);
        let secret = secret(&tickets, "host1");
        let (id, key) = secret.split_once('.').unwrap();
        let (other, shorter) = (key.chars().rev().collect::<String>(), &key[1..]);
        let others =
            ["", ".", "x.y", id, &format!("{id}."), &format!("{id}.{other}"), &format!("{id}.{shorter}"), &format!("{IMAGE}.{key}")];
        for wrong in others {
            assert_eq!(tickets.check(wrong, IMAGE, Access::Read), Err(NotAllowed::Unknown), "{wrong}");
        }
        assert_eq!(office(9, 9).check(&secret, IMAGE, Access::Read), Err(NotAllowed::Unknown), "another process does not know it");
    }

    #[actix::test]
    async fn a_ticket_opens_for_ten_minutes() {
        tokio::time::pause();
        let tickets = office(9, 9);
        let secret = secret(&tickets, "host1");
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(tickets.check(&secret, IMAGE, Access::Read), Ok(host("host1")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(tickets.check(&secret, IMAGE, Access::Read), Err(NotAllowed::Unknown));
    }

    #[actix::test]
    async fn a_hosts_newest_ticket_replaces_its_oldest() {
        let tickets = office(2, 9);
        let secrets = ["host1", "host2", "host1", "host1"].map(|name| secret(&tickets, name));
        let opens = secrets.map(|secret| tickets.check(&secret, IMAGE, Access::Read).is_ok());
        assert_eq!(opens, [false, true, true, true]);
    }

    #[actix::test]
    async fn tickets_in_all_are_bounded_until_some_are_over() {
        tokio::time::pause();
        let tickets = office(2, 2);
        let issue = |name: &str| tickets.issue(&host(name), IMAGE, Access::Read).is_ok();
        assert_eq!(["host1", "host2", "host3"].map(issue), [true, true, false]);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(issue("host3"));
        assert_eq!(tickets.held.lock().of_hosts.len(), 1, "hosts without tickets are forgotten");
    }
}
