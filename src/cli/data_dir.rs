//! The data directory: made on the first start, held by one process at a time, and closed to other users.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::bootstrap::seat::LOCK_FILE;
use crate::domain::counted::counted;

/// The mode bits that let others than the owner read, write or enter.
const OTHERS: u32 = 0o077;

/// The reason why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("the data directory {} cannot be made: {source}", path.display())]
    Make { path: PathBuf, source: std::io::Error },
    #[error("the data directory {} cannot be written to: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the data directory {} is in use by another cellshift: stop that one, or choose another with --data-dir", path.display())]
    InUse { path: PathBuf },
    #[error("the data directory {} belongs to user {owner} and this process runs as user {user}: that user could read everything in it; give it this user as its owner, or choose another with --data-dir", path.display())]
    NotOurs { path: PathBuf, owner: u32, user: u32 },
    #[error("the data directory {} cannot be closed to other users: {source}", path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("there is no data directory {}: start the service once, or name another with --data-dir", path.display())]
    Missing { path: PathBuf },
}

/// A held data directory. Dropping it releases the directory for other processes.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
    _made: Made,
}

/// The lock and the directories that this process made for the data directory. A refused start removes them, unless other files have been
/// put there.
#[derive(Debug, Default)]
struct Made {
    lock: Option<PathBuf>,
    /// The data directory and its missing parents, the deepest first.
    directories: Vec<PathBuf>,
}

impl Drop for Made {
    fn drop(&mut self) {
        let is_alone = |lock: &&PathBuf| lock.parent().is_some_and(|at| fs::read_dir(at).is_ok_and(|entries| entries.count() == 1));
        if let Some(lock) = self.lock.as_ref().filter(is_alone) {
            // A lock file that cannot be removed stays, with its directory.
            let _ = fs::remove_file(lock);
        }
        // `remove_dir` removes only empty directories.
        let _ = self.directories.iter().try_for_each(fs::remove_dir);
    }
}

impl DataDir {
    /// Makes the directory if it is missing, readable for its owner only, because it contains passwords, keys and users' disks; then holds
    /// it. Closes a directory that is open to others, with its contents. Refuses another user's directory.
    pub fn take(path: &Path) -> Result<DataDir, DataDirError> {
        let mut makes = Made::default();
        if !path.exists() {
            let missing = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
            makes.directories = missing.map(Path::to_owned).collect();
            let outcome = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            outcome.map_err(|source| DataDirError::Make { path: path.to_owned(), source })?;
        }
        close_to_others(path)?;
        let lock_file = path.join(LOCK_FILE);
        let has_lock = lock_file.exists();
        let opened = File::options().create(true).truncate(false).write(true).mode(0o600).open(&lock_file);
        let lock = opened.map_err(|source| DataDirError::Write { path: path.to_owned(), source })?;
        match lock.try_lock() {
            // A refused process may have removed the file meanwhile; then this lock would exclude nobody.
            Ok(()) if !is_at(&lock, &lock_file) => Err(DataDirError::InUse { path: path.to_owned() }),
            Ok(()) => {
                let closed = close_all(path).map_err(|source| DataDirError::Open { path: path.to_owned(), source })?;
                if closed > 0 {
                    log::warn!(
                        "in {} this was open to other users, and is its owner's only now: {}",
                        path.display(),
                        counted(closed, "path")
                    );
                }
                makes.lock = (!has_lock).then_some(lock_file);
                Ok(DataDir { path: path.to_owned(), _lock: lock, _made: makes })
            }
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(DataDirError::Write { path: path.to_owned(), source }),
        }
    }

    /// Holds a directory that must exist.
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

/// True if the open file is the file at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().map(id).ok().is_some_and(|own| fs::metadata(path).map(id).ok() == Some(own))
}

/// Makes all files that this process creates readable for its owner only. Must be called before any file is created.
pub fn create_for_owner_only() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS));
}

/// Refuses another user's directory, and closes this user's directory to others.
fn close_to_others(path: &Path) -> Result<(), DataDirError> {
    let metadata = fs::metadata(path).map_err(|source| DataDirError::Write { path: path.to_owned(), source })?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.is_dir() && metadata.uid() != user {
        return Err(DataDirError::NotOurs { path: path.to_owned(), owner: metadata.uid(), user });
    }
    if metadata.is_dir() && close(path, &metadata).map_err(|source| DataDirError::Open { path: path.to_owned(), source })? {
        let mode = metadata.mode() & 0o777;
        log::warn!("other users could enter the data directory {} (mode {mode:o}); now only its owner can", path.display());
    }
    Ok(())
}

/// Closes all files below a directory, and returns how many were open. Does not follow links, which may lead out of it.
fn close_all(dir: &Path) -> io::Result<usize> {
    let mut closed = 0;
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let metadata = match fs::symlink_metadata(&path) {
                // A running client may have replaced a file meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_symlink() {
                continue;
            }
            match close(&path, &metadata) {
                Ok(was_open) => closed += usize::from(was_open),
                // Nobody else can reach the file through the closed data directory.
                Err(error) => log::warn!("{} stays open to other users: {error}", path.display()),
            }
            if metadata.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(closed)
}

/// Removes others' permissions. False if they had none.
fn close(path: &Path, metadata: &fs::Metadata) -> io::Result<bool> {
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS)).map(|()| true)
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
        fs::write(path.join("kept"), "").unwrap();
        drop(first);
        drop(DataDir::take_existing(&path).unwrap());
        assert!(path.join("lock").exists());

        let unused = dir.path().join("unused");
        drop(DataDir::take(&unused).unwrap());
        assert!(!unused.exists(), "a start that made nothing leaves nothing");
        drop(DataDir::take(&unused.join("far/below")).unwrap());
        assert!(!unused.exists(), "nor the directories above");
        fs::create_dir(&unused).unwrap();
        drop(DataDir::take_existing(&unused).unwrap());
        assert_eq!(fs::read_dir(&unused).unwrap().count(), 0);

        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(DataDir::take(&file.join("below")).unwrap_err().to_string().contains("cannot be made"));
        assert!(DataDir::take(&file).unwrap_err().to_string().contains("cannot be written to"));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_directory_that_others_could_enter_is_closed_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        fs::create_dir_all(data.join("cells/cell1")).unwrap();
        for file in [&data.join("api.db"), &data.join("cells/cell1/disk"), &outside] {
            fs::write(file, "").unwrap();
        }
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        for (name, bits) in [("", 0o755), ("api.db", 0o644), ("cells", 0o775), ("cells/cell1", 0o755), ("cells/cell1/disk", 0o666)] {
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(bits)).unwrap();
        }
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();

        let held = DataDir::take(&data).unwrap();
        for (name, bits) in [("", 0o700), ("api.db", 0o600), ("cells", 0o700), ("cells/cell1", 0o700), ("cells/cell1/disk", 0o600)] {
            assert_eq!(mode(&data.join(name)), bits, "{name}");
        }
        assert_eq!(mode(&held.path().join("lock")), 0o600);
        assert_eq!(mode(&outside), 0o644, "a link leads out of the directory");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        // Every user may write below this path, and root owns it. Root itself needs a change of owner for such a path.
        let user = rustix::process::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let path = match user {
            0 => {
                std::os::unix::fs::chown(dir.path(), Some(4711), None).unwrap();
                dir.path()
            }
            _ => Path::new("/tmp"),
        };
        let refused = DataDir::take(path).unwrap_err();
        assert!(matches!(refused, DataDirError::NotOurs { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("runs as user {user}")), "{refused}");
        assert!(!path.join("lock").exists(), "nothing is written there");
    }
}
