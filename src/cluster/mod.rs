//! A cloud of many processes on one machine: for each of two cells a NATS server and some agents, and one controller. `cellshift cluster` and
//! the tests of the cluster start it, and end and start its processes by their roles.

mod broker;
mod children;
mod files;
mod hardware;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use cellshift_nats::config::{AgentUser, ConfigError, ServerConfig};
use cellshift_nats::credentials::{CredentialsError, UserKey};
use cellshift_nats::{CellAddress, Name, NameError};
pub use rustix::process::Signal;
use tokio::time::{Instant, timeout};

use self::children::{Children, LOOK_EVERY};
use self::files::Files;
pub use self::{children::Role, files::OWN};
use crate::agent::config::{AgentConfig, AgentHost, AgentNats};
use crate::client::enrolment::enrol;
use crate::client::{ADMIN, CLOUDS_FILE, Client, ClientError, OPERATORS};
use crate::config::{Config, Nats};

/// The cells of a cluster.
pub const CELLS: [&str; 2] = ["cell1", "cell2"];
/// The number of agents of each cell at the first start.
pub const DEFAULT_AGENTS: u32 = 2;
/// The time within which each part of a start must be done on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum time for one question to the controller while it starts.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// The time that processes get to end by themselves, beside the controller's own grace.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// The words of a NATS server whose port another program has taken.
const PORT_IS_TAKEN: &str = "address already in use";

/// The reason why a cluster cannot start or end.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The NATS server's program is missing.
    #[error("a cluster needs nats-server, and there is none on the PATH: install it (Debian and Ubuntu: the package nats-server)")]
    NoNatsServer,
    /// No port of loopback can be had.
    #[error("there is no free port: {0}")]
    NoPort(std::io::Error),
    /// A file cannot be made, or a program not run.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A key cannot be made or read.
    #[error(transparent)]
    Key(#[from] CredentialsError),
    /// A cell or a host has a name that NATS does not take.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The configuration of a NATS server cannot be written.
    #[error(transparent)]
    Broker(#[from] ConfigError),
    /// The configuration of a child cannot be written.
    #[error("a configuration cannot be written: {0}")]
    Config(#[from] toml::ser::Error),
    /// A child has ended before the cluster was ready.
    #[error("{role} has ended ({status}): {last_words} ({} has all of it)", log.display())]
    Ended { role: Role, status: ExitStatus, last_words: String, log: PathBuf },
    /// A part of the start takes too long.
    #[error("still not so after {} s: {what}", PATIENCE.as_secs())]
    TooLong { what: String },
    /// The controller refused a request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The directory has more agents than asked for.
    #[error("--agents is {wish}, and the data directory has {there} agents per cell: leave the option out, or give at least {there}")]
    Fewer { wish: u32, there: u32 },
}

impl ClusterError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> ClusterError {
        let path = path.to_owned();
        move |source| ClusterError::File { path, source }
    }
}

/// A cluster to start.
pub struct Plan {
    /// The data directory, with its whole path.
    pub dir: PathBuf,
    /// The program cellshift.
    pub program: PathBuf,
    /// The number of agents of each cell; by default those of the directory, or [`DEFAULT_AGENTS`].
    pub agents: Option<u32>,
    /// The controller's configuration, whose hosts are the agents'. Its data directory, cells and NATS are the cluster's.
    pub config: Config,
}

/// A cell of a cluster.
struct Cell {
    name: String,
    address: SocketAddr,
    controllers: UserKey,
    hosts: Vec<(String, UserKey)>,
}

impl Cell {
    /// Makes the keys that are missing.
    fn make(files: &Files, name: &str, hosts: &[String]) -> Result<Cell, ClusterError> {
        let hosts = hosts.iter().map(|host| Ok((host.clone(), files::key(&files.agent_key(host))?)));
        Ok(Cell {
            name: name.to_owned(),
            address: broker::free_address()?,
            controllers: files::key(&files.controllers_key(name))?,
            hosts: hosts.collect::<Result<_, ClusterError>>()?,
        })
    }

    fn broker(&self) -> Role {
        Role::Broker(self.name.clone())
    }

    /// Returns the configuration of the cell's NATS server.
    fn broker_config(&self) -> Result<String, ClusterError> {
        let user = |(host, key): &(String, UserKey)| Ok(AgentUser { host: Name::parse(host)?, public_key: key.public.clone() });
        let config = ServerConfig {
            cell: CellAddress::new(Name::parse(&self.name)?),
            listen: self.address.to_string(),
            tls: None,
            controllers: self.controllers.public.clone(),
            agents: self.hosts.iter().map(user).collect::<Result<_, NameError>>()?,
        };
        Ok(config.text()?)
    }
}

fn nats_url(address: SocketAddr) -> String {
    format!("nats://{address}")
}

/// A running cluster. Its processes end with it, and with the thread that started it.
pub struct Cluster {
    files: Files,
    program: PathBuf,
    nats_server: PathBuf,
    config: Config,
    cells: Vec<Cell>,
    children: Children,
}

impl Cluster {
    /// Starts all processes, and returns when the controller is ready and all agents have said hello. If anything fails, nothing is left
    /// running.
    pub async fn start(plan: Plan) -> Result<Cluster, ClusterError> {
        Cluster::start_through(plan, |_, server| server).await
    }

    /// As [`Cluster::start`], with agents that reach their cell's NATS server where `way` says, such as at a proxy: it gets the host's name and
    /// the server's own address.
    pub async fn start_through(plan: Plan, way: impl FnMut(&str, SocketAddr) -> SocketAddr) -> Result<Cluster, ClusterError> {
        let mut cluster = Cluster::prepare(plan)?;
        for number in 0..cluster.cells.len() {
            cluster.start_broker(number).await?;
        }
        cluster.configure_controller()?;
        cluster.restart(&Role::Controller)?;
        cluster.until_it_answers().await?;
        let client = Client::log_in(&cluster.clouds_file(), ADMIN).await?;
        cluster.enrol_agents(&client, way).await?;
        for role in cluster.agents() {
            cluster.restart(&role)?;
        }
        cluster.until_ready().await?;
        cluster.until_recorded(&client).await?;
        for cell in &cluster.cells {
            let hosts: Vec<String> = cell.hosts.iter().map(|(host, _)| host.clone()).collect();
            hardware::place(&client, &cell.name, &hosts).await?;
        }
        Ok(cluster)
    }

    /// Makes directories, keys and addresses.
    fn prepare(plan: Plan) -> Result<Cluster, ClusterError> {
        let Plan { dir, program, agents, mut config } = plan;
        let nats_server = broker::program()?;
        let files = Files::of(&dir);
        let there = CELLS.iter().map(|cell| files.agents_of(cell)).max().unwrap_or_default();
        let number = match agents {
            Some(wish) if wish < there => return Err(ClusterError::Fewer { wish, there }),
            Some(wish) => wish,
            None if there > 0 => there,
            None => DEFAULT_AGENTS,
        };
        let hosts = CELLS.map(|cell| (1..=number).map(|number| format!("{cell}-host{number}")).collect::<Vec<String>>());
        files.make_directories(hosts.iter().flatten().map(String::as_str))?;
        let cells = CELLS.iter().zip(&hosts).map(|(cell, hosts)| Cell::make(&files, cell, hosts)).collect::<Result<Vec<_>, _>>()?;
        if config.http.listen.port() == 0 {
            config.http.listen.set_port(broker::free_address()?.port());
        }
        Ok(Cluster { files, children: Children::of(&program), program, nats_server, config, cells })
    }

    /// Returns the address at which the controller can be asked from this machine.
    pub fn address(&self) -> SocketAddr {
        let listen = self.config.http.listen;
        let ip = if listen.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listen.ip() };
        SocketAddr::new(ip, listen.port())
    }

    /// Returns the file with the clouds of the first accounts.
    pub fn clouds_file(&self) -> PathBuf {
        self.files.data().join(CLOUDS_FILE)
    }

    /// Returns each cell's name with the number of its agents.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.cells.iter().map(|cell| (cell.name.as_str(), cell.hosts.len()))
    }

    /// Returns the running children with the ids of their processes.
    pub fn processes(&self) -> impl Iterator<Item = (&Role, u32)> {
        self.children.ids()
    }

    /// Returns the configuration of a child.
    pub fn config(&self, role: &Role) -> PathBuf {
        self.files.config(role)
    }

    /// Returns the log of a child.
    pub fn log(&self, role: &Role) -> PathBuf {
        self.files.log(role)
    }

    /// Returns the command line of a child.
    pub fn line(&self, role: &Role) -> Vec<OsString> {
        let config: OsString = self.files.config(role).into();
        let program: OsString = self.program.clone().into();
        match role {
            Role::Broker(_) => vec![self.nats_server.clone().into(), "-c".into(), config],
            Role::Controller => vec![program, "serve".into(), "--config".into(), config],
            Role::Agent(_) => vec![program, "compute".into(), "--config".into(), config],
        }
    }

    /// Starts a child with the configuration that it has, and does not wait for it.
    pub fn restart(&mut self, role: &Role) -> Result<(), ClusterError> {
        let (line, log) = (self.line(role), self.files.log(role));
        self.children.start(role.clone(), &line, &log)
    }

    /// Kills a child at once, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self, role: &Role) -> Result<(), ClusterError> {
        self.children.kill(role)
    }

    /// Sends a signal to a child.
    pub fn signal(&self, role: &Role, signal: Signal) -> Result<(), ClusterError> {
        self.children.signal(role, signal)
    }

    /// Returns the children that have ended since the last call.
    pub fn ended(&mut self) -> Vec<(Role, ExitStatus)> {
        self.children.ended()
    }

    /// Ends all processes in order: the controller, whose operations stay in its journal, then agents, then NATS servers.
    pub async fn stop(mut self) -> Result<(), ClusterError> {
        let grace = END_PATIENCE + self.config.http.shutdown_grace.duration();
        self.children.stop(|role| *role == Role::Controller, grace).await?;
        self.children.stop(|role| matches!(role, Role::Agent(_)), END_PATIENCE).await?;
        self.children.stop(|_| true, END_PATIENCE).await
    }

    /// Returns the roles of all agents.
    pub fn agents(&self) -> Vec<Role> {
        self.cells.iter().flat_map(|cell| &cell.hosts).map(|(host, _)| Role::Agent(host.clone())).collect()
    }

    /// Starts the NATS server of a cell, on another port if its own has been taken meanwhile.
    async fn start_broker(&mut self, number: usize) -> Result<(), ClusterError> {
        loop {
            let cell = &self.cells[number];
            let (role, address) = (cell.broker(), cell.address);
            files::write(&self.files.config(&role), &cell.broker_config()?)?;
            self.restart(&role)?;
            let listens = self.until(&role, &format!("{role} listens"), async || TcpStream::connect(address).is_ok()).await;
            match listens {
                Err(ClusterError::Ended { last_words, .. }) if last_words.contains(PORT_IS_TAKEN) => {
                    self.children.kill(&role)?;
                    self.cells[number].address = broker::free_address()?;
                }
                outcome => return outcome,
            }
        }
    }

    fn configure_controller(&mut self) -> Result<(), ClusterError> {
        let cells = self.cells.iter();
        let nats = cells.map(|cell| {
            let key = self.files.controllers_key(&cell.name);
            (cell.name.clone(), Nats { servers: vec![nats_url(cell.address)], key: Some(key), authorities: None })
        });
        self.config.nats = nats.collect();
        self.config.data_dir = self.files.data().to_owned();
        self.config.cells.count = u32::try_from(CELLS.len()).ok();
        self.config.cells.hosts_expected = u32::try_from(self.agents().len()).unwrap_or(u32::MAX);
        files::write(&self.files.config(&Role::Controller), &self.config.to_toml()?)
    }

    /// Enrols all agents, and writes their configurations.
    async fn enrol_agents(&self, client: &Client, mut way: impl FnMut(&str, SocketAddr) -> SocketAddr) -> Result<(), ClusterError> {
        for cell in &self.cells {
            for (host, key) in &cell.hosts {
                let enrolled = enrol(client, host, &cell.name, &key.public).await?;
                let hosts = vec![AgentHost { name: host.clone(), key: self.files.agent_key(host) }];
                let nats = AgentNats { servers: vec![nats_url(way(host, cell.address))], authorities: None };
                let mut config = AgentConfig::new(&cell.name, enrolled.deployment, self.files.agent_data(host), hosts, nats);
                config.compute = self.config.compute.clone();
                config.chaos.trials = self.config.chaos.enabled;
                config.transfer.listen = Some((Ipv4Addr::LOCALHOST, 0).into());
                files::write(&self.files.config(&Role::Agent(host.clone())), &config.text()?)?;
            }
        }
        Ok(())
    }

    /// Waits until the controller answers requests.
    pub async fn until_it_answers(&mut self) -> Result<(), ClusterError> {
        let url = format!("http://{}/healthcheck", self.address());
        self.until(&Role::Controller, "the controller answers", async || ask(&url).await.is_some()).await
    }

    /// Waits until all agents have said hello to the controller.
    pub async fn until_ready(&mut self) -> Result<(), ClusterError> {
        let url = format!("http://{}/ready", self.address());
        let deadline = Instant::now() + PATIENCE;
        while ask(&url).await != Some(200) {
            self.fail_if_ended(&Role::Controller)?;
            for agent in self.agents() {
                self.fail_if_ended(&agent)?;
            }
            if Instant::now() > deadline {
                return Err(ClusterError::TooLong { what: "all agents have said hello".to_owned() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until servers may be placed on each host: its records follow its agent's hello.
    async fn until_recorded(&mut self, client: &Client) -> Result<(), ClusterError> {
        for role in self.agents() {
            let Role::Agent(host) = &role else { continue };
            let path = format!("/hosts/{host}");
            let is_recorded = async || {
                let shown = client.get(OPERATORS, &path).await.unwrap_or_default();
                shown["host"]["state"] == "up" && shown["host"]["room"].is_object()
            };
            self.until(&role, &format!("{host} takes servers"), is_recorded).await?;
        }
        Ok(())
    }

    /// Waits until it is so. Fails if the child ends before, or after too long a time.
    async fn until(&mut self, role: &Role, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Result<(), ClusterError> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so().await {
            self.fail_if_ended(role)?;
            if Instant::now() > deadline {
                return Err(ClusterError::TooLong { what: what.to_owned() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn fail_if_ended(&mut self, role: &Role) -> Result<(), ClusterError> {
        match self.children.end_of(role) {
            Some(status) => {
                let log = self.files.log(role);
                Err(ClusterError::Ended { role: role.clone(), status, last_words: last_line(&log), log })
            }
            None => Ok(()),
        }
    }
}

/// Returns the status of an answer; none if there is none.
async fn ask(url: &str) -> Option<u16> {
    let answer = timeout(LOOK_PATIENCE, reqwest::get(url)).await.ok()?;
    Some(answer.ok()?.status().as_u16())
}

/// Returns the last line of a log that has words.
fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}
