//! The messages that reach a host: each is handed to the host's end in a task of its own, and answered. The number of tasks is bounded;
//! beyond it the host is busy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Message, Subject, Subscriber};
use bytes::Bytes;
use cellshift_domain::host_protocol::{HostQuery, HostReply, HostRequest};
use cellshift_host::link::{Delivered, HostEnd};
use futures::StreamExt;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use crate::connection::Connection;
use crate::freshness::Freshness;
use crate::wire::{RELEASE, Stamp, decode, encode_answer};

/// The maximum number of requests at work. A host has a bound of its own, which is lower.
const REQUESTS_MAX: usize = 1_024;
/// The maximum number of messages whose senders wait for an answer.
const WAITING_MAX: usize = 2_048;

/// A reply that becomes known when the request ends.
type PendingReply = watch::Receiver<Option<Delivered<HostReply>>>;

/// Takes the messages of one life of a host.
pub(crate) struct Desk {
    connection: Arc<Connection>,
    end: Arc<dyn HostEnd>,
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The requests at work by their bytes: a controller that waits for one in vain sends the same bytes again.
    at_work: Mutex<HashMap<Bytes, PendingReply>>,
    freshness: Mutex<Freshness>,
    late: AtomicU64,
    closing: watch::Sender<bool>,
}

impl Desk {
    pub fn new(connection: Arc<Connection>, end: Arc<dyn HostEnd>) -> Arc<Desk> {
        Arc::new(Desk {
            connection,
            end,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            at_work: Mutex::default(),
            freshness: Mutex::default(),
            late: AtomicU64::new(0),
            closing: watch::Sender::new(false),
        })
    }

    /// Returns the number of queries that came after their senders had stopped waiting.
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Takes requests until the desk is closed.
    pub async fn take_requests(self: Arc<Desk>, mut messages: Subscriber) {
        while let Some(message) = self.next(&mut messages).await {
            let Some(reply_to) = message.reply.clone() else { continue };
            if let Err(refusal) = self.take_request(&message, reply_to.clone()) {
                self.answer(reply_to, refusal).await;
            }
        }
    }

    /// Takes queries until the desk is closed.
    pub async fn take_queries(self: Arc<Desk>, mut messages: Subscriber) {
        while let Some(message) = self.next(&mut messages).await {
            let Some(reply_to) = message.reply.clone() else { continue };
            if let Err(refusal) = self.take_query(&message, reply_to.clone()) {
                self.answer(reply_to, refusal).await;
            }
        }
    }

    /// Ends the taking of messages.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns the next message; none once the desk is closed. Then the server learns that nobody listens any more.
    async fn next(&self, messages: &mut Subscriber) -> Option<Message> {
        let mut closing = self.closing.subscribe();
        let closed = async { closing.wait_for(|closing| *closing).await.is_ok() };
        tokio::select! {
            message = messages.next() => return message,
            _ = closed => {}
        }
        if let Err(error) = messages.unsubscribe().await {
            log::debug!("the server may not have learned that nobody listens: {error}");
        }
        None
    }

    /// Waits until all requests at work have ended, at most for `grace`. True if none is left.
    pub async fn idle(&self, grace: Duration) -> bool {
        let all = u32::try_from(REQUESTS_MAX).unwrap_or(u32::MAX);
        timeout(grace, self.requests.acquire_many(all)).await.is_ok()
    }

    /// Begins or joins the request, and answers it when it has ended. A request is never late: its fence makes it harmless.
    fn take_request(self: &Arc<Desk>, message: &Message, reply_to: Subject) -> Result<(), Delivered<HostReply>> {
        let stamp = Stamp::read(message.headers.as_ref()).ok_or_else(|| not_known(message))?;
        let request: HostRequest = decode(&message.payload).ok_or_else(|| not_known(message))?;
        let waits = self.waiting.clone().try_acquire_owned().map_err(|_| Delivered::Busy)?;
        let mut reply = self.begin_or_join(message.payload.clone(), request)?;
        let desk = self.clone();
        tokio::spawn(async move {
            let _waits = waits;
            let reply = async { reply.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone()) };
            // The sender waits no longer, and the server lets nobody answer much later.
            if let Ok(reply) = timeout(stamp.patience, reply).await {
                // Without a reply, the task has died.
                desk.answer(reply_to, reply.unwrap_or(Delivered::CannotTell)).await;
            }
        });
        Ok(())
    }

    /// Returns the reply to come of the same request, or begins the request. It runs on when nobody waits for it any more.
    fn begin_or_join(self: &Arc<Desk>, bytes: Bytes, request: HostRequest) -> Result<PendingReply, Delivered<HostReply>> {
        let mut at_work = self.at_work.lock();
        if let Some(reply) = at_work.get(&bytes) {
            return Ok(reply.clone());
        }
        let room = self.requests.clone().try_acquire_owned().map_err(|_| Delivered::Busy)?;
        let (sender, reply) = watch::channel(None);
        at_work.insert(bytes.clone(), reply.clone());
        let ending = Ending { desk: self.clone(), bytes };
        tokio::spawn(async move {
            let (_room, ending) = (room, ending);
            sender.send_replace(Some(ending.desk.end.request(request).await));
        });
        Ok(reply)
    }

    /// Answers the query, unless it comes too late.
    fn take_query(self: &Arc<Desk>, message: &Message, reply_to: Subject) -> Result<(), Delivered<()>> {
        let stamp = Stamp::read(message.headers.as_ref()).ok_or_else(|| not_known(message))?;
        if self.freshness.lock().is_late(&stamp, self.connection.clock()) {
            self.late.fetch_add(1, Ordering::Relaxed);
            log::debug!("a query came after its sender had stopped waiting; it is dropped");
            return Ok(());
        }
        let query: HostQuery = decode(&message.payload).ok_or_else(|| not_known(message))?;
        let waits = self.waiting.clone().try_acquire_owned().map_err(|_| Delivered::Busy)?;
        let desk = self.clone();
        tokio::spawn(async move {
            let _waits = waits;
            // A query that acts is not broken off.
            let (acts, began) = (query.acts(), Instant::now());
            let answer = desk.end.query(query);
            let answer = if acts { Ok(answer.await) } else { timeout(stamp.patience, answer).await };
            if let (Ok(answer), true) = (answer, began.elapsed() <= stamp.patience) {
                desk.answer(reply_to, answer).await;
            }
        });
        Ok(())
    }

    async fn answer<T: Serialize>(&self, reply_to: Subject, answer: Delivered<T>) {
        if let Err(reason) = self.connection.publish(reply_to.into_string(), encode_answer(answer)).await {
            log::debug!("an answer was not sent: {reason}");
        }
    }
}

/// Answers a message that this release does not know, and writes a line to the log.
fn not_known<T>(message: &Message) -> Delivered<T> {
    log::warn!("a message on {} is not known to this release ({} bytes)", message.subject, message.payload.len());
    Delivered::NotKnown { release: RELEASE.to_owned() }
}

/// Forgets a request when its task ends, also by a panic.
struct Ending {
    desk: Arc<Desk>,
    bytes: Bytes,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.desk.at_work.lock().remove(&self.bytes);
    }
}
