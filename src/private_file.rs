//! Files that only their owner may read.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file that only its owner may read, completely or not at all.
pub fn write(path: &Path, contents: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, "")?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o600))?;
    fs::write(&partial, contents)?;
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, path)
}
