//! `cellshift serve`: takes the data directory and the address, opens the cloud, serves until told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use actix_web::web;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use super::data_dir::DataDir;
use crate::bootstrap::{self, Cloud};
use crate::config::{Authentication, Config};
use crate::domain::context::RequestContext;
use crate::env::Env;
use crate::http::limits::InFlight;
use crate::http::server::{self, Part, Wiring};
use crate::http::{identity, image, network, placement, volume};
use crate::logging;

/// Runs the service until SIGINT or SIGTERM.
pub(super) fn run(config: Config) -> Result<ExitCode, Failure> {
    let data = DataDir::take(&config.data_dir)?;
    // The address is taken before anything is made behind it; connections wait meanwhile.
    let listener = server::bind(config.http.listen)?;
    let mut config = config;
    config.http.listen = listener.local_addr()?;
    config.data_dir = std::fs::canonicalize(data.path())?;
    logging::init(&config.log)?;
    actix_rt::System::new().block_on(serve(config, listener))?;
    drop(data);
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config, listener: std::net::TcpListener) -> Result<(), Failure> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let env = Env::system();
    let cloud = bootstrap::open(config, env.clone()).await?;
    let watch = tokio::spawn(cloud.policy.clone().watch(env));
    let server = server::start(wiring(&cloud).await?, listener, workers(&cloud.config), grace(&cloud.config))?;
    let handle = server.handle();
    let serving = actix_rt::spawn(server);
    announce(&cloud)?;
    tokio::select! {
        _ = interrupt.recv() => log::info!("interrupted: stopping"),
        _ = terminate.recv() => log::info!("told to stop"),
    }
    handle.stop(true).await;
    serving.await??;
    watch.abort();
    log::info!("stopped");
    Ok(())
}

fn workers(config: &Config) -> usize {
    match config.http.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    }
}

/// In whole seconds, rounded up.
fn grace(config: &Config) -> u64 {
    let grace = config.http.shutdown_grace.duration();
    grace.as_secs() + u64::from(grace.subsec_nanos() > 0)
}

/// The door, and the APIs behind it.
async fn wiring(cloud: &Cloud) -> Result<Wiring, Failure> {
    let (services, config) = (cloud.services.clone(), &cloud.config);
    let anonymous = match config.api.authentication {
        Authentication::Token => None,
        Authentication::None => Some(administrator(cloud).await?),
    };
    let of_services: Part = {
        let services = services.clone();
        Arc::new(move |config| {
            config
                .app_data(web::Data::from(services.identity.clone()))
                .app_data(web::Data::from(services.images.clone()))
                .app_data(web::Data::from(services.volumes.clone()))
                .app_data(web::Data::from(services.network.clone()))
                .app_data(web::Data::from(services.placement.clone()))
                .configure(identity::configure)
                .configure(image::configure)
                .configure(volume::configure)
                .configure(network::configure)
                .configure(placement::configure);
        })
    };
    Ok(Wiring {
        env: cloud.env.clone(),
        authenticator: services.identity,
        policy: cloud.policy.clone(),
        anonymous,
        in_flight: InFlight::new(config.http.max_requests_in_flight),
        max_body: config.http.max_body_bytes,
        parts: vec![of_services],
    })
}

/// Who requests without a token act as: the administrator, in the project `demo` where ordinary servers are.
async fn administrator(cloud: &Cloud) -> Result<RequestContext, Failure> {
    let identity = &cloud.services.identity;
    let project = identity.ensure_project("demo").await?;
    let users = identity.users().await?;
    let user = users.into_iter().find(|user| user.name == "admin").ok_or("there is no user admin for requests without a token")?;
    Ok(RequestContext {
        request_id: String::new(),
        user_id: user.id,
        user_name: user.name,
        project_id: project.id,
        project_name: project.name,
        roles: ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        system_scope: false,
    })
}

/// Says where the service is and what to type next. Nobody may be reading: that does not matter.
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
    text.push_str(&commands(&data.to_string(), listen));
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    log::info!(address:% = listen, cells = cells.len(); "serving");
    Ok(())
}

fn commands(data: &str, listen: SocketAddr) -> String {
    format!(
        "\nIn another terminal:\n\
         \n  export OS_CLIENT_CONFIG_FILE={data}/clouds.yaml OS_CLOUD=cellshift\
         \n  openstack server create --flavor gen1.small --image tiny --network private first --wait\
         \n  openstack server list\
         \n\nA resize from gen1 to gen2 leaves its cell once {data}/policy.yaml allows it:\
         \n\n  echo '\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"' >> {data}/policy.yaml\
         \n  openstack server resize --flavor gen2.small first --wait\
         \n  openstack server resize confirm first\
         \n  curl http://{listen}/healthcheck\n"
    )
}
