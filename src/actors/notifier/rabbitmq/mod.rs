//! The publisher: sends the notifications of the outbox to RabbitMQ, where OpenStack's tools expect them.
//!
//! Promises: each notification is sent at least once, with the same message id, after those of the same server before it. The place is
//! written only when the broker has confirmed. While the broker is away notifications wait in their file, and nobody waits for them.

mod broker;
mod place;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::broker::{Broker, Trouble};
use self::place::Place;
use super::{Outbox, Record};
use crate::domain::notification::Envelope;
use crate::env::Env;

/// The maximum number of notifications that wait for the broker's confirms at once.
const BATCH_MAX: usize = 64;
/// The pauses after failures.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause between two looks at an idle connection.
const LOOK: Duration = Duration::from_secs(5);

/// The properties of the queues, which must be those that listeners are configured for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    Durable,
    Quorum,
    Transient,
}

/// Notifications on RabbitMQ, in the format of oslo.messaging.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rabbitmq {
    /// The brokers of one cluster, such as `amqp://user:password@host:5672/vhost`, tried in turn. If empty, nothing is published.
    pub urls: Vec<String>,
    /// The exchange, as `control_exchange` of listeners.
    pub exchange: String,
    /// The topic. With `.info` and `.error` it names the queues.
    pub topic: String,
    /// `durable` for listeners with `amqp_durable_queues`, `quorum` for those with `rabbit_quorum_queue`, `transient` for those with neither: the
    /// broker's restart then loses what it holds.
    pub queues: Queues,
    /// The seconds without a sign of life after which the broker counts as away.
    #[schemars(extend("x-unit" = "seconds"))]
    pub heartbeat: u16,
    /// The maximum size of the files that are kept while the broker is away. Beyond it the oldest notifications are given up.
    pub keep_bytes: u64,
}

impl Default for Rabbitmq {
    fn default() -> Rabbitmq {
        Rabbitmq {
            urls: Vec::new(),
            exchange: "nova".to_owned(),
            topic: "versioned_notifications".to_owned(),
            queues: Queues::Durable,
            heartbeat: 60,
            keep_bytes: 1 << 30,
        }
    }
}

/// True for a URL of a broker that this program can reach: with a host, by name or by an IPv4 address.
pub fn is_broker(url: &str) -> bool {
    let named = |url: &Url| url.host_str().is_some_and(|host| !host.is_empty() && !host.starts_with('['));
    url.starts_with("amqp://") && Url::parse(url).is_ok_and(|url| named(&url)) && url.parse::<lapin::uri::AMQPUri>().is_ok()
}

/// Publishes for ever, also after a panic: then from the kept place on.
pub async fn publish(mut publisher: Publisher) {
    loop {
        let again = publisher.parts.clone();
        // A task of its own, because its panic must not end this one.
        let Err(died) = actix_rt::spawn(publisher.run()).await else { return };
        log::error!("the publisher of notifications died, and goes on: {died}");
        again.env.metrics().rabbitmq_failed();
        sleep(PAUSE_MAX).await;
        publisher = loop {
            match Publisher::open(again.clone()).await {
                Ok(publisher) => break publisher,
                Err(error) => log::error!("the place of the published notifications cannot be read: {error}"),
            }
            sleep(PAUSE_MAX).await;
        };
    }
}

/// The parts of a publisher.
#[derive(Clone)]
pub struct PublisherParts {
    pub env: Env,
    pub outbox: Outbox,
    pub config: Rabbitmq,
    /// The file of notifications. The place is kept beside it.
    pub notifications: PathBuf,
}

/// Sends the notifications of an outbox.
pub struct Publisher {
    parts: PublisherParts,
    newest: watch::Receiver<u64>,
    place: Place,
    published: u64,
    /// The troubles since the last success that the log has told.
    troubles: HashSet<String>,
}

impl Publisher {
    /// Finds the place at which to go on: after the last confirmed notification, at first after the newest one.
    pub async fn open(parts: PublisherParts) -> io::Result<Publisher> {
        let (place, newest) = (Place::beside(&parts.notifications), parts.outbox.watch());
        let now = *newest.borrow();
        let kept = place.clone();
        // A lower newest number means that the file of notifications was replaced, or lost its last lines.
        let published = parts.env.run_blocking(move || kept.read()).await?.map_or(now, |published| published.min(now));
        let mut publisher = Publisher { parts, newest, place, published, troubles: HashSet::new() };
        publisher.go_on_after(published).await?;
        Ok(publisher)
    }

    async fn run(mut self) {
        let mut pause = PAUSE_FIRST;
        for turn in 0usize.. {
            let url = self.parts.config.urls[turn % self.parts.config.urls.len()].clone();
            let before = self.published;
            let trouble = match Broker::connect(&url, &self.parts.config).await {
                Ok(broker) => self.publish_over(&broker).await,
                Err(trouble) => trouble.to_string(),
            };
            self.tell(&url, &trouble);
            self.parts.env.metrics().rabbitmq_failed();
            self.note_waiting();
            if self.published > before {
                pause = PAUSE_FIRST;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Publishes until the connection fails, and returns the reason.
    async fn publish_over(&mut self, broker: &Broker) -> String {
        self.parts.env.metrics().rabbitmq_connected();
        loop {
            // Marked as seen before the file is read, so that a later one is not overslept.
            self.newest.borrow_and_update();
            let records = match self.parts.outbox.read(self.published, BATCH_MAX).await {
                Ok(records) => records,
                Err(error) => return format!("the notifications cannot be read: {error}"),
            };
            let Some(batch) = batch(&records) else {
                if !self.wait_for_more(broker).await {
                    return "the connection is lost".to_owned();
                }
                continue;
            };
            if let Err(trouble) = self.publish(broker, &batch).await {
                return trouble;
            }
            if !std::mem::take(&mut self.troubles).is_empty() {
                log::info!("notifications go to RabbitMQ again");
            }
        }
    }

    /// Waits for a notification, or until it is time to look at the connection. False if that is lost.
    async fn wait_for_more(&mut self, broker: &Broker) -> bool {
        if matches!(timeout(LOOK, self.newest.changed()).await, Ok(Err(_))) {
            // The notifier has ended with the service, and nothing comes any more.
            std::future::pending::<()>().await;
        }
        broker.is_open()
    }

    async fn publish(&mut self, broker: &Broker, batch: &Batch) -> Result<(), String> {
        broker.publish(&batch.notifications).await.map_err(|trouble: Trouble| trouble.to_string())?;
        // The files of those between are gone.
        let gap = batch.first.saturating_sub(self.published + 1);
        self.go_on_after(batch.last).await.map_err(|error| format!("the place cannot be written: {error}"))?;
        let metrics = self.parts.env.metrics();
        metrics.notifications_published(batch.notifications.len());
        metrics.notifications_given_up(gap);
        self.note_waiting();
        Ok(())
    }

    fn note_waiting(&self) {
        self.parts.env.metrics().notifications_waiting(self.newest.borrow().saturating_sub(self.published));
    }

    /// Keeps the place, and lets the files before it go.
    async fn go_on_after(&mut self, sequence: u64) -> io::Result<()> {
        let place = self.place.clone();
        self.parts.env.run_blocking(move || place.write(sequence)).await?;
        self.published = sequence;
        self.parts.outbox.note_published(sequence).await
    }

    /// Logs a trouble, once until a notification is published.
    fn tell(&mut self, url: &str, trouble: &str) {
        let broker = url.rsplit_once('@').map_or(url, |(_, place)| place);
        let line = format!("notifications wait, because RabbitMQ at {broker} does not take them: {trouble}");
        if self.troubles.len() < 16 && self.troubles.insert(line.clone()) {
            log::warn!("{line}");
        }
    }
}

/// The messages that are published together.
struct Batch {
    notifications: Vec<Envelope>,
    /// The numbers of the first and the last record that belong to it.
    first: u64,
    last: u64,
}

/// Returns the first notifications of different servers; none without records. A server's next notification waits for the confirm of its last
/// one, because a broker may refuse one and take the next. A record that cannot be read is passed over, because it can never be sent.
fn batch(records: &[Record]) -> Option<Batch> {
    let mut servers = BTreeSet::new();
    let first = records.first()?.sequence;
    let mut batch = Batch { notifications: Vec::new(), first, last: first };
    for record in records {
        match serde_json::from_str::<Envelope>(&record.line) {
            Ok(notification) => {
                if !servers.insert(notification.payload["uuid"].to_string()) {
                    break;
                }
                batch.notifications.push(notification);
            }
            Err(error) => log::error!("notification {} cannot be read, and RabbitMQ never gets it: {error}", record.sequence),
        }
        batch.last = record.sequence;
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_before_a_servers_second_notification() {
        let line = |sequence: u64, server: &str| {
            let (at, id) = ("2026-11-20 12:00:00.000000", "00000000-0000-0000-0000-000000000001");
            serde_json::json!({"sequence": sequence, "event_type": "e", "priority": "INFO", "publisher_id": "p", "timestamp": at, "message_id": id,
                "payload": {"uuid": server}})
            .to_string()
        };
        let record = |sequence: u64, line: String| Record { sequence, message_id: uuid::Uuid::nil(), line: line.into() };
        let readable = |(sequence, server)| record(sequence, line(sequence, server));
        let mut records: Vec<Record> = [(1, "a"), (2, "b"), (3, "a"), (4, "c")].map(readable).into();
        let sequences = |records: &[Record]| {
            let batch = batch(records)?;
            Some((batch.notifications.iter().map(|notification| notification.sequence).collect::<Vec<_>>(), batch.last))
        };
        assert_eq!(sequences(&records), Some((vec![1, 2], 2)));
        assert_eq!(sequences(&records[2..]), Some((vec![3, 4], 4)));
        assert_eq!(sequences(&[]), None);
        records.insert(0, record(0, "no JSON".to_owned()));
        assert_eq!(sequences(&records[..1]), Some((vec![], 0)), "nothing to send, but something to pass over");
    }
}
