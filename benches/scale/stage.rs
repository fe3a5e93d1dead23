//! The program as a process with many hosts, with its files under the target directory.

use std::time::Duration;

use tempfile::TempDir;

use cellshift::config::Config;

use crate::client::Client;
use crate::databases::Databases;
use crate::process::{Process, directory};

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// The directory and the databases of the service.
pub struct Stage {
    config: Config,
    _placed: Databases,
    dir: TempDir,
}

/// A life of the service.
pub struct RunningService {
    pub process: Process,
    pub admin: Client,
}

impl Stage {
    pub fn set(hosts: usize) -> Stage {
        let dir = directory("scale-");
        let cells = if hosts < 20 { 2 } else { 10 };
        let mut config = config(&dir, hosts, cells);
        let placed = Databases::place(&mut config, cells);
        Stage { config, _placed: placed, dir }
    }

    /// Starts the program, and returns once it listens.
    pub async fn start(&self) -> RunningService {
        let process = Process::start(&self.config);
        let admin = Client::log_in(process.address, &self.dir.path().join("clouds.yaml"), "cellshift-admin").await;
        RunningService { process, admin }
    }
}

fn config(dir: &TempDir, hosts: usize, cells: u32) -> Config {
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    (config.cells.count, config.cells.hosts_per_cell) = (Some(cells), u32::try_from(hosts).ok().map(|hosts| hosts / cells));
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.log.level = "warn".to_owned();
    config
}
