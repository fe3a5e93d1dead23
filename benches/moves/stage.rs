//! A whole cloud on a real disk, launched as by `cellshift serve`, on its own thread. The client stays on this thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, web};
use tempfile::TempDir;
use tokio::sync::oneshot;

use cellshift::actors::conductor::ConductorHandle;
use cellshift::bootstrap;
use cellshift::config::Config;
use cellshift::db::{Calls, Db};
use cellshift::env::Env;
use cellshift::http::server;
use cellshift::launch::launch;

use crate::client::Client;
use crate::databases;
use crate::events::Events;

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The number of cells of the default configuration.
const CELLS: u32 = 2;
/// The bare handler, which answers with the requested number of bytes.
pub const BARE: &str = "/bare";

/// The cloud and the caller.
pub struct Stage {
    pub member: Client,
    pub admin: Client,
    /// The member as a caller of a server that only has the bare handler.
    pub bare: Client,
    pub events: Events,
    running: Running,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    config: Config,
    placed: databases::Databases,
    dir: TempDir,
}

/// The access to the cloud's thread.
struct Running {
    address: SocketAddr,
    bare: SocketAddr,
    conductor: ConductorHandle,
    databases: Vec<Db>,
}

/// The databases of a stopped cloud. They are closed before they are removed.
pub struct Databases {
    pub opened: Vec<Db>,
    _placed: databases::Databases,
    dir: TempDir,
}

impl Databases {
    /// Returns the directory of the cloud's files.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }
}

impl Stage {
    /// Makes the cloud under the target directory, starts it and logs in.
    pub async fn set() -> Stage {
        Stage::set_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).await
    }

    /// Makes the cloud in a new directory below `place`, starts it and logs in.
    pub async fn set_in(place: &Path) -> Stage {
        Stage::set_of(place, (CELLS, None)).await
    }

    /// As [`Stage::set_in`], with this number of cells and of hosts in each.
    pub async fn set_of(place: &Path, (cells, hosts_per_cell): (u32, Option<u32>)) -> Stage {
        let dir = tempfile::Builder::new().prefix("moves-").tempdir_in(place).expect("a directory");
        let mut config = config(&dir);
        (config.cells.count, config.cells.hosts_per_cell) = (Some(cells), hosts_per_cell);
        let placed = databases::Databases::place(&mut config, cells);
        std::fs::write(config.policy_file(), POLICY).expect("the policy file");
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let lived = config.clone();
        let thread = std::thread::spawn(move || actix_rt::System::new().block_on(live(lived, started, ended)));
        let running = starting.recv_timeout(PATIENCE).expect("the cloud starts");
        let clouds = dir.path().join("clouds.yaml");
        let member = Client::log_in(running.address, &clouds, "cellshift").await;
        let admin = Client::log_in(running.address, &clouds, "cellshift-admin").await;
        let events = Events::follow(&admin).await;
        let bare = member.at(running.bare);
        Stage { member, admin, bare, events, running, end, thread, config, placed, dir }
    }

    /// Returns the calls so far, by database in the order of [`Databases::opened`].
    pub fn calls(&self) -> Vec<Calls> {
        self.running.databases.iter().map(Db::calls).collect()
    }

    /// Waits until no work for the server is left, including work that its user does not see.
    pub async fn rest(&self, server: uuid::Uuid) {
        self.running.conductor.until_at_rest(server).await.expect("the journal can be read");
    }

    /// Stops the cloud and opens its databases again, for the floor.
    pub async fn strike(self) -> Databases {
        let places: Vec<String> = self.running.databases.iter().map(|db| db.name().to_owned()).collect();
        drop(self.events);
        drop(self.running);
        let _ = self.end.send(());
        self.thread.join().expect("the cloud ends");
        let env = Env::system();
        let opened = places.iter().map(|name| databases::Databases::open(&self.config, name, &env)).collect();
        Databases { opened, _placed: self.placed, dir: self.dir }
    }
}

/// Returns the default configuration with hosts and quotas for a thousand servers.
fn config(dir: &TempDir) -> Config {
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    config.identity.password_cost = cellshift_embedded::identity::Cost::CHEAP;
    (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (4096, 4 << 20, 8192);
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.network.quota_port = -1;
    // No simulated pace, and no queue: the service's own share is measured.
    config.compute.live_migration.bandwidth_mib = 0;
    config.compute.max_concurrent_live_migrations = 64;
    config
}

async fn live(mut config: Config, started: mpsc::Sender<Running>, ended: oneshot::Receiver<()>) {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = server::bind(any_port).expect("a port");
    config.http.listen = listener.local_addr().expect("its address");
    let cloud = bootstrap::open(config, Env::system()).await.expect("a cloud opens");
    let mut databases = vec![cloud.api.db().clone(), cloud.services.db.clone()];
    databases.extend(cloud.cells.iter().filter(|cell| !cell.hosts.is_empty()).map(|cell| cell.db.db().clone()));
    let running = launch(cloud, listener).await.expect("a cloud runs");
    // As many workers as the cloud: one per core.
    let bare = HttpServer::new(|| App::new().route(BARE, web::get().to(answer_bytes))).disable_signals();
    let bare = bare.workers(std::thread::available_parallelism().map_or(1, usize::from)).bind(any_port).expect("a port");
    let bare_address = bare.addrs()[0];
    let bare = bare.run();
    let bare_handle = bare.handle();
    actix_rt::spawn(bare);
    let report = Running { address: running.address, bare: bare_address, conductor: running.tree.conductor.clone(), databases };
    assert!(started.send(report).is_ok(), "the bench waits");
    let _ = ended.await;
    bare_handle.stop(false).await;
    running.stop().await.expect("the cloud stops");
}

#[derive(serde::Deserialize)]
struct Size {
    bytes: usize,
}

async fn answer_bytes(size: web::Query<Size>) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(vec![b' '; size.bytes])
}
