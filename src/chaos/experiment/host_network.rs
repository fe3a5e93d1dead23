//! The network between controllers and hosts: each message takes time, and may be lost, repeated or late.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use parking_lot::Mutex;
use tokio::time::timeout;
use uuid::Uuid;

use super::fault::{MessageFault, What};
use super::{Witness, short};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::standing::Standing;
use crate::env::random::Random;
use crate::virt::{HostUnreachable, Hosts};

/// A fault that waits for its request.
struct Armed {
    ticket: u64,
    /// Only a request of this saga.
    saga: Option<Uuid>,
    fault: MessageFault,
}

/// A fault whose request is under way; dropped once it has taken effect.
struct OnItsWay {
    fault: MessageFault,
    ticket: u64,
    network: Arc<HostNetwork>,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.network.state.lock().on_the_way.remove(&self.ticket);
    }
}

/// Carries all messages. It outlives the controllers.
pub struct HostNetwork {
    witness: Arc<dyn Witness>,
    max_delay_ms: u64,
    state: Mutex<State>,
}

struct State {
    random: Random,
    /// The faults for the next requests.
    faults: VecDeque<Armed>,
    /// The tickets of faults whose request is under way.
    on_the_way: BTreeSet<u64>,
    /// The last ticket.
    ticket: u64,
    /// The cells whose hosts cannot be reached.
    cut: BTreeSet<String>,
}

impl HostNetwork {
    /// Makes a network. A `max_delay_ms` of 0 means no delays.
    pub fn new(witness: Arc<dyn Witness>, seed: u64, max_delay_ms: u64) -> HostNetwork {
        let (faults, on_the_way, cut) = (VecDeque::new(), BTreeSet::new(), BTreeSet::new());
        let state = State { random: Random::new(seed, "post"), faults, on_the_way, ticket: 0, cut };
        HostNetwork { witness, max_delay_ms, state: Mutex::new(state) }
    }

    /// Arms a fault for the next request to a host, of this saga or of any. Returns the ticket to ask about it.
    pub fn arm(&self, saga: Option<Uuid>, fault: MessageFault) -> u64 {
        let mut state = self.state.lock();
        state.ticket += 1;
        let ticket = state.ticket;
        state.faults.push_back(Armed { ticket, saga, fault });
        ticket
    }

    /// Disarms a fault that has not met its request. A request under way continues.
    pub fn disarm(&self, ticket: u64) {
        self.state.lock().faults.retain(|armed| armed.ticket != ticket);
    }

    /// True while the fault waits for its request, or the request is under way.
    pub fn is_armed(&self, ticket: u64) -> bool {
        let state = self.state.lock();
        state.on_the_way.contains(&ticket) || state.faults.iter().any(|armed| armed.ticket == ticket)
    }

    fn fault_for(self: &Arc<HostNetwork>, operation: Uuid) -> Option<OnItsWay> {
        let mut state = self.state.lock();
        let at = state.faults.iter().position(|armed| armed.saga.is_none_or(|saga| saga == operation))?;
        let Armed { ticket, fault, .. } = state.faults.remove(at)?;
        state.on_the_way.insert(ticket);
        drop(state);
        Some(OnItsWay { fault, ticket, network: self.clone() })
    }

    /// Disconnects a cell's hosts, or connects them again.
    pub fn cut(&self, cell: &str, cut: bool) {
        let mut state = self.state.lock();
        if cut {
            state.cut.insert(cell.to_owned());
        } else {
            state.cut.remove(cell);
        }
    }

    /// Ends all faults of the network.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.cut.clear();
    }

    fn is_cut(&self, cell: &str) -> bool {
        self.state.lock().cut.contains(cell)
    }

    async fn on_the_way(&self) {
        if self.max_delay_ms > 0 {
            let delay = Duration::from_millis(self.state.lock().random.below(self.max_delay_ms + 1));
            tokio::time::sleep(delay).await;
        }
    }
}

/// Hosts behind the network.
pub struct NetworkedHosts {
    pub inner: Arc<dyn Hosts>,
    pub network: Arc<HostNetwork>,
}

impl NetworkedHosts {
    async fn deliver(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let title = title(host, &request);
        self.network.witness.delivered(host, request.fence);
        let reply = self.inner.request(cell, host, request).await;
        self.network.witness.note(format!("host   {title} -> {}", outcome(&reply)));
        reply
    }

    /// Delivers a copy later. Nobody waits for its reply.
    fn again(&self, cell: &str, host: &str, request: HostRequest, after_ms: u64, fault: OnItsWay) {
        let copy = NetworkedHosts { inner: self.inner.clone(), network: self.network.clone() };
        let (cell, host) = (cell.to_owned(), host.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            // The sender is gone; only the effect matters.
            let _ = timeout(Duration::from_secs(60), copy.deliver(&cell, &host, request)).await;
            drop(fault);
        });
    }
}

#[async_trait]
impl Hosts for NetworkedHosts {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let mut armed = self.network.fault_for(request.operation);
        let fault = armed.as_ref().map(|armed| armed.fault);
        if let Some(fault) = fault {
            self.network.witness.note(format!("net    {}: {}", title(host, &request), What::Message(fault)));
        }
        self.network.on_the_way().await;
        match fault {
            Some(MessageFault::LoseRequest) => {
                drop(armed);
                return lost().await;
            }
            Some(MessageFault::Late(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Some(MessageFault::Again(ms)) => {
                if let Some(armed) = armed.take() {
                    self.again(cell, host, request.clone(), ms, armed);
                }
            }
            Some(MessageFault::LoseReply) | None => {}
        }
        if self.network.is_cut(cell) {
            return lost().await;
        }
        let reply = self.deliver(cell, host, request).await;
        drop(armed);
        if fault == Some(MessageFault::LoseReply) || self.network.is_cut(cell) {
            return lost().await;
        }
        self.network.on_the_way().await;
        reply
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        if self.network.is_cut(cell) {
            return timeout(deadline, lost()).await.unwrap_or_else(|_| Err(HostUnreachable::late(deadline)));
        }
        self.inner.query(cell, host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        self.inner.standing(cell, host).await
    }
}

/// Waits for what never comes. Whoever waits for it has a deadline.
async fn lost<T>() -> Result<T, HostUnreachable> {
    std::future::pending().await
}

fn title(host: &str, request: &HostRequest) -> String {
    let command = format!("{:?}", request.command);
    let name = command.split([' ', '(']).next().unwrap_or_default();
    let fence = request.fence;
    format!("{host} {name} {} ({}, {}) for {}", short(fence.server), fence.epoch, fence.attempt, short(request.operation))
}

fn outcome(reply: &Result<HostReply, HostUnreachable>) -> String {
    match reply {
        Ok(HostReply::Exported { manifest }) => {
            let disks: Vec<&str> = manifest.disks.iter().map(|disk| disk.sha256.get(..8).unwrap_or_default()).collect();
            format!("exported {}", disks.join(" "))
        }
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}
