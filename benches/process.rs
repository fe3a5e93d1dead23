//! The program as a process of its own.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use cellshift::config::Config;

/// A running service. Dropping it kills the process with `kill -9`.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

/// The processor time and the memory of a process.
#[derive(Clone, Copy)]
pub struct Usage {
    pub processor: Duration,
    pub memory_kib: u64,
}

/// Returns the processor time of a process since its start, and the memory that it holds now.
pub fn usage_of(process: u32) -> Usage {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process lives");
    // The second field, the name, may have spaces; the ninth after it is counted in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("its fields").split(' ').collect();
    let ticks: u64 = [11, 12].iter().map(|place| fields[*place].parse::<u64>().expect("a number")).sum();
    Usage { processor: Duration::from_millis(ticks * 10), memory_kib: status_kib(process, "VmRSS") }
}

/// Returns a size from the status of a process in KiB.
pub fn status_kib(process: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process lives");
    let size = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).expect("the size");
    size.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Makes a directory under the target directory, for its owner only.
pub fn directory(prefix: &str) -> TempDir {
    let owners = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(owners).tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

impl Process {
    /// Starts the program with this configuration, and returns once it listens.
    pub fn start(config: &Config) -> Process {
        let file = config.data_dir.join("cellshift.toml");
        std::fs::write(&file, config.to_toml().expect("TOML")).expect("the configuration");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its owner's only");
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellshift"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut said).expect("a line");
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse().ok());
        Process { child, address: address.unwrap_or_else(|| panic!("it says where it listens, not {said:?}")) }
    }

    /// Returns the processor time since the start, and the memory that the process holds now.
    pub fn usage(&self) -> Usage {
        usage_of(self.id())
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as a service manager does, and waits for its end.
    pub fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it can be told");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
