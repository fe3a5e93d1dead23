//! Every option, its default and its meaning. The file is TOML; a key that is not known stops the start.
//!
//! Precedence: the command line, then the file, then the defaults here. `cellshift config` prints what is in force.

mod identity;
pub mod listen;
mod seconds;
pub mod validate;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::actors::notifier::NotifierConfig;
use crate::actors::scheduler::config::SchedulerConfig;
use crate::db::api::leases::LEASE;
use crate::domain::quota::{Limits, default_limits};
use crate::services::network::limits::Limits as NetworkLimits;
use crate::virt::hypervisor::Operation;
pub use identity::Identity;
pub use seconds::Seconds;

/// Everything that an operator can choose.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where everything that must survive a restart is kept.
    pub data_dir: PathBuf,
    pub http: Http,
    pub api: Api,
    pub identity: Identity,
    pub cells: Cells,
    pub conductor: Conductor,
    pub migration: Migration,
    pub scheduler: SchedulerConfig,
    pub notifications: NotifierConfig,
    pub policy: Policy,
    pub database: Database,
    pub compute: Compute,
    pub quota: Quota,
    /// The network service: what a project may have unless it has its own limits, and a port.
    pub network: NetworkLimits,
    pub chaos: Chaos,
    pub log: Log,
    /// `--adopt`: databases may be elsewhere than the data directory remembers, and may lack the mark that says whose they are.
    #[serde(skip)]
    pub adopt: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: PathBuf::from("cellshift-data"),
            http: Http::default(),
            api: Api::default(),
            identity: Identity::default(),
            cells: Cells::default(),
            conductor: Conductor::default(),
            migration: Migration::default(),
            scheduler: SchedulerConfig::default(),
            notifications: NotifierConfig::default(),
            policy: Policy::default(),
            database: Database::default(),
            compute: Compute::default(),
            quota: Quota::default(),
            network: NetworkLimits::default(),
            chaos: Chaos::default(),
            log: Log::default(),
            adopt: false,
        }
    }
}

/// The listener and its bounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port; in a file also a name of this machine, or the port alone (`:8774`) for every IPv4 address. Anything but
    /// loopback is reachable by others.
    #[serde(deserialize_with = "listen::deserialize")]
    pub listen: SocketAddr,
    /// Threads that answer requests; 0 takes one per core.
    pub workers: usize,
    /// The largest request body in bytes; an image's data may be larger.
    pub max_body_bytes: usize,
    /// Requests in flight; past it the answer is 503 with Retry-After.
    pub max_requests_in_flight: usize,
    /// What requests at work get to finish when the service stops.
    pub shutdown_grace: Seconds,
    /// Connections at once; past it requests are answered with 503, and soon connections refused. 0 takes as many as the files that
    /// the system lets the process open leave room for, at most 8192.
    pub max_connections: usize,
    /// Connections at once from one address (an IPv6 /64 counts as one), and requests at once of a client behind a trusted proxy; 0
    /// takes half of max_connections. Trusted proxies have no bound of their own.
    pub max_connections_per_peer: usize,
    /// Uploads and downloads of images' data at once, which do not count among the requests in flight.
    pub max_transfers: usize,
    /// How long the body of a request may be on its way, images' data excepted; then the answer is 408.
    pub body_timeout: Seconds,
    /// The least that a client must send or take in each second in which the service waits for it.
    pub min_bytes_per_second: usize,
    /// How long a client that sends may stand still before the answer is 408.
    pub read_timeout: Seconds,
    /// How long a client that takes an answer may stand still before its connection is cut.
    pub write_timeout: Seconds,
    /// The URL under which clients reach the service, such as `https://cloud.example`: links in answers and the catalog begin with
    /// it. Unset, they begin with what the request's Host header says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<String>,
    /// Networks of proxies, such as `10.0.0.0/8`, whose X-Forwarded-For, -Proto and -Host are believed; nobody else's are.
    pub trusted_proxies: Vec<IpNet>,
    /// Lets `api.authentication = "none"` be combined with an address that other machines reach.
    pub allow_unauthenticated_remote: bool,
}

impl Default for Http {
    fn default() -> Http {
        Http {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8774),
            workers: 0,
            max_body_bytes: 1024 * 1024,
            max_requests_in_flight: 512,
            shutdown_grace: Seconds::whole(5),
            max_connections: 0,
            max_connections_per_peer: 0,
            max_transfers: 64,
            body_timeout: Seconds::whole(60),
            min_bytes_per_second: 512,
            read_timeout: Seconds::whole(10),
            write_timeout: Seconds::whole(60),
            public_endpoint: None,
            trusted_proxies: Vec::new(),
            allow_unauthenticated_remote: false,
        }
    }
}

/// Who may come in without a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// Nobody.
    Token,
    /// Everybody, as the administrator: for a machine that only its owner reaches.
    None,
}

/// The Compute API.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// `token`, or `none`: requests without a token act as the administrator.
    pub authentication: Authentication,
    /// Answers to create and rebuild carry `adminPass`.
    pub enable_instance_password: bool,
    /// The most entries in one page of a list of the compute and operators' APIs; at least 1.
    pub max_limit: u32,
    /// Lists of servers and migrations that cannot say what they lack go without the cells that are down; false answers them with
    /// 503 while one is down.
    pub list_records_by_skipping_down_cells: bool,
}

impl Default for Api {
    fn default() -> Api {
        Api {
            authentication: Authentication::Token,
            enable_instance_password: true,
            max_limit: 1000,
            list_records_by_skipping_down_cells: true,
        }
    }
}

/// The cells and how their health is judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cells {
    /// Cells beside cell0. A start adds those that are missing and removes none; unset, the first start makes 2 and later ones none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Simulated hosts in each of them, in the same way; unset, a new cell gets 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_per_cell: Option<u32>,
    /// How long a request may wait for cells, whatever it asks of how many. A cell that has not answered when half of what is
    /// left of it is over is left out, so that there is time to ask the others.
    pub timeout: Seconds,
    /// How often a cell that is down is asked again.
    pub probe_interval: Seconds,
    /// How many servers are remembered as they were last read, for requests that take an old record of a server whose cell is down
    /// (`X-Cellshift-Last-Known: true`); at most 1000000, 0 remembers none.
    pub cache_down_servers: usize,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { count: None, hosts_per_cell: None, timeout: Seconds::whole(10), probe_interval: Seconds::whole(5), cache_down_servers: 0 }
    }
}

/// Who runs operations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conductor {
    /// Conductors of this process, at most 16. They take new operations in turn, and when one stands still the others take its
    /// operations over (`migration.lease`).
    pub workers: usize,
}

impl Default for Conductor {
    fn default() -> Conductor {
        Conductor { workers: 1 }
    }
}

/// Moves of servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Migration {
    /// A resize that its user has not confirmed after this time is confirmed for them; 0 leaves it to them.
    pub resize_confirm_window: Seconds,
    /// When a move fails before its pivot, the source's guest runs again; false leaves the server in ERROR until its user
    /// reboots it, as Nova does.
    pub recover_source_guest: bool,
    /// Operations at work at once; more wait.
    pub max_in_flight: usize,
    /// How long a conductor's hold on an operation lasts without renewal: after it another conductor may go on with the operation.
    pub lease: Seconds,
    /// What a guest gets to power off by itself.
    pub shutdown_grace: Seconds,
    /// Pause before the second try of a step; doubles with each.
    pub back_off_first: Seconds,
    /// The longest pause between tries.
    pub back_off_max: Seconds,
    /// Whole seconds per step, by the step's name (for copies: without progress). Steps that are not named keep their own.
    pub deadlines: BTreeMap<String, u64>,
}

impl Default for Migration {
    fn default() -> Migration {
        Migration {
            resize_confirm_window: Seconds::whole(0),
            recover_source_guest: true,
            max_in_flight: 256,
            lease: Seconds::whole(LEASE.as_secs()),
            shutdown_grace: Seconds::whole(60),
            back_off_first: Seconds::millis(50),
            back_off_max: Seconds::whole(10),
            deadlines: BTreeMap::new(),
        }
    }
}

/// Who may do what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The YAML file of rules, read again when it changes; by default `policy.yaml` under the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Where records are kept. What is not named is a SQLite file under the data directory.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// The API's database: `postgres://…` or a SQLite file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The embedded services' database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<String>,
    /// Each cell's database, by the cell's name.
    pub cells: BTreeMap<String, String>,
}

/// The simulated hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compute {
    /// Cores of each host.
    pub vcpus: u32,
    /// Memory of each host, in MiB.
    pub memory_mb: u32,
    /// Disk of each host, in GiB.
    pub disk_gb: u32,
    /// How many virtual cores a core counts for.
    pub cpu_allocation_ratio: f64,
    /// The same for memory.
    pub ram_allocation_ratio: f64,
    /// The same for disk.
    pub disk_allocation_ratio: f64,
    /// How often a host reports that it is alive.
    pub heartbeat: Seconds,
    /// A host that has not reported for this long is down.
    pub service_down_time: Seconds,
    /// Milliseconds that a hypervisor operation takes, by its name; none unless named.
    pub latency_ms: BTreeMap<Operation, u64>,
}

impl Default for Compute {
    fn default() -> Compute {
        Compute {
            vcpus: 16,
            memory_mb: 32_768,
            disk_gb: 200,
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            heartbeat: Seconds::whole(10),
            service_down_time: Seconds::whole(60),
            latency_ms: BTreeMap::new(),
        }
    }
}

/// What a project may have unless it has its own limits; -1 is no limit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    pub instances: i64,
    pub cores: i64,
    /// In MiB.
    pub ram: i64,
    pub metadata_items: i64,
    pub key_pairs: i64,
    pub server_groups: i64,
    pub server_group_members: i64,
    pub injected_files: i64,
    /// In bytes.
    pub injected_file_content_bytes: i64,
    /// In bytes.
    pub injected_file_path_length: i64,
    /// Cores and memory in use are what placement holds for a project's servers, both sides of a move included; false counts each
    /// server once, by its flavor.
    pub count_usage_from_placement: bool,
    /// The room for a server is checked again in the commit that accepts it, so that requests at the same time do not get past
    /// the quota together.
    pub recheck_quota: bool,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            instances: 10,
            cores: 20,
            ram: 50 * 1024,
            metadata_items: 128,
            key_pairs: 100,
            server_groups: 10,
            server_group_members: 10,
            injected_files: 5,
            injected_file_content_bytes: 10 * 1024,
            injected_file_path_length: 255,
            count_usage_from_placement: false,
            recheck_quota: true,
        }
    }
}

impl Quota {
    /// By resource, with those that have no option of their own.
    pub fn limits(&self) -> Limits {
        let mut limits = default_limits();
        limits.extend(
            [
                ("instances", self.instances),
                ("cores", self.cores),
                ("ram", self.ram),
                ("metadata_items", self.metadata_items),
                ("key_pairs", self.key_pairs),
                ("server_groups", self.server_groups),
                ("server_group_members", self.server_group_members),
                ("injected_files", self.injected_files),
                ("injected_file_content_bytes", self.injected_file_content_bytes),
                ("injected_file_path_bytes", self.injected_file_path_length),
            ]
            .map(|(resource, limit)| (resource.to_owned(), limit)),
        );
        limits
    }
}

/// Faults on purpose in a running service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chaos {
    /// `/ops/v1/chaos` exists, for those whom the rule `ops:chaos` allows: actors may be killed, databases taken down, experiments
    /// loaded.
    pub enabled: bool,
}

/// How a line of the log looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

/// The log, on standard error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, `off`, or per module: `info,cellshift::saga=debug`.
    pub level: String,
    /// `text` or `json`; one event per line in both.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info,actix_server=warn".into(), format: LogFormat::Text }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration file {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the configuration file {} is refused: {reason}", path.display())]
    Refused { path: PathBuf, reason: String },
    #[error("{key} must be {must_be}")]
    Value { key: String, must_be: String },
    #[error(transparent)]
    Scheduler(#[from] crate::actors::scheduler::config::ConfigError),
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub data_dir: Option<PathBuf>,
    pub listen: Option<SocketAddr>,
    pub cells: Option<u32>,
    pub hosts_per_cell: Option<u32>,
}

impl Config {
    /// The configuration in force: defaults, the file if one is named, the command line; checked.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Config, ConfigError> {
        let mut config = match file {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
                Config::parse(&text).map_err(|reason| ConfigError::Refused { path: path.to_owned(), reason })?
            }
        };
        config.data_dir = overrides.data_dir.unwrap_or(config.data_dir);
        config.http.listen = overrides.listen.unwrap_or(config.http.listen);
        config.cells.count = overrides.cells.or(config.cells.count);
        config.cells.hosts_per_cell = overrides.hosts_per_cell.or(config.cells.hosts_per_cell);
        validate::check(&config)?;
        Ok(config)
    }

    /// Reads TOML; the error says the line, the key and what is known there.
    pub fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// The same as TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// The configuration for eyes: the passwords of databases are left out.
    pub fn without_passwords(mut self) -> Config {
        let database = &mut self.database;
        let named = [&mut database.api, &mut database.services].into_iter().flatten();
        named.chain(database.cells.values_mut()).for_each(|url| *url = masked(url));
        self
    }

    /// Where the policy file is.
    pub fn policy_file(&self) -> PathBuf {
        self.policy.file.clone().unwrap_or_else(|| self.data_dir.join("policy.yaml"))
    }

    /// Where the token keys are.
    pub fn token_keys(&self) -> PathBuf {
        self.identity.token_keys.clone().unwrap_or_else(|| self.data_dir.join("token-keys"))
    }
}

/// A database's URL with `***` for its password, which stands behind the user or among the settings.
fn masked(url: &str) -> String {
    let (address, settings) = url.split_once('?').map_or((url, None), |(address, settings)| (address, Some(settings)));
    let address = match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((before, place))) => match before[scheme.len() + 3..].split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
            None => address.to_owned(),
        },
        _ => address.to_owned(),
    };
    let hidden = |setting: &str| match setting.split_once('=') {
        Some((key, _)) if key.ends_with("password") => format!("{key}=***"),
        _ => setting.to_owned(),
    };
    match settings {
        Some(settings) => format!("{address}?{}", settings.split('&').map(hidden).collect::<Vec<_>>().join("&")),
        None => address,
    }
}

#[cfg(test)]
mod tests;
