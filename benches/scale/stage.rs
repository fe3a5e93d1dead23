//! The program as a process with many hosts, over SQLite files under the target directory.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use cellshift::config::Config;

use crate::client::Client;

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// The directory of the service.
pub struct Stage {
    dir: TempDir,
    hosts: usize,
}

/// A life of the service.
pub struct RunningService {
    process: Child,
    pub admin: Client,
}

/// The processor time and the memory of a process.
#[derive(Clone, Copy)]
pub struct Usage {
    pub processor: Duration,
    pub memory_kib: u64,
}

impl Stage {
    pub fn set(hosts: usize) -> Stage {
        let dir =
            tempfile::Builder::new().prefix("scale-").permissions(Permissions::from_mode(0o700)).tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Stage { dir: dir.expect("a directory"), hosts }
    }

    /// Starts the program, and returns once it listens.
    pub async fn start(&self) -> RunningService {
        let file = self.dir.path().join("cellshift.toml");
        std::fs::write(&file, self.config().to_toml().expect("TOML")).expect("the configuration");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its owner's only");
        let mut process = Command::new(env!("CARGO_BIN_EXE_cellshift"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut said = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut said).expect("a line");
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse::<SocketAddr>().ok());
        let address = address.unwrap_or_else(|| panic!("it says where it listens, not {said:?}"));
        let admin = Client::log_in(address, &self.dir.path().join("clouds.yaml"), "cellshift-admin").await;
        RunningService { process, admin }
    }

    fn config(&self) -> Config {
        let mut config = Config { data_dir: self.dir.path().to_owned(), ..Config::default() };
        let cells = if self.hosts < 20 { 2 } else { 10 };
        (config.cells.count, config.cells.hosts_per_cell) = (Some(cells), u32::try_from(self.hosts).ok().map(|hosts| hosts / cells));
        (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
        config.log.level = "warn".to_owned();
        config
    }
}

impl RunningService {
    /// Returns the processor time since the start, and the memory that the process holds now.
    pub fn usage(&self) -> Usage {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.process.id())).expect("the process lives");
        let stat = read("stat");
        // The second field, the name, may have spaces; the ninth after it is counted in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("its fields").split(' ').collect();
        let ticks: u64 = [11, 12].iter().map(|place| fields[*place].parse::<u64>().expect("a number")).sum();
        let status = read("status");
        let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the memory");
        let memory_kib = held.trim().trim_end_matches(" kB").parse().expect("a number");
        Usage { processor: Duration::from_millis(ticks * 10), memory_kib }
    }

    /// Ends the process as a service manager does, and waits for its end.
    pub fn stop(mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it can be told");
        self.process.wait().expect("it ends");
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
