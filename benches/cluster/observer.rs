//! Sees on the NATS server which hellos are accepted, and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::ConnectOptions;
use cellshift_nats::testkit::Broker;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::stage::{soon, url_of};

/// The answer to an accepted hello.
const ACCEPTED: &[u8] = b"\"Accepted\"";
/// The pause between two tries to connect: so short that the observer is there before the agents.
const RETRY: Duration = Duration::from_millis(2);
/// The place of the host's name in the subject of an answer to it, `cellshift.CELL.inbox.host.NAME.…`.
const NAME: usize = 4;

/// The observer, which reads in a task of its own.
pub struct Observer(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// When each host was accepted first.
    accepted: Mutex<BTreeMap<String, Instant>>,
    changed: Notify,
}

impl Observer {
    /// Connects as the user with all rights.
    pub async fn watch(broker: &Broker) -> Observer {
        let options = ConnectOptions::new().nkey(broker.observer.seed.expose().clone()).reconnect_delay_callback(|_| RETRY);
        let client = options.connect(url_of(broker)).await.expect("a connection");
        let mut answers = client.subscribe(broker.cell.answers_to_hosts()).await.expect("a subscription");
        client.flush().await.expect("the server knows of it");
        let inner: Arc<Inner> = Arc::default();
        let shared = inner.clone();
        tokio::spawn(async move {
            // The client would end with its last handle.
            let _client = client;
            while let Some(answer) = answers.next().await {
                let host = answer.subject.split('.').nth(NAME).filter(|_| answer.payload == ACCEPTED);
                if let Some(host) = host {
                    shared.accepted.lock().entry(host.to_owned()).or_insert_with(Instant::now);
                    shared.changed.notify_waiters();
                }
            }
        });
        Observer(inner)
    }

    /// Forgets what it has seen.
    pub fn forget(&self) {
        self.0.accepted.lock().clear();
    }

    /// Waits until so many hosts are accepted, and returns when they were, in order.
    pub async fn until(&self, number: usize) -> Vec<Instant> {
        let all = async {
            loop {
                let changed = self.0.changed.notified();
                let mut moments: Vec<Instant> = self.0.accepted.lock().values().copied().collect();
                if moments.len() >= number {
                    moments.sort_unstable();
                    return moments;
                }
                changed.await;
            }
        };
        soon("all hosts are accepted", all).await
    }
}
