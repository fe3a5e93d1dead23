//! The files of a cluster below its data directory. The directory itself is the controller's data directory.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cellshift_nats::credentials::UserKey;

use super::{ClusterError, Role};

/// The directory for the cluster's own files, which a running cluster holds.
pub const OWN: &str = "cluster";
/// The directory with a directory for each agent.
const AGENTS: &str = "agents";

/// The paths of a cluster's files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    /// Takes this directory.
    pub fn of(dir: &Path) -> Files {
        Files { dir: dir.to_owned() }
    }

    /// Returns the controller's data directory.
    pub fn data(&self) -> &Path {
        &self.dir
    }

    /// Returns the configuration of a child.
    pub fn config(&self, role: &Role) -> PathBuf {
        match role {
            Role::Broker(cell) => self.own(&format!("{cell}-nats.conf")),
            Role::Controller => self.own("controller.toml"),
            Role::Agent(host) => self.of_agent(host).join("agent.toml"),
        }
    }

    /// Returns the log of a child.
    pub fn log(&self, role: &Role) -> PathBuf {
        match role {
            Role::Broker(cell) => self.own(&format!("{cell}-nats.log")),
            Role::Controller => self.own("controller.log"),
            Role::Agent(host) => self.of_agent(host).join("agent.log"),
        }
    }

    /// Returns the file with the key of the controllers in a cell.
    pub fn controllers_key(&self, cell: &str) -> PathBuf {
        self.own(&format!("{cell}-controllers.nk"))
    }

    /// Returns the file with the key of an agent.
    pub fn agent_key(&self, host: &str) -> PathBuf {
        self.of_agent(host).join(format!("{host}.nk"))
    }

    /// Returns an agent's data directory.
    pub fn agent_data(&self, host: &str) -> PathBuf {
        self.of_agent(host).join("data")
    }

    /// Returns the number of agents of a cell that have a directory.
    pub fn agents_of(&self, cell: &str) -> u32 {
        let prefix = format!("{cell}-host");
        let entries = std::fs::read_dir(self.dir.join(AGENTS)).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok());
        numbers.max().unwrap_or(0)
    }

    /// Makes the directories of the cluster and of these agents.
    pub fn make_directories<'a>(&self, hosts: impl Iterator<Item = &'a str>) -> Result<(), ClusterError> {
        make_directory(&self.dir.join(OWN))?;
        hosts.map(|host| self.of_agent(host)).try_for_each(|dir| make_directory(&dir))
    }

    fn own(&self, name: &str) -> PathBuf {
        self.dir.join(OWN).join(name)
    }

    fn of_agent(&self, host: &str) -> PathBuf {
        self.dir.join(AGENTS).join(host)
    }
}

fn make_directory(path: &Path) -> Result<(), ClusterError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(ClusterError::file(path))
}

/// Writes a file that only its owner may read.
pub(super) fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(ClusterError::file(path))
}

/// Returns the key of the file; makes both if there is no file.
pub(super) fn key(path: &Path) -> Result<UserKey, ClusterError> {
    if path.exists() {
        return Ok(UserKey::read(path)?);
    }
    let key = UserKey::new()?;
    key.write(path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_of_earlier_runs_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::of(folder.path());
        assert_eq!(files.agents_of("cell1"), 0);
        files.make_directories(["cell1-host1", "cell1-host3", "cell2-host1"].into_iter()).unwrap();
        assert_eq!((files.agents_of("cell1"), files.agents_of("cell2")), (3, 1));
    }

    #[test]
    fn a_key_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nk");
        assert_eq!(key(&path).unwrap().public, key(&path).unwrap().public);
    }
}
