//! Starts an opened cloud: the actors, and the APIs in front of them. The service, the demo and the tests all start here, so that they all
//! run equal clouds.

mod agents;
mod anonymous;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::web;
use cellshift_embedded::network::agents::AgentHosts;
use cellshift_embedded::transaction::Transactions;
use cellshift_embedded::{identity, image, network, placement, volume};
use tokio::sync::watch;

use crate::actors::cell::CellOptions;
use crate::actors::compute_host::{HostOptions, LiveOptions};
use crate::actors::conductor::Controller;
use crate::actors::hosts_here::{HostSpec, HostsHereOptions, of_deployment, simulated_hypervisors};
use crate::actors::notifier::NotifierConfig;
use crate::actors::notifier::rabbitmq::{self, Publisher, PublisherParts};
use crate::actors::root::{self, Between, CellStart, Parts, StartError, Tree};
use crate::bootstrap::{Cloud, Services};
use crate::cell_registry::{CellRegistry, Patience};
use crate::chaos::borders::FaultyBorders;
use crate::chaos::experiment::host_network::HostNetwork;
use crate::chaos::experiment::service::{self, Chaos, Unwatched};
use crate::chaos::seams::Seams;
use crate::config::{Authentication, Compute, Config, Http, TimeoutAction, validate};
use crate::db::POOL_SIZE;
use crate::descriptors::{self, TooFew};
use crate::env::turns::Turns;
use crate::env::{Blocking, Env};
use crate::http::arrival::Arrivals;
use crate::http::clients::Clients;
use crate::http::compute::catalog::Catalog;
use crate::http::compute::quota_usage::Counting;
use crate::http::compute::servers::consoles::Consoles;
use crate::http::compute::servers::{ComputeApi, Options};
use crate::http::front::connections::{Connections, Peers, RESERVE};
use crate::http::front::{self, Front, HEAD_PATIENCE};
use crate::http::limits::{InFlight, Transfers};
use crate::http::ops::{self, AgentCell, AgentCells, Operators};
use crate::http::pace::Pace;
use crate::http::readiness::{HostsExpected, Readiness};
use crate::http::server::{Part, Wiring};
use crate::http::{compute, host_bytes, metrics, readiness, ui};
use crate::metrics::Metrics;
use crate::policy_file::PolicyFile;
use crate::reconcilers::PeriodicOptions;
use crate::reconcilers::offload::OffloadOptions;
use crate::reconcilers::retention::RetentionOptions;
use crate::runner::room::Limits;
use crate::saga::performer::Plainly;
use crate::saga::step_name::StepName;
use crate::saga::world::Settings;
use crate::services::ServiceError;
use crate::services::identity::Sessions;
use crate::services::image::ImageService;
use crate::services::proxies::{ImageProxy, NetworkProxy, VolumeProxy};
use crate::traces::{self, Traces};

/// The reason why a cloud cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}")]
    Service(#[from] ServiceError),
    #[error("the configuration's authentication = \"none\" needs a user admin, and there is none")]
    NoAdministrator,
    #[error(transparent)]
    TooFewFiles(#[from] TooFew),
    #[error("metrics.listen is {0}, and the service cannot listen there: {1}. Choose another address of this machine")]
    Metrics(SocketAddr, std::io::Error),
    #[error("nats.{cell}.{reason}")]
    Nats { cell: String, reason: String },
    #[error("the web server does not start: {0}")]
    Io(#[from] std::io::Error),
}

/// A running cloud.
pub struct Running {
    pub cloud: Cloud,
    pub tree: Tree,
    pub address: SocketAddr,
    pub server: ServerHandle,
    /// The address and the server of `/metrics`, if it has a listener of its own.
    pub metrics: Option<(SocketAddr, ServerHandle)>,
    /// Ends when the web server has stopped.
    pub serving: actix_rt::task::JoinHandle<std::io::Result<()>>,
    /// Ends endless answers.
    stopping: watch::Sender<bool>,
}

impl Running {
    /// Stops in order: running requests end first, then the actors. Operations in flight stay in the journal.
    pub async fn stop(self) -> std::io::Result<()> {
        self.stopping.send_replace(true);
        self.server.stop(true).await;
        if let Some((_, server)) = &self.metrics {
            server.stop(true).await;
        }
        let served = self.serving.await.unwrap_or(Ok(()));
        self.tree.stop();
        // A collector that does not answer holds up no stop.
        let _ = tokio::time::timeout(TRACES_PATIENCE, self.cloud.env.traces().ended()).await;
        served
    }
}

/// The actors, and their APIs without a server.
pub struct Assembled {
    pub tree: Tree,
    pub wiring: Wiring,
    /// Ends endless answers.
    pub stopping: watch::Sender<bool>,
}

/// Starts the actors. `parts` come from [`parts`], or from an experiment. With `seams`, faults may happen between them.
pub async fn assemble(cloud: &Cloud, mut parts: Parts, seams: Option<Seams>) -> Result<Assembled, LaunchError> {
    if let Some(seams) = &seams {
        seams.fit(&mut parts);
    }
    agents::connect(cloud, &mut parts).await?;
    let tree = root::start(parts).await?;
    let seams = seams.filter(|_| cloud.config.chaos.enabled);
    let agents = !cloud.config.nats.is_empty();
    let chaos = seams.map(|seams| service::start(service::Parts { tree: tree.clone(), databases: cloud.databases(), seams, agents }));
    let (stopping, stops) = watch::channel(false);
    let wiring = wiring(cloud, &tree, stops, chaos).await?;
    Ok(Assembled { tree, wiring, stopping })
}

/// Starts the actors and serves on the listener.
pub async fn launch(cloud: Cloud, listener: TcpListener) -> Result<Running, LaunchError> {
    let (parts, seams) = (parts(&cloud), cloud.config.chaos.enabled.then(seams));
    launch_with(cloud, parts, seams, listener).await
}

/// Returns seams on which messages pass at once until an experiment is loaded.
pub fn seams() -> Seams {
    Seams::new(HostNetwork::new(Arc::new(Unwatched), 0, 0))
}

/// Returns the environment of a service. Faults may happen in it if the configuration allows experiments, and it counts for metrics unless
/// the configuration switches them off.
pub fn environment(config: &Config) -> Env {
    let env = match config.chaos.enabled {
        true => FaultyBorders::of(Env::system()),
        false => Env::system(),
    };
    let env = match config.metrics.enabled {
        true => env,
        false => env.with_metrics(Metrics::off()),
    };
    match config.tracing.otlp {
        Some(_) => env.with_traces(Traces::on()),
        None => env,
    }
}

/// Launches as [`launch`] does, with an experiment's parts and seams.
pub async fn launch_with(cloud: Cloud, mut parts: Parts, seams: Option<Seams>, listener: TcpListener) -> Result<Running, LaunchError> {
    // Checks the limit before anything is started.
    let metrics_listener = metrics_listener(&cloud.config)?;
    let connections = descriptors::connections(&cloud.config.http, cloud.databases().len(), RESERVE, descriptors::raise())?;
    if let Some(collector) = &cloud.config.tracing.otlp {
        actix_rt::spawn(traces::export(cloud.env.traces().clone(), collector.clone()));
    }
    let address = listener.local_addr()?;
    parts.agents_endpoint = cloud.config.http.endpoint_of_agents(address);
    let Assembled { tree, wiring, stopping } = assemble(&cloud, parts, seams).await?;
    publish(&cloud, &tree).await?;
    // Connections wait meanwhile, because the listener is bound.
    tree.conductor.until_ready(READY_PATIENCE).await;
    let server = serve(&cloud, wiring, listener, connections)?;
    let handle = server.handle();
    let metrics = metrics_listener.map(|listener| serve_metrics(&cloud.env, listener)).transpose()?;
    Ok(Running { cloud, tree, address, server: handle, metrics, serving: actix_rt::spawn(server), stopping })
}

/// Begins to send notifications to RabbitMQ, if one is configured.
async fn publish(cloud: &Cloud, tree: &Tree) -> Result<(), LaunchError> {
    let notifications = notifier_config(&cloud.config);
    if let (false, Some(file)) = (notifications.rabbitmq.urls.is_empty(), notifications.file) {
        let (env, outbox) = (cloud.env.clone(), tree.outbox.clone());
        let parts = PublisherParts { env, outbox, config: notifications.rabbitmq, notifications: file };
        actix_rt::spawn(rabbitmq::publish(Publisher::open(parts).await?));
    }
    Ok(())
}

/// Returns the options of the notifier, with its file.
fn notifier_config(config: &Config) -> NotifierConfig {
    let mut notifier = config.notifications.clone();
    notifier.file.get_or_insert_with(|| config.data_dir.join("notifications.jsonl"));
    notifier
}

/// Binds the address of `/metrics`, if it has a listener of its own.
fn metrics_listener(config: &Config) -> Result<Option<TcpListener>, LaunchError> {
    let Some(address) = config.metrics.listen.filter(|_| config.metrics.enabled) else { return Ok(None) };
    TcpListener::bind(address).map(Some).map_err(|error| LaunchError::Metrics(address, error))
}

/// Serves `/metrics` on a listener of its own.
fn serve_metrics(env: &Env, listener: TcpListener) -> std::io::Result<(SocketAddr, ServerHandle)> {
    let address = listener.local_addr()?;
    let server = metrics::serve(env.clone(), listener)?;
    let handle = server.handle();
    actix_rt::spawn(server);
    log::info!(address:% = address; "metrics are on http://{address}/metrics");
    Ok((address, handle))
}

/// Serves an assembled cloud on the listener, to at most `connections` connections.
pub fn serve(cloud: &Cloud, mut wiring: Wiring, listener: TcpListener, connections: usize) -> std::io::Result<Server> {
    wiring.arrivals.proxied = Peers::new(per_peer(&cloud.config, connections));
    front::serve(wiring, listener, front(cloud, connections))
}

/// The maximum size of a pool of threads for blocking work. Databases that hang keep their threads, so there must be room for the other
/// databases and for files. Threads start on demand.
pub const BLOCKING_THREADS: usize = (validate::CELLS_MAX as usize + 3) * POOL_SIZE as usize + 512;

/// The maximum wait, before requests are accepted, for starting hosts and for creates that were in flight when the process ended, so that
/// the first list is complete.
const READY_PATIENCE: Duration = Duration::from_secs(5);
/// The maximum time that a stop waits for the collector of traces.
const TRACES_PATIENCE: Duration = Duration::from_secs(2);

fn front(cloud: &Cloud, connections: usize) -> Front {
    let (config, http) = (&cloud.config, &cloud.config.http);
    Front {
        workers: workers(config),
        blocking: BLOCKING_THREADS,
        grace: grace_seconds(config),
        connections: Connections::new(connections, per_peer(config, connections)),
        head_patience: HEAD_PATIENCE,
        takes: Pace { bytes_per_second: http.min_bytes_per_second, patience: http.write_timeout.duration() },
    }
}

/// Returns the maximum number of connections of one client.
fn per_peer(config: &Config, connections: usize) -> usize {
    match config.http.max_connections_per_peer {
        0 => connections.div_ceil(2),
        most => most,
    }
}

/// Returns the bounds on bodies. Large bodies together may take as much memory as a quarter of the requests in flight could.
fn arrivals(http: &Http) -> Arrivals {
    let sends = Pace { bytes_per_second: http.min_bytes_per_second, patience: http.read_timeout.duration() };
    let room = http.max_body_bytes.saturating_mul(http.max_requests_in_flight.div_ceil(4));
    Arrivals::new(http.max_body_bytes, http.body_timeout.duration(), sends, Peers::new(http.max_requests_in_flight), room)
}

fn workers(config: &Config) -> usize {
    or_cores(config.http.workers)
}

/// Returns the number of threads for actors. A simulation has none, because the order of two threads does not replay.
fn arbiters(cloud: &Cloud) -> usize {
    match cloud.env.blocking() {
        Blocking::Inline => 0,
        Blocking::Pool => or_cores(cloud.config.actors.arbiters),
    }
}

/// Returns the configured number of threads; 0 means one per core.
fn or_cores(configured: usize) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        configured => configured,
    }
}

/// Returns the grace time, rounded up to seconds.
fn grace_seconds(config: &Config) -> u64 {
    let grace = config.http.shutdown_grace.duration();
    grace.as_secs() + u64::from(grace.subsec_nanos() > 0)
}

/// Returns the parts of the tree according to the configuration.
pub fn parts(cloud: &Cloud) -> Parts {
    let (config, services) = (&cloud.config, &cloud.services);
    let (capacity, networks) = (config.compute.capacity(), config.compute.networks());
    let cells = cloud.cells.iter().map(|cell| CellStart {
        uuid: cell.uuid,
        name: cell.name.clone(),
        db: cell.db.clone(),
        dir: cell.dir.clone(),
        hosts: cell.hosts.iter().map(|host| HostSpec { name: host.clone(), capacity, functions: networks.of(host).functions() }).collect(),
        agents: None,
        silent: cell.silent.clone(),
    });
    Parts {
        env: cloud.env.clone(),
        api: cloud.api.clone(),
        cells: cells.collect(),
        images: services.images.clone(),
        network: services.network.clone(),
        volumes: services.volumes.clone(),
        placement: services.placement.clone(),
        services: services.placement.database().clone(),
        hypervisors: of_deployment(cloud.deployment, simulated_hypervisors()),
        agents_endpoint: config.http.endpoint_of_agents(config.http.listen),
        cell_options: cell_options(config),
        host_options: host_options(config),
        scheduler: config.scheduler.clone(),
        notifier: notifier_config(config),
        settings: settings(config),
        periodic: PeriodicOptions {
            resize_confirm_window: config.migration.resize_confirm_window.duration(),
            interval: std::time::Duration::from_secs(1)
                .max(config.migration.resize_confirm_window.duration().min(std::time::Duration::from_secs(10))),
            offload: OffloadOptions {
                after: std::time::Duration::from_secs(u64::try_from(config.compute.shelved_offload_time).unwrap_or(0)),
                interval: config.compute.shelved_poll_interval.duration(),
            },
            reclaim_after: config.compute.reclaim_instance_interval.duration(),
            ports_interval: config.compute.port_poll_interval.duration(),
            retention: RetentionOptions {
                interval: config.retention.interval.duration(),
                deleted_servers_days: config.retention.deleted_servers_days,
                operations_days: config.retention.operations_days,
                history_days: config.retention.history_days,
            },
        },
        arbiters: arbiters(cloud),
        blocking_threads: BLOCKING_THREADS,
        controller: Controller {
            name: cloud.controller.clone(),
            lease: config.migration.lease.duration(),
            workers: config.conductor.workers,
            limits: Limits { in_flight: config.migration.max_in_flight, waiting: config.migration.max_waiting },
        },
        cell_patience: config.cells.timeout.duration(),
        between: Between::default(),
        performers: Arc::new(Plainly),
    }
}

fn cell_options(config: &Config) -> CellOptions {
    CellOptions {
        heartbeat: config.compute.heartbeat.duration(),
        probe_interval: config.cells.probe_interval.duration(),
        database_deadline: config.cells.timeout.duration(),
    }
}

/// Returns the options of the hosts that a process starts.
pub(crate) fn host_options(config: &Config) -> HostsHereOptions {
    let compute = &config.compute;
    let latency = |(operation, ms): (&crate::virt::Operation, &u64)| (*operation, std::time::Duration::from_millis(*ms));
    HostsHereOptions {
        hosts: HostOptions {
            cpu_allocation_ratio: compute.cpu_allocation_ratio,
            ram_allocation_ratio: compute.ram_allocation_ratio,
            disk_allocation_ratio: compute.disk_allocation_ratio,
            forget_interval: config.retention.interval.duration(),
            latencies: compute.latency_ms.iter().map(latency).collect(),
            live: live_options(compute),
            ..HostOptions::default()
        },
        ..HostsHereOptions::default()
    }
}

fn live_options(compute: &Compute) -> LiveOptions {
    let live = &compute.live_migration;
    LiveOptions {
        at_once: compute.max_concurrent_live_migrations as usize,
        bandwidth: live.bandwidth_mib << 20,
        dirty_rate: live.dirty_rate_mib << 20,
        max_downtime: std::time::Duration::from_millis(live.max_downtime_ms),
        completion_timeout: live.completion_timeout.duration(),
        forces_at_timeout: live.timeout_action == TimeoutAction::ForceComplete,
    }
}

fn settings(config: &Config) -> Settings {
    let migration = &config.migration;
    Settings {
        deadlines: migration.deadlines.iter().filter_map(|(step, seconds)| Some((StepName::parse(step)?, *seconds))).collect(),
        recover_source_guest: migration.recover_source_guest,
        shutdown_grace_ms: u64::try_from(migration.shutdown_grace.duration().as_millis()).unwrap_or(u64::MAX),
        back_off_first: migration.back_off_first.duration(),
        back_off_max: migration.back_off_max.duration(),
        migrate_max_retries: usize::try_from(config.compute.live_migration.migrate_max_retries).ok(),
        ..Settings::default()
    }
}

/// Wires the door, and the APIs behind it.
async fn wiring(cloud: &Cloud, tree: &Tree, stops: watch::Receiver<bool>, chaos: Option<Chaos>) -> Result<Wiring, LaunchError> {
    let (services, config) = (cloud.services.clone(), &cloud.config);
    let policy = cloud.policy.clone();
    let anonymous = match config.api.authentication {
        Authentication::Token => None,
        Authentication::None => Some(anonymous::administrator(cloud).await?),
    };
    let patience = Patience { cell: config.cells.timeout.duration(), service: config.compute.service_down_time.duration() };
    let compute_api = web::Data::new(ComputeApi {
        registry: CellRegistry::remembering(config.cells.cache_down_servers, cloud.api.clone(), tree.cells.iter().cloned(), patience),
        operations: Arc::new(tree.conductor.clone()),
        images: services.images.clone(),
        network: services.network.clone(),
        volumes: services.volumes.clone(),
        policy: policy.clone(),
        env: cloud.env.clone(),
        consoles: Consoles::new(config.console.token_ttl.duration(), stops.clone()),
        options: Options {
            reclaims_later: !config.compute.reclaim_instance_interval.duration().is_zero(),
            default_availability_zone: config.scheduler.default_availability_zone.clone(),
            enable_instance_password: config.api.enable_instance_password,
            max_limit: max_limit(config),
            skip_down_cells: config.api.list_records_by_skipping_down_cells,
            scheduler_filters: config.scheduler.enabled_filters.clone(),
            offloads_at_once: config.compute.shelved_offload_time == 0,
        },
    });
    let catalog = web::Data::new(catalog(cloud, tree, policy.clone()));
    let of_catalog = catalog.clone();
    let proxied = proxied(&services);
    let of_compute: Part = Arc::new(move |part| {
        proxied(part);
        part.app_data(compute_api.clone()).app_data(of_catalog.clone()).configure(compute::configure);
    });
    let ready = readiness_of(cloud, tree);
    let agent_hosts: web::Data<dyn AgentHosts> = web::Data::from(catalog.clone().into_inner() as Arc<dyn AgentHosts>);
    let operators = of_operators(cloud, tree, (stops, chaos), catalog);
    let mut api_parts: Vec<Part> = vec![ready, operators, of_compute, of_services(&services, agent_hosts), bytes_of_hosts(tree)];
    if config.metrics.on_the_api() {
        api_parts.push(Arc::new(|part| {
            part.configure(metrics::configure);
        }));
    }
    Ok(Wiring {
        env: cloud.env.clone(),
        authenticator: services.identity,
        policy,
        anonymous,
        in_flight: InFlight::new(config.http.max_requests_in_flight),
        transfers: Transfers(InFlight::new(config.http.max_transfers)),
        arrivals: arrivals(&config.http),
        clients: Clients::new(config.http.public_endpoint.clone(), config.http.trusted_proxies.clone(), config.http.listen),
        cell_timeout: config.cells.timeout.duration(),
        parts: api_parts,
    })
}

/// Returns the part with the APIs of the embedded services, and the page.
fn of_services(services: &Services, agent_hosts: web::Data<dyn AgentHosts>) -> Part {
    let services = services.clone();
    let sessions: web::Data<dyn Sessions> = web::Data::from(services.identity.clone() as Arc<dyn Sessions>);
    Arc::new(move |part| {
        part.app_data(web::Data::from(services.identity.clone()))
            .app_data(sessions.clone())
            .app_data(web::Data::from(services.images.clone()))
            .app_data(web::Data::from(services.volumes.clone()))
            .app_data(web::Data::from(services.network.clone()))
            .app_data(agent_hosts.clone())
            .app_data(web::Data::from(services.placement.clone()))
            .configure(identity::routes::configure)
            .configure(image::routes::configure)
            .configure(volume::routes::configure)
            .configure(network::routes::configure)
            .configure(placement::routes::configure)
            .configure(ui::configure);
    })
}

/// Returns the part with the bytes of images for hosts.
fn bytes_of_hosts(tree: &Tree) -> Part {
    let images: web::Data<dyn ImageService> = web::Data::from(tree.world.images.clone());
    let tickets = web::Data::from(tree.tickets.clone());
    Arc::new(move |part| {
        part.app_data(images.clone()).app_data(tickets.clone()).configure(host_bytes::configure);
    })
}

/// Returns the part that gives the compute API's proxies the services that they ask.
fn proxied(services: &Services) -> Part {
    let images: web::Data<dyn ImageProxy> = web::Data::from(services.images.clone() as Arc<dyn ImageProxy>);
    let volumes: web::Data<dyn VolumeProxy> = web::Data::from(services.volumes.clone() as Arc<dyn VolumeProxy>);
    let network: web::Data<dyn NetworkProxy> = web::Data::from(services.network.clone() as Arc<dyn NetworkProxy>);
    Arc::new(move |part| {
        part.app_data(images.clone()).app_data(volumes.clone()).app_data(network.clone());
    })
}

/// Returns the part that tells whether the process is ready.
fn readiness_of(cloud: &Cloud, tree: &Tree) -> Part {
    let readiness = web::Data::new(Readiness {
        databases: vec![("api", cloud.api.db().clone()), ("services", cloud.services.placement.database().clone())],
        cells: tree.cells.clone(),
        hosts: HostsExpected::new(cloud.config.cells.hosts_expected as usize),
        seat: cloud.env.seat().clone(),
        conductors: tree.conductor.clone(),
        patience: cloud.config.cells.timeout.duration(),
        seen: tokio::sync::Mutex::default(),
    });
    Arc::new(move |part| {
        part.app_data(readiness.clone()).configure(readiness::configure);
    })
}

/// Returns the operators' API, and starts to keep its history.
fn of_operators(
    cloud: &Cloud,
    tree: &Tree,
    (stopping, chaos): (watch::Receiver<bool>, Option<Chaos>),
    catalog: web::Data<Catalog>,
) -> Part {
    let operators = web::Data::new(Operators {
        operations: tree.world.operations.clone(),
        hosts: tree.world.hosts.clone(),
        notifier: tree.notifier.clone(),
        watch: ops::Watch::new(tree.world.env.changes().clone()),
        recent: ops::Recent::default(),
        history: ops::History::default(),
        stopping,
        max_limit: cloud.config.api.max_limit,
        event_streams: Arc::new(tokio::sync::Semaphore::new(cloud.config.notifications.max_subscribers)),
        max_event_streams: cloud.config.notifications.max_subscribers,
        deep_audits: Arc::new(tokio::sync::Semaphore::new(1)),
        data_dir: cloud.config.data_dir.clone(),
        chaos,
        resets: cloud.resets.clone(),
        agents: agent_cells(cloud),
    });
    tokio::spawn(ops::keep_history(operators.clone(), catalog));
    let world = web::Data::from(tree.world.clone());
    Arc::new(move |part| {
        part.app_data(operators.clone()).app_data(world.clone()).configure(ops::configure);
    })
}

/// Returns the cells whose hosts are agents, for their operators.
fn agent_cells(cloud: &Cloud) -> AgentCells {
    let cells = cloud.config.nats.iter();
    let cells = cells.map(|(name, nats)| (name.clone(), AgentCell { servers: nats.servers.clone(), key: nats.key.clone() })).collect();
    AgentCells { deployment: cloud.deployment, cells }
}

/// Returns the data of the compute API's handlers that do not serve `/servers`.
fn catalog(cloud: &Cloud, tree: &Tree, policy: Arc<PolicyFile>) -> Catalog {
    let config = &cloud.config;
    Catalog {
        env: cloud.env.clone(),
        api: cloud.api.clone(),
        cells: tree.cells.clone(),
        placement: cloud.services.placement.clone(),
        policy,
        service_down_time: config.compute.service_down_time.duration(),
        cell_timeout: config.cells.timeout.duration(),
        default_zone: config.scheduler.default_availability_zone.clone(),
        default_limits: config.quota.limits(),
        counting: Counting { from_placement: config.quota.count_usage_from_placement, recheck: config.quota.recheck_quota },
        max_limit: max_limit(config),
        skip_down_cells: config.api.list_records_by_skipping_down_cells,
        host_networks: config.compute.networks(),
        key_turns: Turns::new(Turns::half_of_the_cores()),
    }
}

fn max_limit(config: &Config) -> usize {
    usize::try_from(config.api.max_limit).unwrap_or(usize::MAX)
}
