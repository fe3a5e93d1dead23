//! The cloud of `cellshift serve --dev`: its data are in a temporary directory, its users may move servers between cells, and experiments may
//! be loaded.

use std::path::Path;

use tempfile::TempDir;

use super::Failure;
use crate::config::{Chaos, Config, Log};

/// Lets users resize to another cell, which the default policy leaves to nobody.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The log has a line for each operation, and all that goes wrong.
const LEVEL: &str = "warn,cellshift::operations=info";

/// A temporary data directory. It is removed when this is dropped.
pub(super) struct Dev {
    directory: TempDir,
}

impl Dev {
    /// Makes the directory, with its policy.
    pub(super) fn make() -> Result<Dev, Failure> {
        let directory = tempfile::Builder::new().prefix("cellshift-dev.").tempdir()?;
        std::fs::write(directory.path().join("policy.yaml"), POLICY)?;
        Ok(Dev { directory })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a configuration with what this cloud is for.
    pub(super) fn of(config: Config) -> Config {
        Config { chaos: Chaos { enabled: true }, log: Log { level: LEVEL.into(), ..config.log }, ..config }
    }
}
