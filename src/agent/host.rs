//! The agent of one host: it lives as long as the host takes messages, and is silent while the host is left down. A life also ends when the agent
//! could not renew its word in time, if it has promised to stop the guests then.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellshift_nats::{Admission, Connection, ConnectionError, Hello, HostAddress, HostFacts, HostServer, LastWord, Rhythm};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::end::LocalEnd;
use super::fence::SelfFence;
use super::place::{self, PlaceError};
use super::upward::Questions;
use crate::actors::cell::HostDirectory;
use crate::actors::hosts_here::HostsHandle;
use crate::env::Env;

/// The time after which a host that takes no messages counts as left down. A host that dies is back sooner, unless it dies too often.
const LEFT_DOWN_AFTER: Duration = Duration::from_secs(10);
/// The pause after a life that could not begin.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The pause before the guests are stopped, or the host is started, again.
const FENCE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The event that ends a life.
enum Ended {
    /// The host is left down.
    LeftDown,
    /// The agent could not renew its word in time.
    Fenced,
}

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
    /// The time of the host's guests.
    pub fence: Arc<SelfFence>,
    pub facts: watch::Sender<HostFacts>,
    pub rhythm: Rhythm,
    /// The time that requests at work get to end.
    pub grace: Duration,
    /// Takes the reason why the process must end.
    pub failed: watch::Sender<Option<String>>,
}

impl HostAgent {
    /// Lives again and again until `stopping` is true, and then ends in order.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        loop {
            let server = tokio::select! {
                biased;
                () = until_true(&mut stopping) => {
                    self.end_guests().await;
                    return;
                }
                // The guests of a host that is left down may run on.
                () = self.fence.until_over() => {
                    self.fence_host(None, &stopping).await;
                    continue;
                }
                server = self.begin() => server,
            };
            let ended = tokio::select! {
                ended = self.serve(&server) => ended,
                () = until_true(&mut stopping) => return self.end(server).await,
            };
            // Silence, and no goodbye: nobody knows what the host would say.
            self.questions.withdraw();
            match ended {
                Ended::LeftDown => {
                    server.quiesce(Duration::ZERO).await;
                    let reason = self.hosts().reason(self.host()).unwrap_or_default();
                    log::error!(host = self.host(); "host {} is left down, and its agent is silent until it is back: {reason}", self.host());
                }
                Ended::Fenced => self.fence_host(Some(server), &stopping).await,
            }
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
        let end = Arc::new(LocalEnd::new(self.hosts().clone(), self.host(), self.fence.clone()));
        let hello = Hello { life: self.env.uuid(), place: Some(place), self_fence: self.fence.promise() };
        let server = HostServer::start(self.env.clone(), connection, address, hello, rhythm, self.facts.subscribe(), end).await?;
        self.fence.follow(server.renewed());
        Ok(server)
    }

    /// Returns when the host is left down, its time is over, or the life can go on no more.
    async fn serve(&self, server: &HostServer) -> Ended {
        tokio::select! {
            biased;
            () = self.fence.until_over() => Ended::Fenced,
            () = self.follow_admission(server) => Ended::LeftDown,
            () = self.until_left_down() => Ended::LeftDown,
        }
    }

    /// Stops all guests, because controllers will let other hosts run them, and ends the life. The host then starts as after a loss of power: it
    /// runs a guest when a controller has accepted its next life and says that it may.
    async fn fence_host(&self, server: Option<HostServer>, stopping: &watch::Receiver<bool>) {
        let seconds = self.fence.promise().unwrap_or_default().as_secs_f64();
        log::error!(host = self.host(); "no controller has renewed the word of the agent of host {} for {seconds} s: its guests are stopped", self.host());
        while let Err(error) = self.handle.power_off(self.host(), true).await {
            let reason = format!("host {} fences itself, and its guests have not been stopped: {error}", self.host());
            log::error!(host = self.host(); "{reason}");
            if *stopping.borrow() {
                return;
            }
            // No guest of this process outlives it.
            self.failed.send_replace(Some(reason));
            sleep(FENCE_AGAIN_AFTER).await;
        }
        if let Some(server) = server {
            // Nothing may reach the host through this life once the host is on again.
            server.quiesce(self.grace).await;
        }
        self.fence.guests_stopped();
        while let Err(error) = self.handle.power_on(self.host()).await {
            log::error!(host = self.host(); "host {} has fenced itself, and does not start again: {error}", self.host());
            if *stopping.borrow() {
                return;
            }
            sleep(FENCE_AGAIN_AFTER).await;
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

    /// Ends in order: requests at work end first, then the guests, in their time, and the goodbye says what is true.
    async fn end(&self, server: HostServer) {
        let grace = self.fence.left().map_or(self.grace, |left| left.min(self.grace));
        let quiet = server.quiesce(grace).await;
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
