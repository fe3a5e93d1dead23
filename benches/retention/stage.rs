//! A whole cloud on a real disk, launched as by `cellshift serve`, on its own thread, with a clock that the bench sets forward. The client
//! stays on this thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tempfile::TempDir;
use tokio::sync::oneshot;
use uuid::Uuid;

use cellshift::actors::conductor::ConductorHandle;
use cellshift::bootstrap;
use cellshift::config::{Config, Seconds};
use cellshift::env::{Blocking, Clock, Env, RandomIds, SystemClock};
use cellshift::http::server;
use cellshift::launch::launch;

use crate::client::Client;

/// Longer than any operation takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The pause between two runs of the retention.
const PURGE_EVERY: Duration = Duration::from_millis(500);

/// The system's clock, some days ahead.
#[derive(Clone, Default)]
struct Ahead(Arc<AtomicI64>);

impl Clock for Ahead {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + TimeDelta::days(self.0.load(Ordering::SeqCst))
    }
}

/// The cloud and its clock.
pub struct Stage {
    clock: Ahead,
    address: SocketAddr,
    conductor: ConductorHandle,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    dir: TempDir,
}

impl Stage {
    /// Makes the cloud under the target directory, and starts it.
    pub fn set() -> Stage {
        let dir = tempfile::Builder::new().prefix("retention-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let config = config(&dir);
        std::fs::write(config.policy_file(), POLICY).expect("the policy file");
        let clock = Ahead::default();
        let env = Env::new(Arc::new(clock.clone()), Arc::new(RandomIds), Blocking::Pool);
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let thread = std::thread::spawn(move || actix_rt::System::new().block_on(live(config, env, started, ended)));
        let (address, conductor) = starting.recv_timeout(PATIENCE).expect("the cloud starts");
        Stage { clock, address, conductor, end, thread, dir }
    }

    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the member with a new token.
    pub async fn log_in(&self) -> Client {
        Client::log_in(self.address, &self.dir.path().join("clouds.yaml"), "cellshift").await
    }

    /// Waits until no work for the server is left, including work that its user does not see.
    pub async fn rest(&self, server: Uuid) {
        self.conductor.until_at_rest(server).await.expect("the journal can be read");
    }

    /// Sets the cloud's clock forward. No operation may be in flight.
    pub fn set_forward(&self, days: i64) {
        self.clock.0.fetch_add(days, Ordering::SeqCst);
    }

    /// Waits for some runs of the retention.
    pub async fn purged(&self) {
        tokio::time::sleep(PURGE_EVERY * 4).await;
    }

    /// Stops the cloud.
    pub fn strike(self) {
        drop(self.conductor);
        let _ = self.end.send(());
        self.thread.join().expect("the cloud ends");
    }
}

/// Returns the default configuration with room and quotas for all servers, and with frequent runs of the retention.
fn config(dir: &TempDir) -> Config {
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    config.identity.password_cost = cellshift_embedded::identity::Cost::CHEAP;
    (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (4096, 4 << 20, 8192);
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.retention.interval = Seconds::millis(PURGE_EVERY.as_millis() as u64);
    // Files of notifications are small enough to fill within the first day, so that each line of the table has their full size.
    config.notifications.rotate_bytes = 4 << 20;
    // The hosts stay up when the clock is set forward.
    config.compute.service_down_time = Seconds::whole(1_000_000_000);
    config.log.level = "error".to_owned();
    config
}

async fn live(mut config: Config, env: Env, started: mpsc::Sender<(SocketAddr, ConductorHandle)>, ended: oneshot::Receiver<()>) {
    let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    config.http.listen = listener.local_addr().expect("its address");
    let cloud = bootstrap::open(config, env).await.expect("a cloud opens");
    let running = launch(cloud, listener).await.expect("a cloud runs");
    assert!(started.send((running.address, running.tree.conductor.clone())).is_ok(), "the bench waits");
    let _ = ended.await;
    running.stop().await.expect("the cloud stops");
}
