//! A NATS server for tests, as a child process on a free port of loopback (Debian's package `nats-server`), a proxy
//! before one, and clients of any kind.

pub mod proxy;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::config::{AgentUser, ServerConfig, TlsFiles};
use crate::credentials::UserKey;
use crate::subjects::{CellAddress, Name};

/// The places of the server's program where it is not on the `PATH`.
const PLACES: [&str; 3] = ["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"];
/// The name of the cell, unless the test chooses one. It has a dot, as names may have.
const CELL: &str = "cell.1";
/// The pause between two looks whether the server listens.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// The time within which the server listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A NATS server with users. It ends with this value.
pub struct Broker {
    folder: TempDir,
    address: SocketAddr,
    process: Option<Child>,
    /// The cell that it serves.
    pub cell: CellAddress,
    /// The key of the controllers.
    pub controllers: UserKey,
    agents: Vec<(Name, UserKey)>,
}

impl Broker {
    /// Starts a server with a user for the controllers and for the agent of each host.
    pub async fn start(hosts: &[&str]) -> Broker {
        Broker::of_cell(CELL, hosts).await
    }

    /// As [`Broker::start`], for a cell with this name.
    pub async fn of_cell(cell: &str, hosts: &[&str]) -> Broker {
        Broker::with(cell, hosts, false).await
    }

    /// Starts a server that insists on TLS. Its certificate is by `tls/authority.pem`.
    pub async fn with_tls(hosts: &[&str]) -> Broker {
        Broker::with(CELL, hosts, true).await
    }

    async fn with(cell: &str, hosts: &[&str], tls: bool) -> Broker {
        let folder = tempfile::tempdir().expect("a folder");
        let agents = hosts.iter().map(|host| (name(host), new_key())).collect();
        let (cell, address) = (CellAddress::new(name(cell)), free_address());
        let mut broker = Broker { folder, address, process: None, cell, controllers: new_key(), agents };
        loop {
            broker.write_config(tls);
            broker.start_process();
            if broker.listens().await {
                return broker;
            }
            // Another program has taken the port meanwhile.
            broker.kill();
            broker.address = free_address();
        }
    }

    /// Returns where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the key of a host's agent.
    pub fn agent(&self, host: &str) -> &UserKey {
        &self.agents.iter().find(|(name, _)| name.as_str() == host).expect("an agent of the broker").1
    }

    /// Ends the server's process at once.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("the server is killed");
            process.wait().expect("the server ends");
        }
    }

    /// Starts the server again after [`Broker::kill`], at the same address.
    pub async fn start_again(&mut self) {
        self.start_process();
        assert!(self.listens().await, "the server starts again");
    }

    fn write_config(&self, tls: bool) {
        let agents = self.agents.iter().map(|(host, key)| AgentUser { host: host.clone(), public_key: key.public.clone() });
        let config = ServerConfig {
            cell: self.cell.clone(),
            listen: self.address.to_string(),
            tls: tls.then(|| TlsFiles { certificate: tls_file("server.pem"), key: tls_file("server.key") }),
            controllers: self.controllers.public.clone(),
            agents: agents.collect(),
        };
        std::fs::write(self.config_file(), config.text().expect("a configuration")).expect("a file");
    }

    fn start_process(&mut self) {
        let log = std::fs::File::create(self.log_file()).expect("a file");
        let mut command = Command::new(program());
        command.arg("-c").arg(self.config_file()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("nats-server starts"));
    }

    /// Returns when the server listens; false if it has ended instead.
    async fn listens(&mut self) -> bool {
        let (address, process) = (self.address, self.process.as_mut().expect("a process"));
        let looking = async {
            loop {
                let has_ended = process.try_wait().expect("the process is looked at").is_some();
                if has_ended || TcpStream::connect(address).is_ok() {
                    return has_ended;
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        };
        let has_ended = tokio::time::timeout(PATIENCE, looking).await.expect("the server listens");
        let log = std::fs::read_to_string(self.log_file()).expect("a log");
        assert!(!has_ended || log.contains("address already in use"), "{log}");
        !has_ended
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join("nats.conf")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a client of the library's own at the server, with the key of one of its users: it sends whatever it is given.
pub async fn raw_client(server: SocketAddr, key: &UserKey) -> async_nats::Client {
    let options = async_nats::ConnectOptions::new().nkey(key.seed.expose().clone());
    options.connect(format!("nats://{server}")).await.expect("the server takes the user")
}

/// Returns a file for TLS: `authority.pem` has signed `server.pem`, whose key is `server.key`.
pub fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn new_key() -> UserKey {
    UserKey::new().expect("a key")
}

fn program() -> PathBuf {
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let places = on_path.map(|folder| folder.join("nats-server")).chain(PLACES.map(PathBuf::from));
    places.into_iter().find(|place| place.is_file()).expect("nats-server is here (install Debian's package nats-server)")
}
