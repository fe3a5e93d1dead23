//! `cellshift demo`: a cloud of its own in a temporary directory, driven over HTTP as a client would, with what happens told on
//! the terminal. Three servers move from old to new hardware: one is confirmed, one reverted, and one loses its target host on
//! the way. Everything that is shown is read from the APIs, the services and the hosts; what is not as it should be is an error.

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
use crate::db::DbError;
use crate::http::server::ListenError;
use crate::launch::LaunchError;
use crate::signals::Signals;
use narrator::Narrator;
use stage::Stage;

/// Why the demonstration did not come to its good end: one sentence.
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
    Audit(#[from] DbError),
    #[error("it is not as it should be: {0}")]
    Wrong(String),
    #[error("still not so after {} s: {what}", patience.as_secs())]
    TooLong { what: String, patience: Duration },
    #[error("interrupted")]
    Interrupted,
}

/// Tells the whole story; an error when anything is not as it should be. The cloud and its directory are gone afterwards.
pub async fn run() -> Result<(), DemoError> {
    let mut signals = Signals::listen().map_err(|source| DemoError::Io { what: "signals".into(), source })?;
    let narrator = Narrator::for_stdout();
    // A signal that comes meanwhile is remembered: what has been made is taken down again.
    let stage = Stage::set(narrator).await?;
    let told = tokio::select! {
        biased;
        () = signals.received() => Err(DemoError::Interrupted),
        told = tell(&stage) => told,
    };
    stage.strike().await?;
    told
}

async fn tell(stage: &Stage) -> Result<(), DemoError> {
    let began = tokio::time::Instant::now();
    stage.introduce().await?;
    story::moved_and_confirmed(stage).await?;
    story::moved_and_reverted(stage).await?;
    story::target_killed(stage).await?;
    finale::audit(stage, began).await
}

/// An error unless what was found is what should be there.
fn expect<T: PartialEq + std::fmt::Display>(what: &str, found: T, wanted: T) -> Result<(), DemoError> {
    if found == wanted { Ok(()) } else { Err(DemoError::Wrong(format!("{what} is {found} and should be {wanted}"))) }
}
