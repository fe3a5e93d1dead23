//! The agent of compute hosts: the program on a machine that runs guests (`cellshift compute`). It obeys the controllers of its cell over NATS,
//! and knows no database and no other cell.
//!
//! Each host has a supervisor (`HostsHere`, as in a controller), a connection to the cell's NATS with a key of its own, and an agent (`host`),
//! which says hello, reports, and hands messages to the host's actor (`end`). It stops the host's guests when it cannot renew its word in time, if it
//! has promised that (`fence`). `upward` asks controllers, and gets images over HTTP. `place`
//! counts the agent's lives in its directory, by which controllers tell a restart from a second agent of the same name.

pub mod config;
mod end;
pub mod exports;
mod fence;
mod host;
pub mod images;
mod place;
mod root;
#[cfg(test)]
mod tests;
mod upward;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use cellshift_host::TRANSFER_AREA;
use cellshift_nats::{CellAddress, HostFacts, Name, NameError, Rhythm};
use futures::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::config::{AgentConfig, AgentHost};
use self::exports::Exports;
use self::fence::SelfFence;
use self::host::HostAgent;
use self::root::Root;
use self::upward::{AgentUpward, Questions};
use crate::actors::cell::HostDirectory;
use crate::actors::hosts_here::{HostSpec, HostsHandle, HostsHereOptions, HostsHereParts, of_deployment, simulated_hypervisors};
use crate::actors::supervision::{Roster, Shutdown};
use crate::config::nats::NatsError;
use crate::env::Env;
use crate::launch;
use crate::metrics::Mailbox;

/// The driver of all hosts.
const DRIVER: &str = "simulated";
/// The longest wait of a start for its hosts.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// The reason why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A name cannot stand in a subject.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Others cannot read the hosts' exports.
    #[error("transfer.listen: the agent cannot listen there: {0}")]
    Transfer(std::io::Error),
    /// A host's connection cannot be tried.
    #[error("host {host}: {error}")]
    Nats {
        /// The host.
        host: String,
        /// The reason.
        error: NatsError,
    },
}

/// A running agent.
pub struct Agent {
    hosts: HostDirectory,
    roster: Roster,
    root: Addr<Root>,
    failed: watch::Receiver<Option<String>>,
    stopping: watch::Sender<bool>,
    lives: JoinSet<()>,
}

impl Agent {
    /// Starts the hosts, and returns when they have begun or cannot. The agents say hello as soon as they are connected. The caller holds the
    /// lock of the data directory. Must be called on an actix system.
    pub async fn start(config: &AgentConfig, env: Env, rhythm: Rhythm) -> Result<Agent, AgentError> {
        let hosts = HostDirectory::counting(env.metrics().messages(Mailbox::Host), &env);
        let roster = Roster::default();
        let (stopping, stops) = watch::channel(false);
        let (mut agents, mut supervised) = (Vec::new(), Vec::new());
        let exports = listen(config, &env)?;
        let (failed, failures) = watch::channel(None);
        for host in &config.hosts {
            let (agent, parts) =
                assemble(config, host, (&env, &hosts, &roster, exports.as_ref()), (rhythm.clone(), failed.clone())).await?;
            supervised.push((host.name.clone(), parts));
            agents.push(agent);
        }
        let root = Root::start(supervised, &roster, failed);
        let mut lives = JoinSet::new();
        for agent in agents {
            lives.spawn_local(agent.run(stops.clone()));
        }
        // A host that cannot start is tried again later.
        let _ = timeout(START_PATIENCE, join_all(config.hosts.iter().map(|host| hosts.until_begun(&host.name)))).await;
        Ok(Agent { hosts, roster, root, failed: failures, stopping, lives })
    }

    /// Returns the hosts as this process reaches them.
    pub fn hosts(&self) -> &HostDirectory {
        &self.hosts
    }

    /// Returns the supervised actors.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Waits until a supervisor has died too often, or guests that must not run have not been stopped, and returns the reason. The process must
    /// end then.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The root holds a sender, and ends with the agent only.
            Err(_) => std::future::pending().await,
        }
    }

    /// Stops in order: no message is taken any more, requests at work end, guests end, and the controllers are told.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        while self.lives.join_next().await.is_some() {}
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.root.do_send(Shutdown);
    }
}

/// Returns a host's agent, and the parts of its supervisor.
async fn assemble(
    config: &AgentConfig,
    host: &AgentHost,
    (env, hosts, roster, exports): (&Env, &HostDirectory, &Roster, Option<&Arc<Exports>>),
    (rhythm, failed): (Rhythm, watch::Sender<Option<String>>),
) -> Result<(HostAgent, HostsHereParts), AgentError> {
    let address = CellAddress::new(Name::parse(&config.cell)?).host(Name::parse(&host.name)?);
    let nats = config.nats.with_key(&host.key);
    let connection = nats.connect(env, host.name.clone(), address.inbox()).await;
    let connection = connection.map_err(|error| AgentError::Nats { host: host.name.clone(), error })?;
    let handle = HostsHandle::new(&config.cell, hosts.clone(), env);
    let fence = Arc::new(SelfFence::new(env, config.compute.self_fence()));
    let rhythm = match fence.promise() {
        Some(time) => rhythm.renewing_within(time),
        None => rhythm,
    };
    let questions = Arc::new(Questions::new(fence.clone()));
    let spec = spec(config, &host.name);
    let facts = HostFacts { driver: DRIVER.to_owned(), capacity: spec.capacity, traits: Vec::new(), functions: spec.functions.clone() };
    let parts = HostsHereParts {
        env: env.clone(),
        handle: handle.clone(),
        dir: cell_dir(&config.data_dir, &config.cell),
        hosts: vec![spec],
        options: options(config),
        upward: Arc::new(AgentUpward::new(questions.clone(), &config.image, exports.cloned())),
        hypervisors: of_deployment(config.deployment, simulated_hypervisors()),
        escalations: None,
        roster: roster.clone(),
    };
    let agent = HostAgent {
        env: env.clone(),
        data_dir: config.data_dir.clone(),
        address,
        connection,
        handle,
        questions,
        fence,
        facts: watch::Sender::new(facts),
        rhythm,
        grace: config.shutdown_grace.duration(),
        failed,
    };
    Ok((agent, parts))
}

/// Begins to serve the exports of the hosts, if the configuration says where. The server ends with the process.
fn listen(config: &AgentConfig, env: &Env) -> Result<Option<Arc<Exports>>, AgentError> {
    let area = cell_dir(&config.data_dir, &config.cell).join(TRANSFER_AREA);
    let Some((exports, server)) = Exports::listen(&config.transfer, area, env).map_err(AgentError::Transfer)? else { return Ok(None) };
    actix::spawn(server);
    Ok(Some(exports))
}

/// Returns the directory of the cell's hosts, as a controller has it.
fn cell_dir(data_dir: &Path, cell: &str) -> PathBuf {
    data_dir.join("cells").join(cell)
}

fn spec(config: &AgentConfig, host: &str) -> HostSpec {
    let compute = &config.compute;
    HostSpec { name: host.to_owned(), capacity: compute.capacity(), functions: compute.networks().of(host).functions() }
}

fn options(config: &AgentConfig) -> HostsHereOptions {
    let mut options = launch::host_options(&config.shared());
    options.hosts.trials = config.chaos.trials;
    options
}
