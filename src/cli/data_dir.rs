//! The data directory: made on the first start, and held by one process at a time.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("the data directory {} cannot be made: {source}", path.display())]
    Make { path: PathBuf, source: std::io::Error },
    #[error("the data directory {} cannot be written to: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the data directory {} is in use by another cellshift: stop that one, or choose another with --data-dir", path.display())]
    InUse { path: PathBuf },
    #[error("there is no data directory {}: start the service once, or name another with --data-dir", path.display())]
    Missing { path: PathBuf },
}

/// A data directory in hand; another process can have it when this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory when there is none, readable for its owner only, because it holds passwords and keys; and takes it.
    pub fn take(path: &Path) -> Result<DataDir, DataDirError> {
        if !path.exists() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|source| DataDirError::Make { path: path.to_owned(), source })?;
        }
        let lock_file = path.join("lock");
        let opened = File::options().create(true).truncate(false).write(true).open(&lock_file);
        let lock = opened.map_err(|source| DataDirError::Write { path: path.to_owned(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(DataDirError::Write { path: path.to_owned(), source }),
        }
    }

    /// Takes a directory that must be there.
    pub fn take_existing(path: &Path) -> Result<DataDir, DataDirError> {
        match path.is_dir() {
            true => DataDir::take(path),
            false => Err(DataDirError::Missing { path: path.to_owned() }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_private(path: &Path, contents: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, "")?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o600))?;
    fs::write(&partial, contents)?;
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_and_each_refusal_is_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(DataDir::take_existing(&path).unwrap_err().to_string().contains("there is no data directory"));
        let first = DataDir::take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(DataDir::take(&path).unwrap_err().to_string().contains("in use by another cellshift"));
        drop(first);
        assert!(DataDir::take_existing(&path).is_ok());

        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(DataDir::take(&file.join("below")).unwrap_err().to_string().contains("cannot be made"));
        assert!(DataDir::take(&file).unwrap_err().to_string().contains("cannot be written to"));
    }
}
