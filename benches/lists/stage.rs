//! A whole cloud on a real disk, launched as by `cellshift serve`, on its own thread, with servers written straight into its databases. The
//! client stays on this thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;

use cellshift::actors::cell::CellHandle;
use cellshift::bootstrap;
use cellshift::chaos::borders::FaultyBorders;
use cellshift::config::{Config, Seconds};
use cellshift::env::Env;
use cellshift::http::server;
use cellshift::launch::launch;

use crate::client::Client;
use crate::databases::Databases;
use crate::fill::{self, Source};

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(1800);

/// The cloud and the caller.
pub struct Stage {
    pub member: Client,
    /// All cells except cell0.
    pub cells: Vec<CellHandle>,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    _placed: Databases,
    _dir: TempDir,
}

/// The access to the cloud's thread.
struct Running {
    address: SocketAddr,
    cells: Vec<CellHandle>,
}

impl Stage {
    /// Makes the cloud under the target directory, fills and starts it, and logs in. A request waits for cells at most for `patience`.
    pub async fn set(source: &Source, cells: usize, patience: Seconds) -> Stage {
        let dir = tempfile::Builder::new().prefix("lists-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        (config.cells.count, config.cells.hosts_per_cell) = (u32::try_from(cells).ok(), Some(1));
        config.cells.timeout = patience;
        let placed = Databases::place(&mut config, u32::try_from(cells).expect("a number of cells"));
        let source = source.clone();
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let thread = std::thread::spawn(move || actix_rt::System::new().block_on(live(config, source, started, ended)));
        let Running { address, cells } = starting.recv_timeout(PATIENCE).expect("the cloud starts");
        let member = Client::log_in(address, &dir.path().join("clouds.yaml"), "cellshift").await;
        Stage { member, cells, end, thread, _placed: placed, _dir: dir }
    }

    /// Stops the cloud.
    pub fn strike(self) {
        drop(self.cells);
        let _ = self.end.send(());
        self.thread.join().expect("the cloud ends");
    }
}

async fn live(mut config: Config, source: Source, started: mpsc::Sender<Running>, ended: oneshot::Receiver<()>) {
    let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    config.http.listen = listener.local_addr().expect("its address");
    let cloud = bootstrap::open(config, FaultyBorders::of(Env::system())).await.expect("a cloud opens");
    fill::fill(&cloud, &source).await;
    let running = launch(cloud, listener).await.expect("a cloud runs");
    let cells = running.tree.cells.iter().filter(|cell| cell.name != "cell0").cloned().collect();
    assert!(started.send(Running { address: running.address, cells }).is_ok(), "the bench waits");
    let _ = ended.await;
    running.stop().await.expect("the cloud stops");
}
