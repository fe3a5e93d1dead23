//! `cellshift compute`: holds the data directory of an agent, and runs the agent until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sd_notify::NotifyState;

use super::Failure;
use super::data_dir::DataDir;
use super::serve::{in_a_system, log_level, notify, show_life};
use crate::agent::Agent;
use crate::agent::config::AgentConfig;
use crate::env::Env;
use crate::logging;
use crate::signals::Signals;

/// How to run an agent.
#[derive(Args)]
pub(super) struct Compute {
    /// The agent's configuration, as `cellshift host enroll` writes it.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The directory for everything that must survive a restart, instead of the configuration's.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The level of the log, or one per module: error, warn, info,cellshift::agent=debug [default: the variable RUST_LOG, else the
    /// configuration].
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

/// The command line of an agent.
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Alone,
}

/// The command of an agent.
#[derive(Subcommand)]
enum Alone {
    Compute(Compute),
}

/// Parses the command line of an agent, without the definitions of all other commands: each machine has an agent, and they would be a sixth
/// of its memory. None if the line is another command's, asks for help, or makes no sense: then all definitions together explain it.
pub(super) fn parse_alone() -> Option<Compute> {
    std::env::args_os().nth(1).filter(|word| word == "compute")?;
    let Line { command: Alone::Compute(options) } = Line::try_parse().ok()?;
    Some(options)
}

/// Runs the agent until SIGINT or SIGTERM.
pub(super) fn run(command: Compute) -> Result<ExitCode, Failure> {
    let mut config = AgentConfig::load(&command.config, command.data_dir)?;
    if let Some(level) = log_level(command.log, std::env::var("RUST_LOG").ok())? {
        config.log.level = level;
    }
    logging::init(&config.log)?;
    let data = DataDir::take(&config.data_dir)?;
    config.data_dir = std::fs::canonicalize(data.path())?;
    in_a_system(serve(config))?;
    drop(data);
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: AgentConfig) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let agent = Agent::start(&config, Env::system(), cellshift_nats::Rhythm::default()).await?;
    let (hosts, data): (Vec<&str>, _) = (config.hosts.iter().map(|host| host.name.as_str()).collect(), config.data_dir.display());
    log::info!("the agent of {} in cell {} has started; its data is in {data}", hosts.join(", "), config.cell);
    notify(&[NotifyState::Ready]);
    let watched = sd_notify::watchdog_enabled().map(|limit| actix_rt::spawn(show_life(limit / 2)));
    let failure = tokio::select! {
        biased;
        reason = agent.failed() => Some(reason),
        () = signals.received() => None,
    };
    log::info!("{}; requests at work end, and then the guests", failure.as_deref().unwrap_or("told to stop"));
    notify(&[NotifyState::Stopping]);
    watched.iter().for_each(|watched| watched.abort());
    agent.stop().await;
    log::info!("stopped");
    match failure {
        Some(reason) => Err(format!("{reason}: the agent ends, start it again").into()),
        None => Ok(()),
    }
}
