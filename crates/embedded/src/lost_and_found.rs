//! `lost+found/` in the data directory. Files without a record are moved there, and the service itself never deletes them.
//!
//! A record may have been deleted before its file, or the service may have been started over the wrong databases. The service cannot tell
//! these apart, so the file stays until `cellshift db purge-lost` removes it. Its name says when it was found: `<service's
//! folder>/<time>-<name>`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::{Deserialize, Serialize};

/// The directory's name below the data directory.
const NAME: &str = "lost+found";
/// The format of the time of finding in a name.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// A file that had no record when the service started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// Relative to `lost+found/`.
    pub path: PathBuf,
    /// The moment of the move; null if the name has no time, because someone else put the file there.
    pub found_at: Option<DateTime<Utc>>,
    pub bytes: u64,
}

/// Returns the path of `lost+found/` in a data directory.
pub fn in_directory(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// Moves a file out of a service's folder into `lost+found/` beside that folder, and returns its new path. Replaces no file there. The move
/// is durable when this returns. Blocking.
pub fn keep(folder: &Path, name: &str, now: DateTime<Utc>) -> io::Result<PathBuf> {
    let (Some(beside), Some(own_name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::Error::other(format!("{} has no directory above it", folder.display())));
    };
    let lost = in_directory(beside);
    let place = lost.join(own_name);
    fs::create_dir_all(&place)?;
    let stem = format!("{}-{name}", now.format(TIME));
    // A single process holds the data directory, so nobody takes the name between check and move.
    let names = std::iter::once(stem.clone()).chain((1_u64..).map(|number| format!("{stem}.{number}")));
    let Some(free) = names.map(|name| place.join(name)).find(|path| path.symlink_metadata().is_err()) else {
        return Err(io::Error::other("every name is taken"));
    };
    fs::rename(folder.join(name), &free)?;
    for changed in [beside, &lost, &place, folder] {
        File::open(changed)?.sync_all()?;
    }
    Ok(free)
}

/// Returns all files in a data directory's `lost+found/`, ordered by path. Blocking.
pub fn list(data: &Path) -> io::Result<Vec<Lost>> {
    let root = in_directory(data);
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                folders.push(entry.path());
                continue;
            }
            let path = entry.path().strip_prefix(&root).map_or_else(|_| entry.path(), Path::to_owned);
            files.push(Lost { path, found_at: found_at(&entry.file_name().to_string_lossy()), bytes: about.len() });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Removes and returns the files found before this time. `dry_run` only returns them. Blocking.
pub fn purge(data: &Path, before: DateTime<Utc>, dry_run: bool) -> io::Result<Vec<Lost>> {
    let mut old = list(data)?;
    old.retain(|lost| lost.found_at.is_some_and(|moment| moment < before));
    if !dry_run {
        for lost in &old {
            fs::remove_file(in_directory(data).join(&lost.path))?;
        }
    }
    Ok(old)
}

fn found_at(name: &str) -> Option<DateTime<Utc>> {
    let (time, _) = name.split_once('-')?;
    NaiveDateTime::parse_from_str(time, TIME).ok().map(|time| time.and_utc())
}
