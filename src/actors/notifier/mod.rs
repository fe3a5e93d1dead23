//! The notifier: numbers versioned notifications, keeps them in a file, and sends them to subscribers (`/ops/v1/notifications`).
//!
//! Promises: notifications are recorded in the order of their arrival; a number is answered after the line is written; numbers go on after
//! a restart; a repetition (same operation, step and event) within the last `window` is not recorded again. A subscriber gets every number
//! after the one that it names, without gaps as far as files are kept. A slow subscriber has a bounded queue; beyond it, it reads from the
//! file until it has caught up.

mod log;
pub mod rabbitmq;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, Message, WrapFuture};
use async_trait::async_trait;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use self::log::NotificationLog;
pub use self::log::Record;
use self::rabbitmq::Rabbitmq;
use crate::actors::address::Address;
use crate::actors::supervision::{DeathGuard, supervised};
use crate::domain::moment;
use crate::domain::notification::{Envelope, Notification};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::Env;
use crate::metrics::Level;
use crate::saga::notifications::{Notifications, NotifyError};

/// Records a notification. Answers its number.
#[derive(Message)]
#[rtype(result = "Result<u64, NotifyError>")]
pub struct Emit(pub Notification);

/// Asks for the notifications after a number; without a number, for the coming ones.
#[derive(Message)]
#[rtype(result = "Result<Page, NotifyError>")]
pub struct CatchUp {
    /// The last number seen.
    pub after: Option<u64>,
}

/// The answer to [`CatchUp`].
pub struct Page {
    /// The number before the first of `records`.
    pub after: u64,
    /// In order.
    pub records: Vec<Record>,
    /// The notifications after `records`. None if the file has more: ask again.
    pub live: Option<mpsc::Receiver<Record>>,
}

/// The options of the notifier (`[notifications]` in the configuration file).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NotifierConfig {
    /// The file; by default `notifications.jsonl` under the data directory. None keeps notifications in memory only.
    pub file: Option<PathBuf>,
    /// A file that would grow over this many bytes is rotated.
    pub rotate_bytes: u64,
    /// The number of rotated files that are kept.
    pub keep_files: usize,
    /// The number of recent notifications in memory. A repetition of one of them is not recorded again.
    pub window: usize,
    /// The number of records that one read of the file gives a subscriber.
    pub page: usize,
    /// The maximum number of records that wait for a subscriber.
    pub subscriber_queue: usize,
    /// The maximum number of subscribers.
    pub max_subscribers: usize,
    pub rabbitmq: Rabbitmq,
}

impl Default for NotifierConfig {
    fn default() -> NotifierConfig {
        NotifierConfig {
            file: None,
            rotate_bytes: 16 << 20,
            keep_files: 4,
            window: 2048,
            page: 256,
            subscriber_queue: 256,
            max_subscribers: 64,
            rabbitmq: Rabbitmq::default(),
        }
    }
}

/// The file of notifications for a publisher, which reads it beside the notifier.
#[derive(Clone)]
pub struct Outbox {
    env: Env,
    log: Arc<Mutex<NotificationLog>>,
}

impl Outbox {
    /// Returns the highest number as it rises.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.log.lock().watch()
    }

    /// Returns the notifications after a number, at most `limit`.
    pub async fn read(&self, after: u64, limit: usize) -> io::Result<Vec<Record>> {
        let log = Arc::clone(&self.log);
        self.env.run_blocking(move || log.lock().read(after, limit)).await
    }

    /// Notes that all notifications up to this number are published: their files need not be kept.
    pub async fn note_published(&self, sequence: u64) -> io::Result<()> {
        let log = Arc::clone(&self.log);
        self.env.run_blocking(move || log.lock().note_published(sequence)).await
    }
}

/// The actor.
pub struct Notifier {
    env: Env,
    config: NotifierConfig,
    log: Arc<Mutex<NotificationLog>>,
    subscribers: Vec<mpsc::Sender<Record>>,
    _guard: Option<DeathGuard>,
}

impl Notifier {
    /// Makes another incarnation over the same open file; `guard` reports its death.
    pub fn next_life(&self, guard: DeathGuard) -> Notifier {
        Notifier {
            env: self.env.clone(),
            config: self.config.clone(),
            log: Arc::clone(&self.log),
            subscribers: Vec::new(),
            _guard: Some(guard),
        }
    }

    /// Returns the file for a publisher.
    pub fn outbox(&self) -> Outbox {
        Outbox { env: self.env.clone(), log: Arc::clone(&self.log) }
    }

    /// Opens the file, and repairs the damage of a crash.
    pub async fn open(config: NotifierConfig, env: Env) -> io::Result<Notifier> {
        let for_log = config.clone();
        let log = env.run_blocking(move || NotificationLog::open(for_log)).await?;
        Ok(Notifier { env, config, log: Arc::new(Mutex::new(log)), subscribers: Vec::new(), _guard: None })
    }

    /// Runs `work` on the log, on a thread that may block.
    fn with_log<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut NotificationLog) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, NotifyError>> {
        let (env, log) = (self.env.clone(), Arc::clone(&self.log));
        // The log is whole between calls, and within a call only its last write can be missing. So it stays usable after a panic.
        let locked = move || work(&mut log.lock());
        Box::pin(async move { env.run_blocking(locked).await.map_err(|error| NotifyError::Storage(Reason::inside(error))) })
    }

    fn broadcast(&mut self, record: &Record) {
        self.subscribers.retain(|subscriber| subscriber.try_send(record.clone()).is_ok());
    }

    /// Returns a queue of the coming notifications.
    fn subscribe(&mut self) -> Result<mpsc::Receiver<Record>, NotifyError> {
        self.subscribers.retain(|subscriber| !subscriber.is_closed());
        if self.subscribers.len() >= self.config.max_subscribers {
            return Err(NotifyError::Unavailable(reason!("there are {} subscribers already", self.subscribers.len())));
        }
        let (sender, receiver) = mpsc::channel(self.config.subscriber_queue.max(1));
        self.subscribers.push(sender);
        Ok(receiver)
    }
}

impl Actor for Notifier {
    type Context = Context<Self>;
}

supervised!(Notifier);

fn envelope(notification: Notification, sequence: u64, timestamp: String) -> serde_json::Result<String> {
    serde_json::to_string(&Envelope {
        sequence,
        event_type: notification.event.event_type(),
        priority: notification.event.priority(),
        message_id: notification.message_id(),
        publisher_id: notification.publisher_id,
        timestamp,
        payload: notification.payload,
    })
}

impl Handler<Emit> for Notifier {
    // Atomic: the next message waits until this one is written. That makes the order.
    type Result = AtomicResponse<Self, Result<u64, NotifyError>>;

    fn handle(&mut self, Emit(notification): Emit, _: &mut Context<Self>) -> Self::Result {
        let timestamp = moment::stored(self.env.now());
        let message_id = notification.message_id();
        let written = self.with_log(move |log| match log.find(message_id) {
            Some(sequence) => Ok((sequence, None)),
            None => {
                let record = log.append(message_id, |sequence| envelope(notification, sequence, timestamp))?;
                Ok((record.sequence, Some(record)))
            }
        });
        AtomicResponse::new(Box::pin(written.into_actor(self).map(|written, actor, _| {
            let (sequence, record) = written?;
            if let Some(record) = record {
                actor.broadcast(&record);
            }
            Ok(sequence)
        })))
    }
}

impl Handler<CatchUp> for Notifier {
    type Result = AtomicResponse<Self, Result<Page, NotifyError>>;

    fn handle(&mut self, CatchUp { after }: CatchUp, _: &mut Context<Self>) -> Self::Result {
        let limit = self.config.page.max(1);
        let read = self.with_log(move |log| {
            let newest = log.newest();
            let after = after.map_or(newest, |after| after.min(newest));
            Ok((after, log.read(after, limit)?))
        });
        AtomicResponse::new(Box::pin(read.into_actor(self).map(move |read, actor, _| {
            let (after, records) = read?;
            let live = if records.len() < limit { Some(actor.subscribe()?) } else { None };
            Ok(Page { after, records, live })
        })))
    }
}

/// The time limit of a caller's wait for the notifier.
const PATIENCE: Duration = Duration::from_secs(30);

/// The notifier's address for other actors. Outlives a restart of the notifier.
#[derive(Clone)]
pub struct NotifierHandle {
    address: Address<Notifier>,
    /// The messages without an answer.
    in_flight: Level,
}

impl NotifierHandle {
    /// Makes a handle of the actor behind an address.
    pub fn new(address: Address<Notifier>) -> NotifierHandle {
        NotifierHandle { address, in_flight: Level::default() }
    }

    /// Counts the messages without an answer here.
    pub fn counting(self, in_flight: Level) -> NotifierHandle {
        NotifierHandle { in_flight, ..self }
    }

    /// Returns all notifications after number `after` that are kept; without a number, the coming ones. Reads nothing before the first
    /// [`Subscription::next`].
    pub fn subscribe(&self, after: Option<u64>) -> Subscription {
        Subscription { notifier: self.clone(), last: after, page: VecDeque::new(), live: None }
    }

    async fn ask<M>(&self, message: M) -> Result<M::Result, NotifyError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        Notifier: Handler<M>,
        <Notifier as Actor>::Context: actix::dev::ToEnvelope<Notifier, M>,
    {
        let _within = self.in_flight.enter();
        let answer = self.address.get().send(message).timeout(PATIENCE).await;
        answer.map_err(|error| NotifyError::Unavailable(reason!("{error}")))
    }
}

#[async_trait]
impl Notifications for NotifierHandle {
    async fn emit(&self, notification: Notification) -> Result<u64, NotifyError> {
        self.ask(Emit(notification)).await?
    }
}

/// A reader of notifications.
pub struct Subscription {
    notifier: NotifierHandle,
    last: Option<u64>,
    page: VecDeque<Record>,
    live: Option<mpsc::Receiver<Record>>,
}

impl Subscription {
    /// Waits for the next notification. None if the notifier has ended or takes no more subscribers: the reader may return later with the
    /// last number that it has seen.
    pub async fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.take() {
                return Some(record);
            }
            let Some(live) = &mut self.live else {
                self.read_page().await.ok()?;
                continue;
            };
            match live.recv().await {
                Some(record) if Some(record.sequence) > self.last => self.page.push_back(record),
                Some(_) => {}
                // Too slow, or the notifier was restarted: the file has the missed notifications.
                None => self.live = None,
            }
        }
    }

    /// Returns the next notification if it has come already.
    pub fn try_next(&mut self) -> Option<Record> {
        while self.page.is_empty() {
            let record = self.live.as_mut()?.try_recv().ok()?;
            self.page.extend(Some(record).filter(|record| Some(record.sequence) > self.last));
        }
        self.take()
    }

    /// Returns the next notification that is kept already; none if all of these are read.
    pub async fn next_kept(&mut self) -> Result<Option<Record>, NotifyError> {
        while self.page.is_empty() && self.live.is_none() {
            self.read_page().await?;
        }
        Ok(self.take())
    }

    fn take(&mut self) -> Option<Record> {
        let record = self.page.pop_front()?;
        self.last = Some(record.sequence);
        Some(record)
    }

    async fn read_page(&mut self) -> Result<(), NotifyError> {
        let page = self.notifier.ask(CatchUp { after: self.last }).await??;
        (self.last, self.page, self.live) = (Some(page.after), page.records.into(), page.live);
        Ok(())
    }
}
