//! The host's end of the link over NATS.

use std::sync::Arc;
use std::time::Duration;

use cellshift_env::Env;
use cellshift_host::link::HostEnd;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::{Connection, ConnectionError};
use crate::presence::{Admission, Announcer, Hello, HostFacts, LastWord, Rhythm, say_goodbye};
use crate::questions::ToControllers;
use crate::requests::Desk;
use crate::subjects::{HostAddress, Life};

/// A life of an agent: it takes messages and reports until it is dropped. Requests at work run on after that.
pub struct HostServer {
    connection: Arc<Connection>,
    address: HostAddress,
    life: Life,
    rhythm: Rhythm,
    desk: Arc<Desk>,
    admission: watch::Receiver<Admission>,
    renewed: watch::Receiver<Option<Duration>>,
    /// Says hello and reports. Ends with this value, as the takers do.
    announcer: JoinSet<()>,
    /// Take requests and queries.
    takers: JoinSet<()>,
}

impl HostServer {
    /// Begins a new life of the host's agent: listens to its subjects, and says this hello as soon as the process is connected. Reports have
    /// the facts, and one is sent whenever they change. An agent with a place takes over the name from an earlier life in the same place.
    pub async fn start(
        env: Env,
        connection: Arc<Connection>,
        address: HostAddress,
        hello: Hello,
        rhythm: Rhythm,
        facts: watch::Receiver<HostFacts>,
        end: Arc<dyn HostEnd>,
    ) -> Result<HostServer, ConnectionError> {
        let life = Life::new(hello.life);
        let desk = Desk::new(connection.clone(), end);
        let (admission, admissions) = watch::channel(Admission::Awaited);
        let (renewed, renewals) = watch::channel(None);
        // An accepted agent can be reached at once, so the agent listens before its hello.
        let requests = connection.subscribe(address.requests(life)).await?;
        let queries = connection.subscribe(address.queries(life)).await?;
        let roll_calls = connection.subscribe(address.cell.roll_call()).await?;
        let (mut announcer, mut takers) = (JoinSet::new(), JoinSet::new());
        takers.spawn(desk.clone().take_requests(requests));
        takers.spawn(desk.clone().take_queries(queries));
        let says = Announcer {
            env,
            connection: connection.clone(),
            address: address.clone(),
            hello,
            rhythm: rhythm.clone(),
            facts,
            renewed,
            admission,
            roll_calls,
        };
        announcer.spawn(says.run());
        Ok(HostServer { connection, address, life, rhythm, desk, admission: admissions, renewed: renewals, announcer, takers })
    }

    /// Returns the life.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Returns how the agent stands with its controllers.
    pub fn admission(&self) -> watch::Receiver<Admission> {
        self.admission.clone()
    }

    /// Returns the moment, by [`Env::elapsed`], at which the latest hello was sent that a controller has accepted and written down; none before
    /// the first.
    pub fn renewed(&self) -> watch::Receiver<Option<Duration>> {
        self.renewed.clone()
    }

    /// Returns the way to ask the controllers.
    pub fn to_controllers(&self) -> ToControllers {
        ToControllers::new(self.connection.clone(), self.address.clone(), self.life)
    }

    /// Returns the number of queries that were dropped because their senders no longer waited for the answers.
    pub fn late_queries(&self) -> u64 {
        self.desk.late()
    }

    /// Takes no more messages, ends the reports, and waits until the requests at work have ended, at most for `grace`.
    pub async fn quiesce(mut self, grace: Duration) -> Quiet {
        self.announcer.shutdown().await;
        self.desk.close();
        while self.takers.join_next().await.is_some() {}
        let is_idle = self.desk.idle(grace).await;
        Quiet { connection: self.connection, address: self.address, life: self.life, patience: self.rhythm.patience, is_idle }
    }
}

/// An agent that takes no more messages, and has not said goodbye.
pub struct Quiet {
    connection: Arc<Connection>,
    address: HostAddress,
    life: Life,
    patience: Duration,
    is_idle: bool,
}

impl Quiet {
    /// False if a request is still at work. Then no word of this agent can say that no guest runs.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Says goodbye to all controllers, and waits until one has written it down. An agent that has a request at work says that guests go
    /// on, whatever the word.
    pub async fn say_goodbye(self, word: LastWord) {
        let word = if self.is_idle { word } else { LastWord::GuestsGoOn };
        say_goodbye(&self.connection, &self.address, self.life, word, self.patience).await;
    }
}
