//! `cellshift demo`, and `cellshift cluster --demo` over a cluster of processes: a cloud in a temporary directory, driven over HTTP as by a
//! client, and narrated on the terminal. Three servers move from old to new hardware: one is confirmed, one is reverted, and one loses its
//! target host on the way. All shown facts are read from the APIs and the hosts; a wrong fact is an error.

mod cloud;
mod evidence;
mod finale;
mod journal;
mod narrator;
mod server;
mod stage;
mod story;
mod tripwire;

use std::time::Duration;

use crate::bootstrap::BootstrapError;
use crate::client::ClientError;
use crate::client::audit::DeepAuditError;
use crate::cluster::ClusterError;
use crate::http::server::ListenError;
use crate::launch::LaunchError;
use crate::signals::Signals;
use cloud::Cloud;
use narrator::Narrator;
use stage::Stage;

/// The reason why the demonstration failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("the demo's cloud cannot be opened: {0}")]
    Open(#[from] BootstrapError),
    #[error("the demo's cloud cannot listen: {0}")]
    Listen(#[from] ListenError),
    #[error("the demo's cloud does not start: {0}")]
    Launch(#[from] LaunchError),
    #[error("the demo cannot read or write {what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("the audit cannot be made: {0}")]
    Audit(#[from] DeepAuditError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("it is not as it should be: {0}")]
    Wrong(String),
    #[error("still not so after {} s: {what}", patience.as_secs())]
    TooLong { what: String, patience: Duration },
    #[error("interrupted")]
    Interrupted,
}

/// Tells the whole story in a cloud in this process. Fails if anything is wrong. The cloud and its directory are removed afterwards.
pub async fn run() -> Result<(), DemoError> {
    tell_in(Cloud::here()).await
}

/// Tells the story as [`run`] does, in a cluster with this number of agents per cell.
pub async fn run_in_cluster(agents: Option<u32>) -> Result<(), DemoError> {
    tell_in(Cloud::cluster(agents)).await
}

async fn tell_in(cloud: impl Future<Output = Result<Cloud, DemoError>>) -> Result<(), DemoError> {
    let mut signals = Signals::listen().map_err(|source| DemoError::Io { what: "signals".into(), source })?;
    // Remembers a signal that comes meanwhile, so that the cloud is still taken down.
    let stage = Stage::set(cloud.await?, Narrator::for_stdout()).await?;
    let outcome = tokio::select! {
        biased;
        () = signals.received() => Err(DemoError::Interrupted),
        outcome = tell(&stage) => outcome,
    };
    stage.strike().await?;
    outcome
}

async fn tell(stage: &Stage) -> Result<(), DemoError> {
    let began = tokio::time::Instant::now();
    stage.introduce().await?;
    story::moved_and_confirmed(stage).await?;
    story::moved_and_reverted(stage).await?;
    story::target_killed(stage).await?;
    finale::audit(stage, began).await?;
    finale::what_next(&stage.narrator);
    Ok(())
}

/// Fails unless the value is the expected one.
fn expect<T: PartialEq + std::fmt::Display>(what: &str, value: T, expected: T) -> Result<(), DemoError> {
    if value == expected { Ok(()) } else { Err(DemoError::Wrong(format!("{what} is {value} and should be {expected}"))) }
}
