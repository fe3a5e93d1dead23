//! Traces: spans of requests, operations and their steps, for a collector. An operation's spans are made of its journal when it ends, so they are
//! whole even if a process died in between: its successor tells the steps of both.

mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use cellshift_domain::trace::TraceContext;
pub use otlp::export;

/// The maximum number of spans that wait for the collector. Further ones are dropped, so that it holds nobody up.
const WAITING_MAX: usize = 8192;

/// A part of the work in a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    pub context: TraceContext,
    /// The span to which it belongs; none for the first of a trace.
    pub parent: Option<u64>,
    pub name: String,
    /// True for a request that came from outside.
    pub is_request: bool,
    pub begun_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    /// Facts by name, without empty ones.
    pub attributes: Vec<(&'static str, Value)>,
    /// The reason why it failed.
    pub error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// Takes spans for the collector, if there is one. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Queue>>);

struct Queue {
    sender: mpsc::Sender<Message>,
    /// Taken by the exporter.
    receiver: Mutex<Option<mpsc::Receiver<Message>>>,
    dropped: AtomicU64,
}

/// A message to the exporter.
enum Message {
    Span(Span),
    /// Everything before it is to be sent; the answer says that it was, or that it cannot be now.
    End(oneshot::Sender<()>),
}

impl Traces {
    /// Makes traces that wait for an exporter.
    pub fn on() -> Traces {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Traces(Some(Arc::new(Queue { sender, receiver: Mutex::new(Some(receiver)), dropped: AtomicU64::new(0) })))
    }

    /// True if spans are collected.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes spans. Never waits.
    pub fn tell(&self, spans: impl IntoIterator<Item = Span>) {
        let Some(queue) = &self.0 else { return };
        for span in spans {
            if queue.sender.try_send(Message::Span(span)).is_err() {
                queue.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns when the spans so far have been sent, or cannot be sent now.
    pub async fn ended(&self) {
        let Some(queue) = &self.0 else { return };
        let (answer, answered) = oneshot::channel();
        if queue.sender.send(Message::End(answer)).await.is_ok() {
            // An exporter that is gone has nothing to send.
            let _ = answered.await;
        }
    }

    fn take_receiver(&self) -> Option<mpsc::Receiver<Message>> {
        self.0.as_ref()?.receiver.lock().take()
    }

    /// Returns and clears the number of spans for which there was no room.
    fn take_dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |queue| queue.dropped.swap(0, Ordering::Relaxed))
    }
}
