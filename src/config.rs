//! All options, with their defaults and meaning. The file is TOML; an unknown key stops the start.
//!
//! Precedence: the command line, then the file, then these defaults. `cellshift config` prints the options in force.

mod compute;
mod identity;
pub mod listen;
mod live_migration;
pub mod log_level;
mod metrics;
pub mod nats;
mod preset;
mod quota;
pub mod reference;
mod seconds;
mod tracing;
pub mod validate;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use cellshift_embedded::network::limits::Limits as NetworkLimits;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::actors::notifier::NotifierConfig;
use crate::actors::scheduler::config::SchedulerConfig;
use crate::db::api::leases::LEASE;
pub use compute::Compute;
pub use identity::Identity;
pub use live_migration::{LiveMigration, TimeoutAction};
pub use metrics::Metrics;
pub use nats::Nats;
pub use preset::Preset;
pub use quota::Quota;
pub use seconds::Seconds;
pub use tracing::Tracing;

/// All options of an operator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The directory for everything that must survive a restart.
    pub data_dir: PathBuf,
    /// The names of the flavors, the image and the accounts that the first start makes: `cellshift` or `devstack`.
    pub preset: Preset,
    pub http: Http,
    pub api: Api,
    pub identity: Identity,
    pub cells: Cells,
    pub actors: Actors,
    pub conductor: Conductor,
    pub migration: MigrationConfig,
    pub retention: Retention,
    pub scheduler: SchedulerConfig,
    pub notifications: NotifierConfig,
    pub policy: Policy,
    pub database: Database,
    pub compute: Compute,
    pub console: Console,
    pub quota: Quota,
    /// The network service: the default limits of projects, the limit of a port's addresses, and the form of a port's resource request.
    pub network: NetworkLimits,
    /// The NATS of each cell whose hosts are agents of their own, by the cell's name: `servers` (a list such as `["nats://10.0.0.1:4222"]`),
    /// `key` (the file with the seed of the controllers' key; unset for servers without users) and `authorities` (the file with the
    /// certificates that servers may have; with it the connection needs TLS). The service starts no hosts in such a cell, whatever
    /// `cells.hosts_per_cell` says.
    pub nats: BTreeMap<String, Nats>,
    pub chaos: Chaos,
    pub log: Log,
    pub metrics: Metrics,
    pub tracing: Tracing,
    /// `--adopt`: databases may be in other places than the data directory remembers, and may lack the deployment's mark.
    #[serde(skip)]
    pub adopt: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: PathBuf::from("cellshift-data"),
            preset: Preset::default(),
            http: Http::default(),
            api: Api::default(),
            identity: Identity::default(),
            cells: Cells::default(),
            actors: Actors::default(),
            conductor: Conductor::default(),
            migration: MigrationConfig::default(),
            retention: Retention::default(),
            scheduler: SchedulerConfig::default(),
            notifications: NotifierConfig::default(),
            policy: Policy::default(),
            console: Console::default(),
            database: Database::default(),
            compute: Compute::default(),
            quota: Quota::default(),
            network: NetworkLimits::default(),
            nats: BTreeMap::new(),
            chaos: Chaos::default(),
            log: Log::default(),
            metrics: Metrics::default(),
            tracing: Tracing::default(),
            adopt: false,
        }
    }
}

/// The listener and its bounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port. A file may also name a name of this machine, or the port alone (`:8774`) for every IPv4 address. Others can reach
    /// any address that is not loopback.
    #[serde(deserialize_with = "listen::deserialize")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The number of threads that answer requests; 0 means one per core.
    pub workers: usize,
    /// The maximum size of a request body in bytes. An image's data may be larger.
    pub max_body_bytes: usize,
    /// The maximum number of requests in flight. Beyond it the answer is 503 with Retry-After.
    pub max_requests_in_flight: usize,
    /// The time that running requests get to finish when the service stops.
    pub shutdown_grace: Seconds,
    /// The maximum number of connections. Beyond it requests are answered with 503, and soon connections are refused. 0 means as many as
    /// the system's limit of open files allows, at most 8192.
    pub max_connections: usize,
    /// The maximum number of connections from one address (an IPv6 /64 counts as one), and of concurrent requests of a client behind a
    /// trusted proxy. 0 means half of max_connections. Trusted proxies have no limit.
    pub max_connections_per_peer: usize,
    /// The maximum number of concurrent uploads and downloads of images' data, which do not count as requests in flight.
    pub max_transfers: usize,
    /// The maximum time for the arrival of a request's body, except for images' data. Beyond it the answer is 408.
    pub body_timeout: Seconds,
    /// The minimum number of bytes that a client must send or read per second in which the service waits for it.
    pub min_bytes_per_second: usize,
    /// The maximum time for which a sending client may stall. Beyond it the answer is 408.
    pub read_timeout: Seconds,
    /// The maximum time for which a reading client may stall. Beyond it its connection is cut.
    pub write_timeout: Seconds,
    /// The URL under which clients reach the service, such as `https://cloud.example`. Links in answers and the catalog begin with it. If
    /// unset, they begin with the host of the request's Host header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<String>,
    /// The URL under which hosts that are agents reach this process for images' bytes, such as `http://10.0.0.1:8774`; without TLS. If
    /// unset, `public_endpoint` if it has no TLS, else `listen`, which other machines reach if it is an address of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents_endpoint: Option<String>,
    /// The networks of proxies, such as `10.0.0.0/8`, whose X-Forwarded-For, -Proto and -Host are believed.
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<IpNet>,
    /// Allows `api.authentication = "none"` with an address that other machines can reach.
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
            agents_endpoint: None,
            trusted_proxies: Vec::new(),
            allow_unauthenticated_remote: false,
        }
    }
}

impl Http {
    /// Returns the URL under which agents reach this process, which listens at this address.
    pub fn endpoint_of_agents(&self, listen: SocketAddr) -> String {
        let public = self.public_endpoint.as_ref().filter(|url| url.starts_with("http://"));
        self.agents_endpoint.as_ref().or(public).cloned().unwrap_or_else(|| format!("http://{listen}"))
    }
}

/// The clients that need no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// None.
    Token,
    /// All, as the administrator: for a machine that only its owner can reach.
    None,
}

/// The Compute API.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// `token`, or `none`: requests without a token act as the administrator.
    pub authentication: Authentication,
    /// If true, answers to create and rebuild have `adminPass`.
    pub enable_instance_password: bool,
    /// The maximum number of entries in a page of the compute and operators' APIs; at least 1.
    pub max_limit: u32,
    /// If true, lists of servers and migrations that cannot name missing cells leave them out; if false, they are answered with 503 while a
    /// cell is down.
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

/// The cells, and how their health is judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cells {
    /// The number of cells beside cell0. A start adds missing ones and removes none. If unset, the first start makes 2 (1 with
    /// `--preset devstack`) and later ones none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The number of simulated hosts per cell, added likewise. If unset, a new cell gets 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_per_cell: Option<u32>,
    /// The maximum time that a request may wait for all its calls to cells. A cell that has not answered in half of the remaining time is
    /// left out, so that there is time for the others. At a start it is the limit for each answer of a cell.
    pub timeout: Seconds,
    /// The interval at which a cell that is down is asked again.
    pub probe_interval: Seconds,
    /// The maximum number of last known servers, for requests that accept an old record of a server whose cell is down
    /// (`X-Cellshift-Last-Known: true`); at most 1000000, 0 remembers none.
    pub cache_down_servers: usize,
    /// If true, a host whose agent nobody enrolled takes servers as soon as the agent has said hello. If false, such a host is listed as
    /// discovered, and takes none.
    pub discover: bool,
    /// The number of hosts, over all cells, that must have taken requests at once before `/ready` answers 200 for the first time; 0 waits for
    /// none.
    pub hosts_expected: u32,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells {
            count: None,
            hosts_per_cell: None,
            timeout: Seconds::whole(10),
            probe_interval: Seconds::whole(5),
            cache_down_servers: 0,
            discover: false,
            hosts_expected: 0,
        }
    }
}

/// The threads of actors.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Actors {
    /// The number of threads on which cells with their hosts, conductors with their operations, the scheduler and the notifier run, at most
    /// 64; 0 means one per core.
    pub arbiters: usize,
}

/// The conductors of operations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Conductor {
    /// The number of conductors in this process, at most 16. They take new operations in turn. If one stalls, the others take over its
    /// operations (`migration.lease`).
    pub workers: usize,
}

impl Default for Conductor {
    fn default() -> Conductor {
        Conductor { workers: 1 }
    }
}

/// Moves of servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MigrationConfig {
    /// The time after which an unconfirmed resize is confirmed automatically; 0 never confirms it.
    pub resize_confirm_window: Seconds,
    /// If true, the source's guest runs again when a move fails before its pivot; if false, the server stays in ERROR until its user
    /// reboots it, as in Nova.
    pub recover_source_guest: bool,
    /// The maximum number of operations at work that copy disks (creates, rebuilds, resizes and migrations), and as many of the others.
    /// Further operations are accepted and wait, in the order in which they came. A delete does not wait.
    pub max_in_flight: usize,
    /// The maximum number of operations that wait. Beyond it requests get 503.
    pub max_waiting: usize,
    /// The length of a conductor's lease on an operation. Without renewal another conductor may then take it over.
    pub lease: Seconds,
    /// The grace time for a guest's own shutdown.
    pub shutdown_grace: Seconds,
    /// The pause before the second try of a step. It doubles with each try.
    pub back_off_first: Seconds,
    /// The longest pause between tries.
    pub back_off_max: Seconds,
    /// Deadlines of steps in whole seconds, by the step's name (for copies: without progress). Other steps keep their own deadline.
    pub deadlines: BTreeMap<String, u64>,
}

impl Default for MigrationConfig {
    fn default() -> MigrationConfig {
        MigrationConfig {
            resize_confirm_window: Seconds::whole(0),
            recover_source_guest: true,
            max_in_flight: 256,
            max_waiting: 100_000,
            lease: Seconds::whole(LEASE.as_secs()),
            shutdown_grace: Seconds::whole(60),
            back_off_first: Seconds::millis(50),
            back_off_max: Seconds::whole(10),
            deadlines: BTreeMap::new(),
        }
    }
}

/// The ages in days at which databases remove old records; 0 keeps them for ever.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The pause between two runs; 0 never runs.
    pub interval: Seconds,
    /// Days after a server's delete: its records in the cell and in the API database, with all of its operations.
    pub deleted_servers_days: u32,
    /// Days after the end of an operation of a server that is still there: its journal.
    pub operations_days: u32,
    /// Days after the end of instance actions and migrations of a server that is still there, and after faults that a newer one replaced.
    pub history_days: u32,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { interval: Seconds::whole(3600), deleted_servers_days: 90, operations_days: 30, history_days: 180 }
    }
}

/// The policy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The YAML file of rules, read again when it changes; by default `policy.yaml` in the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// The serial consoles of servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Console {
    /// The time within which the URL of a console must be opened.
    pub token_ttl: Seconds,
}

impl Default for Console {
    fn default() -> Console {
        Console { token_ttl: Seconds::whole(600) }
    }
}

/// The databases. The default is a SQLite file in the data directory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// The time for which a process has its databases without renewal. One process has them: another one over the same databases is refused
    /// while the first lives, and may begin when this time has passed after its last sign of life.
    pub seat: Seconds,
    /// The API's database: `postgres://…` or the path of a SQLite file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The embedded services' database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<String>,
    /// Each cell's database, by the cell's name.
    pub cells: BTreeMap<String, String>,
}

impl Default for Database {
    fn default() -> Database {
        Database { seat: Seconds::whole(30), api: None, services: None, cells: BTreeMap::new() }
    }
}

/// Deliberate faults in a running service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Chaos {
    /// If true, `/ops/v1/chaos` exists, for callers whom the rule `ops:chaos` allows: they can kill actors, take down databases and load
    /// experiments.
    pub enabled: bool,
}

/// The format of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

/// The log, on standard error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, `off`, or per module: `info,cellshift::saga=debug`.
    pub level: String,
    /// `text` or `json`, with one event per line.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info,actix_server=warn,async_nats=warn".into(), format: LogFormat::Text }
    }
}

/// The reason why a configuration is refused.
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

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub data_dir: Option<PathBuf>,
    pub preset: Option<Preset>,
    pub listen: Option<SocketAddr>,
    pub cells: Option<u32>,
    pub hosts_per_cell: Option<u32>,
}

impl Config {
    /// Loads and checks the configuration: defaults, then the file, if given, then the command line.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Config, ConfigError> {
        let mut config = file.map_or_else(|| Ok(Config::default()), read)?;
        config.data_dir = overrides.data_dir.unwrap_or(config.data_dir);
        config.preset = overrides.preset.unwrap_or(config.preset);
        config.http.listen = overrides.listen.unwrap_or(config.http.listen);
        config.cells.count = overrides.cells.or(config.cells.count);
        config.cells.hosts_per_cell = overrides.hosts_per_cell.or(config.cells.hosts_per_cell);
        validate::check(&config)?;
        Ok(config)
    }

    /// Parses TOML. An error names the line, the key and the known keys.
    pub fn parse(text: &str) -> Result<Config, String> {
        parse(text)
    }

    /// Returns the configuration as TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Hides the passwords in the URLs of databases and brokers, for display.
    pub fn without_passwords(mut self) -> Config {
        let database = &mut self.database;
        let urls = [&mut database.api, &mut database.services].into_iter().flatten();
        let brokers = self.notifications.rabbitmq.urls.iter_mut();
        let servers = self.nats.values_mut().flat_map(|nats| &mut nats.servers);
        urls.chain(database.cells.values_mut()).chain(brokers).chain(servers).for_each(|url| *url = masked(url));
        self
    }

    /// Returns the path of the policy file.
    pub fn policy_file(&self) -> PathBuf {
        self.policy.file.clone().unwrap_or_else(|| self.data_dir.join("policy.yaml"))
    }

    /// Returns the path of the token keys.
    pub fn token_keys(&self) -> PathBuf {
        self.identity.token_keys.clone().unwrap_or_else(|| self.data_dir.join("token-keys"))
    }
}

/// Reads a TOML file. An error names the file, the line, the key and the known keys. Blocks.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(&text).map_err(|reason| ConfigError::Refused { path: path.to_owned(), reason })
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

/// Replaces the password in a database's URL by `***`, after the user or among the settings.
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
