//! The cloud of `cellshift serve --dev`: its data are in a temporary directory, its users may move servers between cells and have no
//! quotas, experiments may be loaded, and it can be brought back to its first state.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::bootstrap::{self, seat::LOCK_FILE};
use crate::config::{Chaos, Config, Database, Log, Quota};
use crate::db::Db;
use crate::http::ops::Resets;
use crate::launch::environment;

/// Lets users resize to another cell, which the default policy leaves to nobody.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The log has a line for each operation, and all that goes wrong.
const LEVEL: &str = "warn,cellshift::operations=info";
const NO_LIMIT: i64 = -1;
/// The variable that tells the program of its cloud when it starts itself again after a reset.
const RESET: &str = "CELLSHIFT_DEV_RESET";

/// A temporary data directory, and a copy of its first state. Both are removed when this is dropped.
pub(super) struct Dev {
    kept: Kept,
    pub(super) resets: Resets,
}

/// The state that a reset keeps.
#[derive(Serialize, Deserialize)]
struct Kept {
    directory: PathBuf,
    first_state: PathBuf,
    /// Known once the service listens.
    listen: Option<SocketAddr>,
    /// The number of resets that are done.
    resets: u64,
}

impl Drop for Dev {
    fn drop(&mut self) {
        for directory in [&self.kept.directory, &self.kept.first_state] {
            // A directory that stays lies among the temporary files, which the system removes in time.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

impl Dev {
    /// Makes the directory, with its policy; or goes on with that of the cloud that was reset.
    pub(super) fn make() -> Result<Dev, Failure> {
        if let Ok(kept) = std::env::var(RESET) {
            let kept: Kept = serde_json::from_str(&kept)?;
            let dev = Dev { resets: Resets::after(kept.resets), kept };
            dev.restore()?;
            return Ok(dev);
        }
        let directory = tempfile::Builder::new().prefix("cellshift-dev.").tempdir()?.keep();
        let first_state = tempfile::Builder::new().prefix("cellshift-dev-first.").tempdir()?.keep();
        fs::write(directory.join("policy.yaml"), POLICY)?;
        Ok(Dev { kept: Kept { directory, first_state, listen: None, resets: 0 }, resets: Resets::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.kept.directory
    }

    /// Returns the address of the cloud that was reset; none at the first start.
    pub(super) fn listens(&self) -> Option<SocketAddr> {
        self.kept.listen
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
        Ok(copy(self.path(), &self.kept.first_state)?)
    }

    /// Starts the program again in this process, so that nothing of the cloud is left that could write to its directory; the directory is
    /// brought back to its first state then. Returns only if that fails.
    pub(super) fn start_anew(&self, listen: SocketAddr) -> Failure {
        let kept = Kept {
            directory: self.kept.directory.clone(),
            first_state: self.kept.first_state.clone(),
            listen: Some(listen),
            resets: self.kept.resets + 1,
        };
        let started = || -> Result<io::Error, Failure> {
            let kept = serde_json::to_string(&kept)?;
            Ok(Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(RESET, kept).exec())
        };
        started().map_or_else(|failure| failure, Into::into)
    }

    fn restore(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path())? {
            let path = entry?.path();
            match path.is_dir() {
                true => fs::remove_dir_all(path)?,
                false if path.ends_with(LOCK_FILE) => {}
                false => fs::remove_file(path)?,
            }
        }
        copy(&self.kept.first_state, self.path())
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
        } else if entry.file_name() != LOCK_FILE {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
