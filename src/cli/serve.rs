//! `cellshift serve`: holds the data directory and the address, opens the cloud, and serves until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use super::Failure;
use super::data_dir::DataDir;
use crate::bootstrap::{self, Cloud};
use crate::config::{Config, Preset};
use crate::db::Db;
use crate::http::server;
use crate::launch::{BLOCKING_THREADS, environment, launch};
use crate::logging;
use crate::signals::Signals;

/// Runs the service until SIGINT or SIGTERM.
pub(super) fn run(config: Config) -> Result<ExitCode, Failure> {
    logging::init(&config.log)?;
    let data = DataDir::take(&config.data_dir)?;
    // Binds the address before anything is made; connections wait meanwhile.
    let listener = server::bind(config.http.listen)?;
    let mut config = config;
    config.http.listen = listener.local_addr()?;
    config.data_dir = std::fs::canonicalize(data.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
    actix_rt::System::with_tokio_rt(move || runtime).block_on(serve(config, listener))?;
    drop(data);
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config, listener: std::net::TcpListener) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let env = environment(&config);
    let cloud = bootstrap::open(config, env).await?;
    let running = launch(cloud, listener).await?;
    announce(&running.cloud)?;
    let tree = running.tree.clone();
    let failed = tokio::select! {
        biased;
        reason = tree.failed() => Some(reason),
        () = signals.received() => None,
    };
    log::info!("{}", failed.as_deref().unwrap_or("told to stop"));
    let databases = running.cloud.databases();
    running.stop().await?;
    futures::future::join_all(databases.values().map(Db::close)).await;
    log::info!("stopped");
    match failed {
        None => Ok(()),
        Some(reason) => Err(format!("{reason}: the service ends, start it again and it goes on from its journal").into()),
    }
}

/// Prints the service's address and the next commands. It does not matter if nobody reads.
fn announce(cloud: &Cloud) -> Result<(), Failure> {
    let (config, data) = (&cloud.config, cloud.config.data_dir.display());
    let listen = config.http.listen;
    let cells: Vec<String> = cloud
        .cells
        .iter()
        .filter(|cell| !cell.hosts.is_empty())
        .map(|cell| format!("{} ({} hosts)", cell.name, cell.hosts.len()))
        .collect();
    let mut text = format!("cellshift listens on http://{listen} with {}; its data is in {data}\n", cells.join(", "));
    if !listen.ip().is_loopback() {
        text.push_str("It is reachable from other machines.\n");
    }
    text.push_str(&commands(&data.to_string(), listen, cloud.preset));
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    log::info!(address:% = listen, cells = cells.len(); "serving");
    Ok(())
}

fn commands(data: &str, listen: SocketAddr, preset: Preset) -> String {
    let (name, flavor) = match preset {
        Preset::Cellshift => ("cellshift", "gen1.small"),
        Preset::Devstack => ("devstack", "m1.tiny"),
    };
    let image = bootstrap::image_name(preset);
    let first = format!(
        "\nIn another terminal:\n\
         \n  export OS_CLIENT_CONFIG_FILE={data}/clouds.yaml OS_CLOUD={name}\
         \n  openstack server create --flavor {flavor} --image {image} --network private first --wait\
         \n  openstack server list\n"
    );
    let resize = format!(
        "\nA resize from gen1 to gen2 leaves its cell once {data}/policy.yaml allows it:\
         \n\n  echo '\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"' >> {data}/policy.yaml\
         \n  openstack server resize --flavor gen2.small first --wait\
         \n  openstack server resize confirm first\n"
    );
    let health = format!("  curl http://{listen}/healthcheck\n");
    match preset {
        Preset::Cellshift => first + &resize + &health,
        Preset::Devstack => first + &health,
    }
}
