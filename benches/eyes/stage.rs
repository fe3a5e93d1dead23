//! A whole cloud, launched as by `cellshift serve`, on its own thread. The client stays on this thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;

use cellshift::bootstrap;
use cellshift::config::{Config, Seconds};
use cellshift::http::server;
use cellshift::launch::{environment, launch};
use cellshift::metrics::Metrics;
use cellshift::virt::Operation;

use crate::client::Client;

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(1800);

/// The step at which moves are held: their servers shut down.
pub const HELD_AT: &str = "stop_source_guest";
/// Longer than moves are to be held.
const HELD: Duration = Duration::from_secs(3600);
/// Allows a move to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";

/// The cloud and its callers.
pub struct Stage {
    pub admin: Client,
    pub metrics: Arc<Metrics>,
    pub address: SocketAddr,
    /// The file with the callers' passwords.
    pub clouds: PathBuf,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    _dir: TempDir,
}

impl Stage {
    /// Makes the cloud under the target directory, and logs in.
    pub async fn set(cells: u32, hosts_per_cell: u32, with_metrics: bool) -> Stage {
        Stage::of(cells, hosts_per_cell, |config| config.metrics.enabled = with_metrics).await
    }

    /// As [`Stage::set`], with metrics, and with traces for this collector.
    pub async fn set_traced(cells: u32, hosts_per_cell: u32, collector: &str) -> Stage {
        Stage::of(cells, hosts_per_cell, |config| config.tracing.otlp = Some(collector.to_owned())).await
    }

    /// As [`Stage::set`], with metrics, and with room for this many moves, which wait while their servers shut down.
    pub async fn set_for_moves(cells: u32, hosts_per_cell: u32, moves: usize) -> Stage {
        Stage::of(cells, hosts_per_cell, |config| {
            (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (4096, 4 << 20, 8192);
            (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
            config.migration.max_in_flight = 2 * moves;
            config.migration.shutdown_grace = Seconds::whole(HELD.as_secs());
            config.migration.deadlines.insert(HELD_AT.to_owned(), HELD.as_secs());
            config.compute.latency_ms.insert(Operation::GuestShutdown, HELD.as_secs() * 1000);
            std::fs::write(config.policy_file(), POLICY).expect("the policy file");
        })
        .await
    }

    async fn of(cells: u32, hosts_per_cell: u32, configure: impl FnOnce(&mut Config)) -> Stage {
        let dir = tempfile::Builder::new().prefix("eyes-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        (config.cells.count, config.cells.hosts_per_cell) = (Some(cells), Some(hosts_per_cell));
        configure(&mut config);
        // Each open page has its stream.
        config.notifications.max_subscribers = 200;
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let thread = std::thread::spawn(move || actix_rt::System::new().block_on(live(config, started, ended)));
        let (address, metrics) = starting.recv_timeout(PATIENCE).expect("the cloud starts");
        let clouds = dir.path().join("clouds.yaml");
        let admin = Client::log_in(address, &clouds, "cellshift-admin").await;
        Stage { admin, metrics, address, clouds, end, thread, _dir: dir }
    }

    /// Stops the cloud.
    pub fn strike(self) {
        let _ = self.end.send(());
        self.thread.join().expect("the cloud ends");
    }
}

async fn live(mut config: Config, started: mpsc::Sender<(SocketAddr, Arc<Metrics>)>, ended: oneshot::Receiver<()>) {
    let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    config.http.listen = listener.local_addr().expect("its address");
    let env = environment(&config);
    let cloud = bootstrap::open(config, env.clone()).await.expect("a cloud opens");
    let running = launch(cloud, listener).await.expect("a cloud runs");
    assert!(started.send((running.address, env.metrics().clone())).is_ok(), "the bench waits");
    let _ = ended.await;
    running.stop().await.expect("the cloud stops");
}
