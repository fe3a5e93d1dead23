//! The connection of one process to the NATS of one cell. It reconnects by itself, for ever; what is asked for meanwhile is refused at
//! once, because the client would keep it and send it after the reconnect.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, ClientError, ConnectOptions, Event, Message, Request, Subscriber};
use bytes::Bytes;
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_domain::secret::Secret;
use cellshift_env::Env;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::subjects::CONTROLLERS;
use crate::wire::Stamp;

/// The time limit of one try to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the second try to connect, which doubles with each further try.
const FIRST_PAUSE_MS: u64 = 100;
/// The longest pause between two tries to connect.
const LONGEST_PAUSE_MS: u64 = 5_000;
/// The number of messages that wait in the process for each subject before messages are lost.
const WAITING_MAX: usize = 4_096;

/// The reason why no connection can be tried, or a subject cannot be listened to.
#[derive(Debug, thiserror::Error)]
#[error("the connection to NATS ({servers}) cannot be used: {reason}")]
pub struct ConnectionError {
    servers: String,
    reason: String,
}

/// The place of a cell's NATS, and how to log in there.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The addresses of the cell's NATS servers: `nats://10.0.0.1:4222`, or `tls://…` to insist on TLS.
    pub servers: Vec<String>,
    /// The seed of the user's key ([`crate::credentials`]); none for a server without users.
    pub seed: Option<Secret<String>>,
    /// A file with the certificates of the authorities that the server's certificate may have. With it, the connection needs TLS.
    pub authorities: Option<PathBuf>,
    /// The name of the process, for the server's log.
    pub name: String,
    /// The beginning of the subjects of replies ([`crate::HostAddress::inbox`], [`crate::CellAddress::inbox`]).
    pub inbox: String,
    /// The pause between two looks whether the server still answers. Three times this, and the connection counts as lost.
    pub ping_interval: Duration,
}

/// The state of the connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionState {
    /// True while the process is connected.
    pub connected: bool,
    /// How often it has connected.
    pub connects: u64,
    /// How often it has lost the connection.
    pub losses: u64,
    /// The words in which the server last refused something, or the last try to connect ended.
    pub trouble: Option<String>,
}

/// The reason why a message has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unanswered {
    /// Nobody has got the message, or will.
    #[error("{0}")]
    NotDelivered(Reason),
    /// Nobody has got the message, or will, because nobody listens to its subject.
    #[error("nobody listens on NATS")]
    NobodyListens,
    /// Somebody may have got the message, or may get it later.
    #[error("{0}")]
    Unknown(Reason),
}

/// The connection of one process to the NATS of one cell.
pub struct Connection {
    client: Client,
    states: watch::Receiver<ConnectionState>,
    servers: String,
    /// The id under which the messages of this connection tell when they were sent.
    sender: Uuid,
    began: Instant,
}

impl Connection {
    /// Begins to connect, and returns without waiting for the server. Fails if an address or a key cannot be read.
    pub async fn open(env: &Env, options: ConnectionOptions) -> Result<Arc<Connection>, ConnectionError> {
        let servers = options.servers.join(", ");
        let failed = |reason: String| ConnectionError { servers: servers.clone(), reason };
        if let Some(seed) = &options.seed {
            // The client would report a wrong seed as a refusal of the server, for ever.
            nkeys::KeyPair::from_seed(seed.expose()).map_err(|error| failed(format!("the key cannot be read: {error}")))?;
        }
        let (sender, states) = watch::channel(ConnectionState::default());
        let book = Book { states: sender, servers: servers.clone() };
        let random = Mutex::new(env.random());
        let mut connect = ConnectOptions::new()
            .name(&options.name)
            .custom_inbox_prefix(&options.inbox)
            .retry_on_initial_connect()
            .connection_timeout(CONNECT_PATIENCE)
            .ping_interval(options.ping_interval)
            .subscription_capacity(WAITING_MAX)
            .reconnect_delay_callback(move |tries| pause_before(tries, |bound| random.lock().below(bound)))
            .event_callback(move |event| {
                book.note(&event);
                ready(())
            });
        if let Some(seed) = options.seed {
            connect = connect.nkey(seed.expose().clone());
        }
        if let Some(authorities) = options.authorities {
            connect = connect.require_tls(true).add_root_certificates(authorities);
        }
        let client = connect.connect(&options.servers).await.map_err(|error| failed(error.to_string()))?;
        Ok(Arc::new(Connection { client, states, servers, sender: env.uuid(), began: Instant::now() }))
    }

    /// Returns the states of the connection, from now on.
    pub fn states(&self) -> watch::Receiver<ConnectionState> {
        self.states.clone()
    }

    /// True while the process is connected, as far as it knows: a cut network is noticed after [`ConnectionOptions::ping_interval`].
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns when the state fulfils the condition.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&ConnectionState) -> bool) {
        let client_has_ended = self.states().wait_for(condition).await.is_err();
        if client_has_ended {
            // The client ends with its process only.
            std::future::pending().await
        }
    }

    /// The time since the connection was opened, by this process's monotonic clock.
    pub(crate) fn clock(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sends a message and waits for the answer, at most for `patience`.
    pub(crate) async fn ask(&self, subject: String, payload: Bytes, patience: Duration) -> Result<Message, Unanswered> {
        let losses = self.states.borrow().losses;
        self.check().map_err(Unanswered::NotDelivered)?;
        let request = Request::new().headers(self.stamp(patience).headers()).payload(payload).timeout(None);
        let answer = timeout(patience, self.client.send_request(subject, request));
        tokio::select! {
            answer = answer => match answer {
                Ok(Ok(message)) => Ok(message),
                Ok(Err(error)) => Err(match error.kind() {
                    RequestErrorKind::NoResponders => Unanswered::NobodyListens,
                    RequestErrorKind::InvalidSubject => Unanswered::NotDelivered(reason!("{}", Inside(error))),
                    _ => Unanswered::Unknown(reason!("the connection to NATS ended: {}", Inside(error))),
                }),
                Err(_) => Err(Unanswered::Unknown(reason!("no answer came within {} ms", patience.as_millis()))),
            },
            () = self.wait_for(|state| state.losses > losses) => {
                Err(Unanswered::Unknown(reason!("the connection to NATS was lost before the answer came")))
            }
        }
    }

    /// Sends a message that has no answer.
    pub(crate) async fn publish(&self, subject: String, payload: Bytes) -> Result<(), Reason> {
        self.check()?;
        let headers = self.stamp(Duration::ZERO).headers();
        self.client.publish_with_headers(subject, headers, payload).await.map_err(|error| reason!("{}", Inside(error)))
    }

    /// Listens to a subject, through all reconnects.
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, ConnectionError> {
        self.client.subscribe(subject).await.map_err(|error| self.failed(&error))
    }

    /// Listens to a subject together with the other controllers: each message reaches one of them.
    pub(crate) async fn share(&self, subject: String) -> Result<Subscriber, ConnectionError> {
        self.client.queue_subscribe(subject, CONTROLLERS.to_owned()).await.map_err(|error| self.failed(&error))
    }

    fn check(&self) -> Result<(), Reason> {
        if self.is_connected() {
            return Ok(());
        }
        let trouble = self.states.borrow().trouble.clone().map(|trouble| format!(", {trouble}")).unwrap_or_default();
        Err(reason!("there is no connection to the cell's NATS {}", Inside(format!("({}{trouble})", self.servers))))
    }

    fn stamp(&self, patience: Duration) -> Stamp {
        Stamp { sender: self.sender, sent: self.clock(), patience }
    }

    fn failed(&self, error: &dyn std::error::Error) -> ConnectionError {
        ConnectionError { servers: self.servers.clone(), reason: error.to_string() }
    }
}

/// Keeps the state of a connection by the events of its client.
struct Book {
    states: watch::Sender<ConnectionState>,
    servers: String,
}

impl Book {
    fn note(&self, event: &Event) {
        match event {
            Event::Connected => {
                log::info!("connected to NATS ({})", self.servers);
                self.states.send_modify(|state| {
                    *state = ConnectionState { connected: true, connects: state.connects + 1, trouble: None, ..state.clone() };
                });
            }
            Event::Disconnected => {
                log::warn!("the connection to NATS ({}) is lost", self.servers);
                self.states.send_modify(|state| {
                    *state = ConnectionState { connected: false, losses: state.losses + 1, ..state.clone() };
                });
            }
            Event::ServerError(error) => self.trouble(&error.to_string()),
            Event::ClientError(ClientError::Other(error)) => self.trouble(error),
            Event::SlowConsumer(_) => log::warn!("more messages came from NATS ({}) than are taken: some are lost", self.servers),
            other => log::debug!("NATS ({}): {other}", self.servers),
        }
    }

    /// Notes words of the server or the client, and writes them to the log when they change: a try to connect repeats them each time.
    fn trouble(&self, words: &str) {
        let is_new = self.states.send_if_modified(|state| {
            let is_new = state.trouble.as_deref() != Some(words);
            state.trouble = Some(words.to_owned());
            is_new
        });
        if is_new {
            log::warn!("NATS ({}): {words}", self.servers);
        }
    }
}

/// Returns a random pause before a try to connect, which grows with the number of tries: 10,000 agents must not come back at once.
fn pause_before(tries: usize, below: impl FnOnce(u64) -> u64) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let longest = if tries <= 1 { 0 } else { (FIRST_PAUSE_MS << doublings).min(LONGEST_PAUSE_MS) };
    Duration::from_millis(longest / 2 + below(longest / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let (shortest, longest) = (|_| 0, |bound: u64| bound - 1);
        assert_eq!([0, 1].map(|tries| pause_before(tries, longest)), [Duration::ZERO; 2], "the first try is made at once");
        assert_eq!(pause_before(2, shortest), Duration::from_millis(100));
        assert_eq!(pause_before(2, longest), Duration::from_millis(200));
        assert_eq!(pause_before(usize::MAX, shortest), Duration::from_millis(2_500));
        assert_eq!(pause_before(usize::MAX, longest), Duration::from_millis(5_000));
    }
}
