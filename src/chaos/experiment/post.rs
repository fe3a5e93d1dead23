//! The post between controllers and hosts: each message takes time, and may be lost, repeated or late.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use parking_lot::Mutex;
use uuid::Uuid;

use super::fault::{Letter, What};
use super::random::Random;
use super::{Witness, short};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::virt::{HostUnreachable, Hosts};

/// A letter that waits for its request.
struct Armed {
    ticket: u64,
    /// Only a request of this saga.
    saga: Option<Uuid>,
    letter: Letter,
}

/// A letter whose request is under way; dropped once it has taken effect.
struct OnItsWay {
    letter: Letter,
    ticket: u64,
    post: Arc<Post>,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.post.state.lock().on_the_way.remove(&self.ticket);
    }
}

/// Carries all messages. It outlives the controllers.
pub struct Post {
    witness: Arc<dyn Witness>,
    max_delay_ms: u64,
    state: Mutex<State>,
}

struct State {
    random: Random,
    /// The letters for the next requests.
    letters: VecDeque<Armed>,
    /// The tickets of letters whose request is under way.
    on_the_way: BTreeSet<u64>,
    /// The last ticket.
    ticket: u64,
    /// The cells whose hosts cannot be reached.
    cut: BTreeSet<String>,
}

impl Post {
    /// Makes a post. A `max_delay_ms` of 0 means no delays.
    pub fn new(witness: Arc<dyn Witness>, seed: u64, max_delay_ms: u64) -> Post {
        let (letters, on_the_way, cut) = (VecDeque::new(), BTreeSet::new(), BTreeSet::new());
        let state = State { random: Random::new(seed, "post"), letters, on_the_way, ticket: 0, cut };
        Post { witness, max_delay_ms, state: Mutex::new(state) }
    }

    /// Arms a letter for the next request to a host, of this saga or of any. Returns the ticket to ask about it.
    pub fn arm(&self, saga: Option<Uuid>, letter: Letter) -> u64 {
        let mut state = self.state.lock();
        state.ticket += 1;
        let ticket = state.ticket;
        state.letters.push_back(Armed { ticket, saga, letter });
        ticket
    }

    /// Disarms a letter that has not met its request. A request under way continues.
    pub fn disarm(&self, ticket: u64) {
        self.state.lock().letters.retain(|armed| armed.ticket != ticket);
    }

    /// True while the letter waits for its request, or the request is under way.
    pub fn is_armed(&self, ticket: u64) -> bool {
        let state = self.state.lock();
        state.on_the_way.contains(&ticket) || state.letters.iter().any(|armed| armed.ticket == ticket)
    }

    fn letter_for(self: &Arc<Post>, operation: Uuid) -> Option<OnItsWay> {
        let mut state = self.state.lock();
        let at = state.letters.iter().position(|armed| armed.saga.is_none_or(|saga| saga == operation))?;
        let Armed { ticket, letter, .. } = state.letters.remove(at)?;
        state.on_the_way.insert(ticket);
        drop(state);
        Some(OnItsWay { letter, ticket, post: self.clone() })
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

    /// Ends all faults of the post.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.letters.clear();
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

/// Hosts behind the post.
pub struct PostedHosts {
    pub inner: Arc<dyn Hosts>,
    pub post: Arc<Post>,
}

impl PostedHosts {
    async fn lost<T>(&self, what: &str, deadline: Duration) -> Result<T, HostUnreachable> {
        tokio::time::sleep(deadline).await;
        Err(HostUnreachable::Unknown(format!("an experiment lost the {what}")))
    }

    async fn deliver(&self, cell: &str, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable> {
        let title = title(host, &request);
        self.post.witness.delivered(host, request.fence);
        let reply = self.inner.request(cell, host, request, deadline).await;
        self.post.witness.note(format!("host   {title} -> {}", outcome(&reply)));
        reply
    }

    /// Delivers a copy later. Nobody waits for its reply.
    fn again(&self, cell: &str, host: &str, request: HostRequest, after_ms: u64, letter: OnItsWay) {
        let copy = PostedHosts { inner: self.inner.clone(), post: self.post.clone() };
        let (cell, host) = (cell.to_owned(), host.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            // The sender is gone; only the effect matters.
            let _ = copy.deliver(&cell, &host, request, Duration::from_secs(60)).await;
            drop(letter);
        });
    }
}

#[async_trait]
impl Hosts for PostedHosts {
    async fn request(&self, cell: &str, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable> {
        let mut armed = self.post.letter_for(request.operation);
        let letter = armed.as_ref().map(|armed| armed.letter);
        if let Some(letter) = letter {
            self.post.witness.note(format!("post   {}: {}", title(host, &request), What::Message(letter)));
        }
        self.post.on_the_way().await;
        match letter {
            Some(Letter::LoseRequest) => {
                drop(armed);
                return self.lost("request", deadline).await;
            }
            Some(Letter::Late(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Some(Letter::Again(ms)) => {
                if let Some(armed) = armed.take() {
                    self.again(cell, host, request.clone(), ms, armed);
                }
            }
            Some(Letter::LoseReply) | None => {}
        }
        if self.post.is_cut(cell) {
            return self.lost("request", deadline).await;
        }
        let reply = self.deliver(cell, host, request, deadline).await;
        drop(armed);
        if letter == Some(Letter::LoseReply) || self.post.is_cut(cell) {
            return self.lost("reply", deadline).await;
        }
        self.post.on_the_way().await;
        reply
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        if self.post.is_cut(cell) {
            return self.lost("question", deadline).await;
        }
        self.inner.query(cell, host, query, deadline).await
    }

    async fn is_alive(&self, cell: &str, host: &str) -> bool {
        self.inner.is_alive(cell, host).await
    }
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
