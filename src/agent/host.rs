//! The agent of one host: it lives as long as the host takes messages, and is silent while the host is left down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellshift_nats::{Admission, Connection, ConnectionError, HostAddress, HostFacts, HostServer, LastWord, Rhythm};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::end::LocalEnd;
use super::place::{self, PlaceError};
use super::upward::Questions;
use crate::actors::cell::HostDirectory;
use crate::actors::hosts_here::HostsHandle;
use crate::env::Env;

/// The time after which a host that takes no messages counts as left down. A host that dies is back sooner, unless it dies too often.
const LEFT_DOWN_AFTER: Duration = Duration::from_secs(10);
/// The pause after a life that could not begin.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The reason why a life cannot begin.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// The parts of a host's agent.
pub(super) struct HostAgent {
    pub env: Env,
    /// The agent's data directory.
    pub data_dir: PathBuf,
    pub address: HostAddress,
    pub connection: Arc<Connection>,
    /// The host's supervisor.
    pub handle: HostsHandle,
    /// The questions of the host.
    pub questions: Arc<Questions>,
    pub facts: watch::Sender<HostFacts>,
    pub rhythm: Rhythm,
    /// The time that requests at work get to end.
    pub grace: Duration,
}

impl HostAgent {
    /// Lives again and again until `stopping` is true, and then ends in order.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        loop {
            let server = tokio::select! {
                server = self.begin() => server,
                () = until_true(&mut stopping) => {
                    self.end_guests().await;
                    return;
                }
            };
            tokio::select! {
                () = self.serve(&server) => {}
                () = until_true(&mut stopping) => return self.end(server).await,
            }
            // Silence, and no goodbye: nobody knows what the host would say.
            self.questions.withdraw();
            server.quiesce(Duration::ZERO).await;
            let reason = self.hosts().reason(self.host()).unwrap_or_default();
            log::error!(host = self.host(); "host {} is left down, and its agent is silent until it is back: {reason}", self.host());
        }
    }

    fn host(&self) -> &str {
        self.address.host.as_str()
    }

    fn hosts(&self) -> &HostDirectory {
        self.handle.hosts()
    }

    /// Waits until the host takes messages, and begins a life.
    async fn begin(&self) -> HostServer {
        loop {
            self.hosts().until_open(self.host(), true).await;
            match self.try_to_begin().await {
                Ok(server) => return server,
                Err(error) => log::error!(host = self.host(); "the agent of host {} stays silent: {error}", self.host()),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn try_to_begin(&self) -> Result<HostServer, BeginError> {
        let (data_dir, host, env) = (self.data_dir.clone(), self.host().to_owned(), self.env.clone());
        let place = self.env.run_blocking(move || place::next_life(&data_dir, &host, &env)).await?;
        let (connection, address, rhythm) = (self.connection.clone(), self.address.clone(), self.rhythm.clone());
        let end = Arc::new(LocalEnd::new(self.hosts().clone(), self.host()));
        Ok(HostServer::start(self.env.clone(), connection, address, Some(place), rhythm, self.facts.subscribe(), end).await?)
    }

    /// Returns when the host is left down, or the life can go on no more.
    async fn serve(&self, server: &HostServer) {
        tokio::select! {
            () = self.follow_admission(server) => {}
            () = self.until_left_down() => {}
        }
    }

    /// Lets the host ask controllers while they accept its agent. Returns if the agent says hello no more.
    async fn follow_admission(&self, server: &HostServer) {
        let mut admissions = server.admission();
        let mut is_accepted = false;
        loop {
            let accepts = *admissions.borrow_and_update() == Admission::Accepted;
            match (is_accepted, accepts) {
                (false, true) => {
                    let (host, cell) = (&self.address.host, &self.address.cell.cell);
                    log::info!(host = self.host(); "the controllers of cell {cell} have accepted the agent of host {host}: it takes requests");
                    self.questions.lead_to(server.to_controllers());
                }
                // The log says already who has the name.
                (true, false) => self.questions.withdraw(),
                _ => {}
            }
            is_accepted = accepts;
            if admissions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns when the host has taken no messages for some time.
    async fn until_left_down(&self) {
        loop {
            self.hosts().until_open(self.host(), false).await;
            if timeout(LEFT_DOWN_AFTER, self.hosts().until_open(self.host(), true)).await.is_err() {
                return;
            }
        }
    }

    /// Ends in order: requests at work end first, then the guests, and the goodbye says what is true.
    async fn end(&self, server: HostServer) {
        let quiet = server.quiesce(self.grace).await;
        if !quiet.is_idle() {
            log::warn!(host = self.host(); "a request to host {} is still at work: the controllers are told that guests may run on", self.host());
        }
        quiet.say_goodbye(self.end_guests().await).await;
    }

    /// Cuts the power of the simulated machine, as the end of the process would: its guests may return with it. Returns the last word.
    async fn end_guests(&self) -> LastWord {
        match self.handle.power_off(self.host(), true).await {
            Ok(()) => LastWord::NoGuestRuns,
            Err(error) => {
                log::warn!(host = self.host(); "the guests of host {} have not been ended: {error}", self.host());
                LastWord::GuestsGoOn
            }
        }
    }
}

/// Returns when the value is true, or its sender is gone.
async fn until_true(value: &mut watch::Receiver<bool>) {
    // Without a sender nobody can say otherwise any more.
    let _ = value.wait_for(|value| *value).await;
}
