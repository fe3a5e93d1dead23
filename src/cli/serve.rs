//! `cellshift serve`: holds the data directory and the address, opens the cloud, and serves until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sd_notify::NotifyState;

use super::data_dir::DataDir;
use super::dev::Dev;
use super::output::counted;
use super::{Failure, Options, ui};
use crate::bootstrap::{self, Cloud};
use crate::client::{ADMIN, CLOUDS_FILE, Client};
use crate::config::log_level::{LEVELS, misspelt};
use crate::config::{Config, Preset};
use crate::db::Db;
use crate::http::server;
use crate::launch::{BLOCKING_THREADS, environment, launch};
use crate::logging;
use crate::signals::Signals;

/// How to serve.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    options: Options,
    /// Accept databases that have moved, or that an older release or a backup left without a mark, as this data directory's. Databases
    /// marked as another deployment's are still refused.
    #[arg(long)]
    adopt: bool,
    /// The level of the log, or one per module: error, warn, info,cellshift::saga=debug [default: the variable RUST_LOG, else the
    /// configuration].
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Serve a cloud to try clients against: its data are in a temporary directory and go with it, users may resize to another cell,
    /// experiments may be loaded, quotas are unlimited, and the log has one line for each operation.
    #[arg(long, conflicts_with_all = ["data_dir", "adopt"])]
    dev: bool,
}

/// Runs the service until SIGINT or SIGTERM.
pub(super) fn run(command: Serve) -> Result<ExitCode, Failure> {
    let Serve { mut options, adopt, log, dev } = command;
    let dev = if dev { Some(Dev::make()?) } else { None };
    if let Some(dev) = &dev {
        options.place.data_dir = Some(dev.path().to_owned());
        options.listen = dev.listens().or(options.listen);
    }
    let config = Config { adopt, ..options.load()? };
    let mut config = if dev.is_some() { Dev::of(config)? } else { config };
    if let Some(level) = log_level(log, std::env::var("RUST_LOG").ok())? {
        config.log.level = level;
    }
    logging::init(&config.log)?;
    let data = DataDir::take(&config.data_dir)?;
    // Binds the address before anything is made; connections wait meanwhile.
    let listener = server::bind(config.http.listen)?;
    config.http.listen = listener.local_addr()?;
    config.data_dir = std::fs::canonicalize(data.path())?;
    if let Some(dev) = dev.as_ref().filter(|dev| dev.listens().is_none()) {
        in_a_system(dev.keep_first_state(&config))?;
    }
    let listen = config.http.listen;
    let ended = in_a_system(serve(config, listener, dev.as_ref()))?;
    if let (Ended::Reset, Some(dev)) = (ended, &dev) {
        return Err(dev.start_anew(listen));
    }
    drop(data);
    Ok(ExitCode::SUCCESS)
}

/// Returns the level that the command line or else the environment asks for.
pub(super) fn log_level(option: Option<String>, variable: Option<String>) -> Result<Option<String>, Failure> {
    let variable = variable.filter(|level| !level.is_empty()).map(|level| ("RUST_LOG", level));
    let Some((name, level)) = option.map(|level| ("--log", level)).or(variable) else { return Ok(None) };
    match misspelt(&level) {
        Some(wrong) => Err(format!("{name}: {wrong:?} is no level: it must be {LEVELS}").into()),
        None => Ok(Some(level)),
    }
}

/// How a run of the service ended.
enum Ended {
    /// By a signal.
    Signal,
    /// Its data are to be brought back to their first state.
    Reset,
    /// By a child of the root that died too often, or by another process that took the databases over; with the sentence for the operator.
    Failed(String),
}

/// Runs the work on an actix system, whose tasks end with it.
pub(super) fn in_a_system<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
    actix_rt::System::with_tokio_rt(move || runtime).block_on(work)
}

async fn serve(config: Config, listener: std::net::TcpListener, dev: Option<&Dev>) -> Result<Ended, Failure> {
    let mut signals = Signals::listen()?;
    let env = environment(&config);
    let cloud = bootstrap::open(config, env).await?;
    let seat = cloud.seat.clone();
    let running = match (launch(Cloud { resets: dev.map(|dev| dev.resets.clone()), ..cloud }, listener).await, seat) {
        (Err(failed), Some(seat)) => {
            seat.abandon().await;
            return Err(failed.into());
        }
        (launched, _) => launched?,
    };
    if dev.and_then(Dev::listens).is_none() {
        announce(&running.cloud, dev.is_some()).await?;
        notify(&[NotifyState::Ready]);
    }
    let watched = sd_notify::watchdog_enabled().map(|limit| actix_rt::spawn(show_life(limit / 2)));
    let (tree, seat) = (running.tree.clone(), running.cloud.env.seat().clone());
    let reset_is_requested = async {
        match dev {
            Some(dev) => dev.resets.requested().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        sentence = seat.lost() => Ended::Failed(sentence),
        reason = tree.failed() => Ended::Failed(format!("{reason}: the service ends, start it again and it goes on from its journal")),
        () = signals.received() => Ended::Signal,
        () = reset_is_requested => Ended::Reset,
    };
    let why = match &ended {
        Ended::Failed(reason) => reason,
        Ended::Signal => "told to stop",
        Ended::Reset => "reset",
    };
    match tree.conductor.in_flight() {
        0 => log::info!("{why}; no operation is in flight"),
        1 => log::info!("{why}; 1 operation is in flight: a next start goes on with it if it does not end now"),
        left => log::info!("{why}; {left} operations are in flight: a next start goes on with those that do not end now"),
    }
    if !matches!(ended, Ended::Reset) {
        notify(&[NotifyState::Stopping]);
    }
    watched.iter().for_each(|watched| watched.abort());
    let (databases, seat) = (running.cloud.databases(), running.cloud.seat.clone());
    running.stop().await?;
    if let Some(seat) = seat {
        seat.give_up().await;
    }
    futures::future::join_all(databases.values().map(Db::close)).await;
    log::info!("stopped");
    match ended {
        Ended::Failed(reason) => Err(reason.into()),
        ended => Ok(ended),
    }
}

/// Tells the service manager that started the process (systemd, `Type=notify`). Without one it does nothing.
pub(super) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        log::warn!("the service manager cannot be told: {error}");
    }
}

/// Tells the service manager again and again that the thread of the root actor is not stuck, for its watchdog.
pub(super) async fn show_life(pause: Duration) {
    let mut ticks = tokio::time::interval(pause);
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

/// Prints the service's address and the next commands. It does not matter if nobody reads.
async fn announce(cloud: &Cloud, is_dev: bool) -> Result<(), Failure> {
    let (config, data) = (&cloud.config, cloud.config.data_dir.display());
    let listen = config.http.listen;
    let cells: Vec<String> = cloud
        .cells
        .iter()
        .filter(|cell| cell.agents.is_some() || !cell.hosts.is_empty())
        .map(|cell| match cell.agents {
            Some(_) => format!("{} (agents)", cell.name),
            None => format!("{} ({})", cell.name, counted(cell.hosts.len(), "host")),
        })
        .collect();
    let mut text = format!("cellshift listens on http://{listen} with {}; its data is in {data}\n", cells.join(", "));
    if !listen.ip().is_loopback() {
        text.push_str("It is reachable from other machines.\n");
    }
    if is_dev {
        text.push_str("Its data go when it ends.\n");
    }
    text.push_str(&match is_dev {
        true => page_logged_in(&config.data_dir).await?,
        false => page(&data.to_string(), listen, cloud.preset),
    });
    text.push_str(&commands(&data.to_string(), listen, cloud.preset, is_dev));
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    log::info!(address:% = listen, cells = cells.len(); "serving");
    Ok(())
}

/// Returns where operators look, and as whom they log in.
fn page(data: &str, listen: SocketAddr, preset: Preset) -> String {
    let cloud = match preset {
        Preset::Cellshift => "cellshift-admin",
        Preset::Devstack => "devstack-admin",
    };
    format!(
        "\nThe operators' page is http://{listen}/ui/: log in as admin, with the project admin and the password of {cloud} in {data}/clouds.yaml.\n\
         The same on a terminal:\n\
         \n  cellshift status --data-dir {data}\n"
    )
}

/// Returns an address of the operators' page that logs in once.
async fn page_logged_in(data: &Path) -> Result<String, Failure> {
    let client = Client::log_in(&data.join(CLOUDS_FILE), ADMIN).await?;
    let (address, data) = (ui::address(&client)?, data.display());
    Ok(format!(
        "\nThe operators' page, logged in as admin:\n\n  {address}\n\
         \nThis address works once. For another one, and for the same on a terminal:\n\
         \n  cellshift ui --data-dir {data}\
         \n  cellshift status --data-dir {data}\n"
    ))
}

fn commands(data: &str, listen: SocketAddr, preset: Preset, is_dev: bool) -> String {
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
    let rule = r#"'"compute:servers:resize:cross_cell": "rule:project_member_or_admin"'"#;
    let allowed = match is_dev {
        true => "\nA resize from gen1 to gen2 leaves its cell:\n".to_owned(),
        false => format!(
            "\nA resize from gen1 to gen2 leaves its cell once {data}/policy.yaml allows it:\n\n  echo {rule} >> {data}/policy.yaml"
        ),
    };
    let resize =
        format!("{allowed}\n  openstack server resize --flavor gen2.small first --wait\n  openstack server resize confirm first\n");
    let health = format!("  curl http://{listen}/healthcheck\n");
    match preset {
        Preset::Cellshift => first + &resize + &health,
        Preset::Devstack => first + &health,
    }
}
