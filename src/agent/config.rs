//! The configuration of an agent, as TOML (`cellshift compute --config FILE`). An unknown key or a bad value stops the start, with the key's
//! name.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cellshift_nats::Name;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::validate::{self, refuse};
use crate::config::{self, Compute, Config, ConfigError, Log, Nats, Seconds};

/// The first lines of a written file.
const HEAD: &str = "# The agent of a compute host, started by `cellshift compute --config FILE`. Written by cellshift; docs/DEPLOYING.md explains it.\n\
                    # It has no secrets. Its keys are in files of their own, which only their owner may read.\n";
/// The values of a name.
const NAME: &str = "1 to 255 ASCII letters, digits, dots, hyphens and underscores, and not dots alone";
/// The time that requests at work get to end when the agent stops.
const SHUTDOWN_GRACE: Seconds = Seconds::whole(5);
/// The highest limit of a host's bytes of images per second, in MiB.
const MAX_MIB_PER_SECOND: u64 = 1_000_000;

/// The configuration of an agent. Relative paths in a file begin at the file's folder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The cell of the hosts.
    pub cell: String,
    /// The id of the controllers' deployment, as their `deployment.toml` has it. The directory of another deployment's host is refused.
    pub deployment: Uuid,
    /// The directory for everything that must survive a restart.
    pub data_dir: PathBuf,
    /// The time that requests at work get to end when the agent stops.
    #[serde(default = "shutdown_grace", skip_serializing_if = "is_shutdown_grace")]
    pub shutdown_grace: Seconds,
    /// The host, or several simulated ones.
    pub hosts: Vec<AgentHost>,
    /// The cell's NATS servers.
    pub nats: AgentNats,
    /// The hosts' capacity, ratios, networks and latencies. The ratios must be those of the controllers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute: Compute,
    /// The bytes of images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: AgentImage,
    /// The disks that move between the hosts of the cell.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transfer: AgentTransfer,
    /// Deliberate faults.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chaos: AgentChaos,
    /// The log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log: Log,
}

/// A host of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHost {
    /// The name, unique over all cells.
    pub name: String,
    /// The file with the seed of the host's key, which only its owner may read.
    pub key: PathBuf,
}

/// The NATS servers of the cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentNats {
    /// The addresses, such as `nats://10.0.0.1:4222`, or `tls://…` to insist on TLS.
    pub servers: Vec<String>,
    /// The file with the certificates of the authorities that a server's certificate may have. With it, the connection needs TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<PathBuf>,
}

impl AgentNats {
    /// Returns the servers with the key of a host.
    pub fn with_key(&self, key: &Path) -> Nats {
        Nats { key: Some(key.to_owned()), ..self.without_key() }
    }

    fn without_key(&self) -> Nats {
        Nats { servers: self.servers.clone(), key: None, authorities: self.authorities.clone() }
    }
}

/// The bytes of images that an agent reads and writes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentImage {
    /// The limit of each host's bytes per second, in MiB; 0 for none.
    pub max_mib_per_second: u64,
}

impl AgentImage {
    /// Returns the limit in bytes per second; 0 for none.
    pub fn bytes_per_second(&self) -> u64 {
        self.max_mib_per_second << 20
    }
}

/// The place at which hosts of other agents of the cell read disks that move to them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTransfer {
    /// The address and port to listen on; port 0 is one that the system chooses. Without it the agents of a cell must share the directory
    /// `cells/CELL/transfer` of their data directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// The URL under which other agents reach it, such as `http://10.0.0.2:8776`; without TLS. If unset, the address of `listen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// Deliberate faults in an agent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentChaos {
    /// If true, controllers may make trials with the hosts and their guests: tests, experiments and the demo crash hosts and lose guests.
    pub trials: bool,
}

impl AgentConfig {
    /// Makes a configuration with the defaults for everything else.
    pub fn new(cell: &str, deployment: Uuid, data_dir: PathBuf, hosts: Vec<AgentHost>, nats: AgentNats) -> AgentConfig {
        AgentConfig {
            cell: cell.to_owned(),
            deployment,
            data_dir,
            shutdown_grace: SHUTDOWN_GRACE,
            hosts,
            nats,
            compute: Compute::default(),
            image: AgentImage::default(),
            transfer: AgentTransfer::default(),
            chaos: AgentChaos::default(),
            log: Log::default(),
        }
    }

    /// Reads and checks a file. `data_dir`, of the command line, wins over the file's. Blocks.
    pub fn load(file: &Path, data_dir: Option<PathBuf>) -> Result<AgentConfig, ConfigError> {
        let mut config: AgentConfig = config::read(file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let keys = config.hosts.iter_mut().map(|host| &mut host.key);
        let paths = keys.chain(config.nats.authorities.as_mut()).chain([&mut config.data_dir]);
        // An absolute path stays as it is.
        paths.for_each(|path| *path = folder.join(&*path));
        config.data_dir = data_dir.unwrap_or(config.data_dir);
        config.check()?;
        Ok(config)
    }

    /// Returns the text of a file, without the sections that are the defaults. Fails if a path is no UTF-8.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEAD}{}", toml::to_string_pretty(self)?))
    }

    /// Returns a controller's configuration with the sections that agents have, too.
    pub fn shared(&self) -> Config {
        Config { compute: self.compute.clone(), log: self.log.clone(), ..Config::default() }
    }

    fn check(&self) -> Result<(), ConfigError> {
        refuse(!is_name(&self.cell), "cell", NAME)?;
        refuse(self.hosts.is_empty(), "hosts", "a list of tables [[hosts]], each with a name and a key")?;
        for (number, host) in self.hosts.iter().enumerate() {
            let (key, before) = (format!("hosts[{number}].name"), &self.hosts[..number]);
            refuse(!is_name(&host.name), &key, NAME)?;
            refuse(before.iter().any(|other| other.name == host.name), &key, "a name that no other host has")?;
            refuse(before.iter().any(|other| other.key == host.key), &format!("hosts[{number}].key"), "a key that no other host has")?;
        }
        if let Some((key, must_be)) = self.nats.without_key().misfit() {
            return refuse(true, &format!("nats.{key}"), must_be);
        }
        let transfer = &self.transfer;
        let unreached = transfer.endpoint.is_none() && transfer.listen.is_some_and(|address| address.ip().is_unspecified());
        refuse(unreached, "transfer.endpoint", "the URL under which other agents reach transfer.listen")?;
        refuse(
            !transfer.endpoint.as_deref().is_none_or(validate::is_plain_endpoint),
            "transfer.endpoint",
            "a URL such as http://10.0.0.2:8776",
        )?;
        refuse(self.image.max_mib_per_second > MAX_MIB_PER_SECOND, "image.max_mib_per_second", "at most 1000000, or 0 for no limit")?;
        validate::check(&self.shared())
    }
}

/// True for a name that NATS and a directory can have.
fn is_name(text: &str) -> bool {
    Name::parse(text).is_ok() && text.chars().any(|letter| letter != '.')
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn shutdown_grace() -> Seconds {
    SHUTDOWN_GRACE
}

fn is_shutdown_grace(grace: &Seconds) -> bool {
    *grace == SHUTDOWN_GRACE
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        cell = "cell1"
        deployment = "00000000-0000-0000-0000-000000000007"
        data_dir = "data"
        [[hosts]]
        name = "cell1-host1"
        key = "cell1-host1.nk"
        [nats]
        servers = ["nats://127.0.0.1:4222"]
    "#;

    fn load_in(folder: &Path, text: &str) -> Result<AgentConfig, ConfigError> {
        let file = folder.join("agent.toml");
        std::fs::write(&file, text).unwrap();
        AgentConfig::load(&file, None)
    }

    fn refusal(text: &str) -> String {
        load_in(tempfile::tempdir().unwrap().path(), text).expect_err("a refusal").to_string()
    }

    #[test]
    fn relative_paths_begin_at_the_files_folder() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{WHOLE}\nauthorities = \"/etc/ca.pem\"");
        let config = load_in(folder.path(), &text).unwrap();
        assert_eq!((&config.data_dir, &config.hosts[0].key), (&folder.path().join("data"), &folder.path().join("cell1-host1.nk")));
        assert_eq!(config.nats.authorities, Some(PathBuf::from("/etc/ca.pem")));
        let elsewhere = AgentConfig::load(&folder.path().join("agent.toml"), Some(PathBuf::from("elsewhere"))).unwrap();
        assert_eq!(elsewhere.data_dir, PathBuf::from("elsewhere"));
    }

    #[test]
    fn a_written_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = load_in(folder.path(), WHOLE).unwrap();
        let short = config.text().unwrap();
        assert!(!short.contains("[compute]") && !short.contains("[log]") && !short.contains("shutdown_grace"), "{short}");
        assert_eq!(load_in(folder.path(), &short).unwrap(), config);
        config.compute.vcpus = 3;
        config.compute.latency_ms.insert(crate::virt::hypervisor::Operation::Start, 5);
        config.image.max_mib_per_second = 7;
        config.transfer.listen = Some("10.0.0.2:8776".parse().unwrap());
        config.chaos.trials = true;
        config.shutdown_grace = Seconds::millis(1500);
        config.hosts.push(AgentHost { name: "cell1-host2".to_owned(), key: "/etc/2.nk".into() });
        assert_eq!(load_in(folder.path(), &config.text().unwrap()).unwrap(), config);
        assert_eq!(config.image.bytes_per_second(), 7 << 20);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_key() {
        let with = |line: &str| refusal(&format!("{WHOLE}\n{line}"));
        let instead = |old: &str, new: &str| refusal(&WHOLE.replace(old, new));
        let host = "[[hosts]]\nname = \"cell1-host1\"\nkey = \"b.nk\"";
        let refusals = [
            (instead("\"cell1\"", "\"..\""), "cell must be 1 to 255 ASCII letters"),
            (instead("\"cell1-host1\"", "\"a/b\""), "hosts[0].name must be 1 to 255 ASCII letters"),
            (instead("nats://127.0.0.1:4222", "127.0.0.1:4222"), "nats.servers must be a list of addresses"),
            (with(host), "hosts[1].name must be a name that no other host has"),
            (with(&host.replace("host1", "host2").replace("b.nk", "cell1-host1.nk")), "hosts[1].key must be a key that no other host has"),
            (with("[compute]\nvcpus = 0"), "compute.vcpus must be at least 1"),
            (with("[compute]\nram_allocation_ratio = -1.0"), "compute.ram_allocation_ratio must be a number above 0"),
            (with("[image]\nmax_mib_per_second = 1000001"), "image.max_mib_per_second must be at most 1000000"),
            (with("[transfer]\nlisten = \"0.0.0.0:1\""), "transfer.endpoint must be the URL under which"),
            (with("[transfer]\nendpoint = \"https://a\""), "transfer.endpoint must be a URL such as http://10.0.0.2:8776"),
            (with("[log]\nlevel = \"loud\""), "log.level must be"),
        ];
        for (refusal, expected) in refusals {
            assert!(refusal.starts_with(expected), "{expected}: {refusal}");
        }
    }

    #[test]
    fn an_unknown_or_missing_key_is_refused_with_its_name() {
        for (text, key) in [
            (format!("{WHOLE}\nkey = \"a.nk\""), "`key`"),
            (format!("{WHOLE}\n[compute]\ncores = 1"), "`cores`"),
            (format!("{WHOLE}\n[http]"), "`http`"),
            (WHOLE.replace("cell = \"cell1\"", ""), "`cell`"),
            (WHOLE.replace("servers = [\"nats://127.0.0.1:4222\"]", ""), "`servers`"),
            (WHOLE.replace("key = \"cell1-host1.nk\"", ""), "`key`"),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.contains(key) && refusal.contains("agent.toml"), "{key}: {refusal}");
        }
    }
}
