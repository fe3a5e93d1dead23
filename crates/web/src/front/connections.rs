//! Limits the connections in all and per client, so that clients cannot use up the process's file descriptors.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The number of connections beyond the limit that are still served: a health check is answered on them, and other requests are told to
/// come back.
pub const RESERVE: usize = 32;

/// The minimum time between two log lines about refusals.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Counts per client. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Peers {
    most: usize,
    now: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Peers {
    /// Allows each client at most `most` at once.
    pub fn new(most: usize) -> Peers {
        Peers { most, now: Arc::default() }
    }

    /// Counts one more. None if the client has reached the limit.
    pub fn enter(&self, address: IpAddr) -> Option<Counted> {
        let client = client_of(address);
        let mut now = self.now.lock();
        let count = now.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { client, peers: self.clone() })
    }
}

/// Treats an IPv6 /64 as one client, because its addresses usually belong to one owner.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// A counted connection or request of a client. Dropping it ends the count.
pub struct Counted {
    client: IpAddr,
    peers: Peers,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut now = self.peers.now.lock();
        if let Some(count) = now.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                now.remove(&self.client);
            }
        }
    }
}

/// Counts connections. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Connections {
    most: usize,
    now: Arc<AtomicUsize>,
    peers: Peers,
    refused: Arc<Seldom>,
}

/// A counted connection.
pub struct Connected {
    now: Arc<AtomicUsize>,
    _peer: Option<Counted>,
    /// True if there are too many connections: only a health check is answered on this one.
    pub crowded: bool,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// Allows at most `most` connections at once, and `most_per_peer` per client.
    pub fn new(most: usize, most_per_peer: usize) -> Connections {
        Connections { most, now: Arc::default(), peers: Peers::new(most_per_peer), refused: Arc::default() }
    }

    /// Returns the maximum number of connections, with the reserve.
    pub fn in_all(&self) -> usize {
        self.most + RESERVE
    }

    /// Counts a connection. If it is refused, logs the reason. A proxy has no limit, because it brings many clients.
    pub fn enter(&self, address: IpAddr, is_proxy: bool) -> Option<Connected> {
        // Counts before it compares, so that two concurrent connections cannot both take the last place.
        let before = self.now.fetch_add(1, Ordering::Relaxed);
        let mut connected = Connected { now: self.now.clone(), _peer: None, crowded: before >= self.most };
        if before >= self.in_all() {
            self.refused.tell(&format!("{before} connections are open: more are refused ([http] max_connections)"));
            return None;
        }
        if !is_proxy {
            let peer = self.peers.enter(address);
            if peer.is_none() {
                let (address, most) = (client_of(address), self.peers.most);
                self.refused.tell(&format!("{address} has {most} connections: more are refused ([http] max_connections_per_peer)"));
                return None;
            }
            connected._peer = peer;
        }
        if connected.crowded {
            self.refused.tell(&format!("{before} connections are open: requests on more are refused ([http] max_connections)"));
        }
        Some(connected)
    }
}

/// Limits log lines that clients can provoke: writes a line now and then, with the number of suppressed lines.
struct Seldom {
    begun: Instant,
    /// The milliseconds from `begun` to the last line; 0 before the first line.
    last: AtomicU64,
    silent: AtomicU64,
}

impl Default for Seldom {
    fn default() -> Seldom {
        Seldom { begun: Instant::now(), last: AtomicU64::new(0), silent: AtomicU64::new(0) }
    }
}

impl Seldom {
    fn tell(&self, line: &str) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let last = self.last.load(Ordering::Relaxed);
        let due = last == 0 || now.saturating_sub(last) >= TELL_EVERY.as_millis() as u64;
        if due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            log::warn!(refused_before = self.silent.swap(0, Ordering::Relaxed); "{line}");
        } else {
            self.silent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_client_has_its_bound_and_others_go_on() {
        let connections = Connections::new(100, 2);
        let _held: Vec<_> = (0..2).map(|_| connections.enter(ip("192.0.2.1"), false).unwrap()).collect();
        assert!(connections.enter(ip("192.0.2.1"), false).is_none());
        assert!(connections.enter(ip("::ffff:192.0.2.1"), false).is_none(), "the same client by its other name");
        let other = connections.enter(ip("192.0.2.2"), false).unwrap();
        let _proxied: Vec<_> = (0..5).map(|_| connections.enter(ip("192.0.2.3"), true).unwrap()).collect();
        let (near, far) = (connections.enter(ip("2001:db8::1"), false).unwrap(), connections.enter(ip("2001:db8::2"), false).unwrap());
        assert!(connections.enter(ip("2001:db8::ffff:0:0:3"), false).is_none(), "a /64 is one client");
        assert!(connections.enter(ip("2001:db8:0:1::1"), false).is_some());
        drop((other, near, far));
        assert_eq!(connections.now.load(Ordering::Relaxed), 7, "refused ones are not counted");
        assert_eq!(connections.peers.now.lock().len(), 1, "who has none is forgotten");
    }

    #[test]
    fn past_the_limit_a_reserve_is_heard_and_no_more() {
        let connections = Connections::new(2, 1000);
        let held: Vec<_> = (0..2 + RESERVE).map(|_| connections.enter(ip("192.0.2.1"), false).unwrap()).collect();
        assert_eq!(held.iter().filter(|connected| connected.crowded).count(), RESERVE);
        assert!(connections.enter(ip("192.0.2.1"), false).is_none());
        drop(held);
        assert!(!connections.enter(ip("192.0.2.1"), false).unwrap().crowded);
    }
}
