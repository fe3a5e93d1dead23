//! The publisher: sends the notifications of the outbox to RabbitMQ, where OpenStack's tools expect them.
//!
//! Promises: each notification is sent at least once, with the same message id, after those of the same server before it. The place is
//! written only when the broker has confirmed. While the broker is away notifications wait in their file, and nobody waits for them.

mod broker;
mod place;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::broker::{Broker, Trouble};
use self::place::Place;
use super::Outbox;
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

/// True for a URL of a broker that this program can reach.
pub fn is_broker(url: &str) -> bool {
    url.starts_with("amqp://") && url.parse::<lapin::uri::AMQPUri>().is_ok()
}

/// Sends the notifications of an outbox.
pub struct Publisher {
    env: Env,
    outbox: Outbox,
    newest: watch::Receiver<u64>,
    config: Rabbitmq,
    place: Place,
    published: u64,
    /// The troubles since the last success that the log has told.
    told: HashSet<String>,
}

impl Publisher {
    /// Finds the place at which to go on: after the last confirmed notification, at first after the newest one.
    pub async fn open(env: Env, outbox: Outbox, config: Rabbitmq, notifications: &Path) -> io::Result<Publisher> {
        let (place, newest) = (Place::beside(notifications), outbox.watch());
        let now = *newest.borrow();
        let kept = place.clone();
        // A lower newest number means that the file of notifications was replaced, or lost its last lines.
        let published = env.run_blocking(move || kept.read()).await?.map_or(now, |published| published.min(now));
        let mut publisher = Publisher { env, outbox, newest, config, place, published, told: HashSet::new() };
        publisher.go_on_after(published).await?;
        Ok(publisher)
    }

    /// Publishes for ever.
    pub async fn run(mut self) {
        let mut pause = PAUSE_FIRST;
        for turn in 0usize.. {
            let url = self.config.urls[turn % self.config.urls.len()].clone();
            let before = self.published;
            let trouble = match Broker::connect(&url, &self.config).await {
                Ok(broker) => self.publish_over(&broker).await,
                Err(trouble) => trouble.to_string(),
            };
            self.tell(&url, &trouble);
            if self.published > before {
                pause = PAUSE_FIRST;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Publishes until the connection fails, and returns the reason.
    async fn publish_over(&mut self, broker: &Broker) -> String {
        loop {
            // Marked as seen before the file is read, so that a later one is not overslept.
            self.newest.borrow_and_update();
            let records = match self.outbox.read(self.published, BATCH_MAX).await {
                Ok(records) => records,
                Err(error) => return format!("the notifications cannot be read: {error}"),
            };
            let Some(batch) = batch(records.iter().map(|record| record.line.as_ref())) else {
                let changed = timeout(LOOK, self.newest.changed()).await;
                if !broker.is_open() {
                    return "the connection is lost".to_owned();
                }
                if matches!(changed, Ok(Err(_))) {
                    std::future::pending::<()>().await;
                }
                continue;
            };
            let sent = broker.publish(&batch).await.map_err(|trouble: Trouble| trouble.to_string());
            let last = batch.last().map_or(self.published, |notification| notification.sequence);
            let noted = match sent {
                Ok(()) => self.go_on_after(last).await.map_err(|error| format!("the place cannot be written: {error}")),
                Err(trouble) => Err(trouble),
            };
            match noted {
                Ok(()) if !std::mem::take(&mut self.told).is_empty() => log::info!("notifications go to RabbitMQ again"),
                Ok(()) => {}
                Err(trouble) => return trouble,
            }
        }
    }

    /// Keeps the place, and lets the files before it go.
    async fn go_on_after(&mut self, sequence: u64) -> io::Result<()> {
        let place = self.place.clone();
        self.env.run_blocking(move || place.write(sequence)).await?;
        self.published = sequence;
        self.outbox.note_published(sequence).await
    }

    /// Logs a trouble, once until a notification is published.
    fn tell(&mut self, url: &str, trouble: &str) {
        let broker = url.rsplit_once('@').map_or(url, |(_, place)| place);
        let line = format!("notifications wait, because RabbitMQ at {broker} does not take them: {trouble}");
        if self.told.len() < 16 && self.told.insert(line.clone()) {
            log::warn!("{line}");
        }
    }
}

/// Returns the first notifications of different servers; none if there is none. A server's next notification waits for the confirm of its last one,
/// because a broker may refuse one and take the next.
fn batch<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Vec<Envelope>> {
    let mut servers = BTreeSet::new();
    let notifications = lines.filter_map(|line| serde_json::from_str::<Envelope>(line).ok());
    let batch: Vec<Envelope> = notifications.take_while(|notification| servers.insert(notification.payload["uuid"].to_string())).collect();
    (!batch.is_empty()).then_some(batch)
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
        let lines = [line(1, "a"), line(2, "b"), line(3, "a"), line(4, "c")];
        let sequences = |from: usize| -> Vec<u64> {
            batch(lines[from..].iter().map(String::as_str)).into_iter().flatten().map(|notification| notification.sequence).collect()
        };
        assert_eq!(sequences(0), [1, 2]);
        assert_eq!(sequences(2), [3, 4]);
        assert!(sequences(4).is_empty());
    }
}
