//! A PostgreSQL server of a single test, which may stop, kill and pause it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cellshift::env::Env;
use diesel::Connection;
use diesel::connection::SimpleConnection;

pub struct PostgresServer {
    dir: tempfile::TempDir,
    address: SocketAddr,
    password: String,
}

impl PostgresServer {
    /// Makes and starts a server on a free loopback port.
    pub fn start() -> PostgresServer {
        let dir = directory();
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
        let password = Env::system().uuid().simple().to_string();
        std::fs::write(dir.path().join("password"), &password).expect("a file");
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres:"]).arg(dir.path()));
        }
        let server = PostgresServer { dir, address: free, password };
        let made = ["-D", "data", "-U", "postgres", "--pwfile=password", "--auth=scram-sha-256", "--no-sync", "--locale=C"];
        run(server.program("initdb").args(made));
        server.go();
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of its database at this address.
    pub fn url_at(&self, address: SocketAddr) -> String {
        format!("postgres://postgres:{}@{address}/postgres", self.password)
    }

    /// Returns the URL of a fresh database at this address.
    pub fn fresh_database_at(&self, address: SocketAddr) -> String {
        let name = format!("test_{}", Env::system().uuid().simple());
        let mut admin = diesel::PgConnection::establish(&self.url_at(self.address)).expect("it answers");
        admin.batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
        format!("postgres://postgres:{}@{address}/{name}", self.password)
    }

    /// Starts the server after a stop.
    pub fn go(&self) {
        let socket = self.dir.path().display();
        // With synchronous commits: acknowledged commits must outlive a crash of the server.
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={socket} -c max_connections=300 -c fsync=off",
            self.address.port()
        );
        run(self.program("pg_ctl").args(["-D", "data", "-l", "log", "-w", "-t", "60", "-o"]).arg(options).arg("start"));
    }

    /// Stops the server as a crash would.
    pub fn crash(&self) {
        run(self.program("pg_ctl").args(["-D", "data", "-w", "-m", "immediate", "stop"]));
    }

    /// Makes all of its processes stand still: connections stay, and no request is answered.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Makes its processes go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let text = std::fs::read_to_string(self.dir.path().join("data/postmaster.pid")).expect("it runs");
        let postmaster = text.lines().next().expect("a process id").to_owned();
        // The postmaster first, so that it starts no other process.
        run(Command::new("kill").arg(signal).arg(&postmaster));
        for child in children_of(&postmaster) {
            // The process may have ended by itself.
            let _ = Command::new("kill").arg(signal).arg(child).stderr(Stdio::null()).status();
        }
    }

    /// Prepares a program of PostgreSQL in the server's directory, as a user who may run it.
    fn program(&self, name: &str) -> Command {
        let path = program(name);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups"]).arg(path);
                command
            }
            false => Command::new(path),
        };
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.dir.path().join("data/postmaster.pid").exists() {
            self.resume();
            self.crash();
        }
    }
}

/// Returns a directory that the server's user may enter: the tests' directory for temporary files may be closed to it.
fn directory() -> tempfile::TempDir {
    match is_root() {
        true => tempfile::tempdir_in("/tmp"),
        false => tempfile::tempdir(),
    }
    .expect("a directory")
}

/// Returns a program on the PATH, or where Debian keeps the newest version.
pub fn program(name: &str) -> PathBuf {
    let on_path =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).map(|dir| dir.join(name)).find(|path| path.is_file());
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(name))))
        .filter(|(_, path)| path.is_file())
        .collect();
    versions.sort();
    on_path.or_else(|| versions.pop().map(|(_, path)| path)).unwrap_or_else(|| panic!("PostgreSQL's {name} is not installed"))
}

fn children_of(parent: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let is_child = |process: &Path| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // After the name, which may contain anything: the state, then the parent.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(parent)
    };
    processes.filter(|process| is_child(&process.path())).map(|process| process.file_name().to_string_lossy().into_owned()).collect()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    id.stdout.starts_with(b"0\n")
}

#[track_caller]
fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
