//! `cellshift cluster`: runs a cloud of many processes until it is told to stop, and says what to do with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::data_dir::DataDir;
use super::output::{counted, on_service};
use super::terminal::{self, complain, say};
use super::{Failure, serve};
use crate::cluster::{self, Plan, Role};
use crate::config::{Config, Log, Preset};
use crate::demo;
use crate::signals::Signals;

/// The cluster.
#[derive(Args)]
pub(super) struct Cluster {
    /// The number of agents of each cell, each the host of a cloud [default: those of the directory; at the first start 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    agents: Option<u32>,
    /// The directory for everything that must survive a restart: the controller's, with those of the agents below it.
    #[arg(long, value_name = "DIR", default_value = "cellshift-cluster")]
    data_dir: PathBuf,
    /// The address on which the controller listens, such as localhost:8774 [default: 127.0.0.1:8774].
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::config::listen::address)]
    listen: Option<SocketAddr>,
    /// Show the demonstration over a cluster that leaves nothing behind: three moves, and a host that dies.
    #[arg(long, conflicts_with_all = ["data_dir", "listen"])]
    demo: bool,
}

/// Runs until SIGINT or SIGTERM.
pub(super) fn run(options: Cluster) -> Result<ExitCode, Failure> {
    if options.demo {
        crate::logging::init(&Log { level: "off".into(), ..Log::default() })?;
        on_service(async { Ok(demo::run_in_cluster(options.agents).await?) })?;
        return Ok(ExitCode::SUCCESS);
    }
    let held = DataDir::take(&options.data_dir.join(cluster::OWN))?;
    let dir = std::fs::canonicalize(&options.data_dir)?;
    let mut config = Config::default();
    config.http.listen = options.listen.unwrap_or(config.http.listen);
    let plan = Plan { dir, program: std::env::current_exe()?, agents: options.agents, config };
    // The system ends the children with the thread that started them, and this work stays on this thread.
    on_service(serve_until_stopped(plan))?;
    drop(held);
    Ok(ExitCode::SUCCESS)
}

async fn serve_until_stopped(plan: Plan) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut deaths = signal(SignalKind::child())?;
    let (dir, listen) = (plan.dir.clone(), plan.config.http.listen);
    let mut cluster = tokio::select! {
        biased;
        () = signals.received() => return Ok(()),
        started = cluster::Cluster::start(plan) => started?,
    };
    announce(&cluster, &dir, listen);
    loop {
        tokio::select! {
            biased;
            () = signals.received() => break,
            _ = deaths.recv() => {
                for (role, status) in cluster.ended() {
                    complain!("{role} has ended ({status}). To start it again: {}", line(&cluster, &role));
                }
                if cluster.processes().next().is_none() {
                    return Err("all processes of the cluster have ended".into());
                }
            }
        }
    }
    Ok(cluster.stop().await?)
}

/// Returns a child's command line as a shell takes it.
fn line(cluster: &cluster::Cluster, role: &Role) -> String {
    cluster.line(role).iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// Prints the cluster's processes and the next commands. It does not matter if nobody reads.
fn announce(cluster: &cluster::Cluster, dir: &Path, listen: SocketAddr) {
    let listen = SocketAddr::new(listen.ip(), cluster.address().port());
    let data = dir.display().to_string();
    let cells: Vec<String> = cluster.sizes().map(|(cell, agents)| format!("{cell} ({})", counted(agents, "agent"))).collect();
    say!("cellshift listens on http://{listen} with {}; its data is in {data}", cells.join(", "));
    if !listen.ip().is_loopback() {
        say!("It is reachable from other machines.");
    }
    say!("\nIts processes, which all end with this one:\n");
    for (role, id) in cluster.processes() {
        say!("  {id:>7}  {role}, log {}", cluster.log(role).display());
    }
    let text = serve::page(&data, listen, Preset::Cellshift) + &serve::commands(&data, listen, Preset::Cellshift, false);
    terminal::out(format_args!("{text}"));
}
