//! The cloud of `cellshift serve --dev`: its data are in a temporary directory, its users may move servers between cells and have no
//! quotas, experiments may be loaded, and it can be brought back to its first state.

use std::path::Path;
use std::{fs, io};

use tempfile::TempDir;

use super::Failure;
use crate::bootstrap;
use crate::config::{Chaos, Config, Database, Log, Quota};
use crate::db::Db;
use crate::http::ops::Resets;
use crate::launch::environment;

/// Lets users resize to another cell, which the default policy leaves to nobody.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The log has a line for each operation, and all that goes wrong.
const LEVEL: &str = "warn,cellshift::operations=info";
/// The file by which a process holds the directory: a reset keeps it.
const LOCK: &str = "lock";
const NO_LIMIT: i64 = -1;

/// A temporary data directory, and a copy of its first state. Both are removed when this is dropped.
pub(super) struct Dev {
    directory: TempDir,
    first_state: TempDir,
    pub(super) resets: Resets,
}

impl Dev {
    /// Makes the directory, with its policy.
    pub(super) fn make() -> Result<Dev, Failure> {
        let directory = tempfile::Builder::new().prefix("cellshift-dev.").tempdir()?;
        let first_state = tempfile::Builder::new().prefix("cellshift-dev-first.").tempdir()?;
        fs::write(directory.path().join("policy.yaml"), POLICY)?;
        Ok(Dev { directory, first_state, resets: Resets::default() })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a configuration with what this cloud is for. Fails if its databases are to be elsewhere: they go with the directory.
    pub(super) fn of(config: Config) -> Result<Config, Failure> {
        if config.database != Database::default() {
            return Err("database: a cloud of --dev keeps its databases in its own directory; leave [database] out".into());
        }
        let quota = if config.quota == Quota::default() { without_limits(config.quota) } else { config.quota };
        Ok(Config { chaos: Chaos { enabled: true }, log: Log { level: LEVEL.into(), ..config.log }, quota, ..config })
    }

    /// Makes what the first start makes, and copies it while nothing is open.
    pub(super) async fn keep_first_state(&self, config: &Config) -> Result<(), Failure> {
        let cloud = bootstrap::open(config.clone(), environment(config)).await?;
        if let Some(seat) = &cloud.seat {
            seat.give_up().await;
        }
        futures::future::join_all(cloud.databases().values().map(Db::close)).await;
        drop(cloud);
        Ok(copy(self.path(), self.first_state.path())?)
    }

    /// Brings the directory back to its first state. Nothing in it may be open.
    pub(super) fn restore(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path())? {
            let path = entry?.path();
            match path.is_dir() {
                true => fs::remove_dir_all(path)?,
                false if path.ends_with(LOCK) => {}
                false => fs::remove_file(path)?,
            }
        }
        copy(self.first_state.path(), self.path())
    }
}

/// Takes the limits away that a crowd of servers would meet.
fn without_limits(quota: Quota) -> Quota {
    Quota { instances: NO_LIMIT, cores: NO_LIMIT, ram: NO_LIMIT, key_pairs: NO_LIMIT, server_groups: NO_LIMIT, ..quota }
}

/// Copies the files and folders of a directory into another.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != LOCK {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
