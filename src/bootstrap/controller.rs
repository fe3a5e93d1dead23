//! The controller's name, with which it signs leases. The name belongs to the data directory, which one process holds at a time, so a lease
//! with this name is from an earlier incarnation of this controller.

use std::path::{Path, PathBuf};

use super::{BootstrapError, file_error};
use crate::env::Env;

/// Returns the name in the data directory's file `controller`, or a new one, which [`keep`] writes there.
pub(super) fn name(data: &Path, env: &Env) -> String {
    kept(data).unwrap_or_else(|| format!("controller-{}", env.uuid()))
}

/// Writes the name into the data directory, unless it is there.
pub(super) fn keep(data: &Path, name: &str) -> Result<(), BootstrapError> {
    if kept(data).as_deref() == Some(name) {
        return Ok(());
    }
    let file = file_in(data);
    let partial = file.with_extension("partial");
    std::fs::write(&partial, name).and_then(|()| std::fs::rename(&partial, &file)).map_err(file_error(&file))
}

fn kept(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file_in(data)).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

fn file_in(data: &Path) -> PathBuf {
    data.join("controller")
}
