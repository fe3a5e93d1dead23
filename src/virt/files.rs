//! Files that must not be forgotten: written whole, flushed, and put in place by a rename.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::env::{Blocking, Env};

/// Whether writes wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// They survive a power cut when they return.
    Flushed,
    /// They survive the end of the process only: a simulation, where the power cannot fail.
    Relaxed,
}

impl Durability {
    /// What suits the environment.
    pub fn of(env: &Env) -> Durability {
        match env.blocking() {
            Blocking::Pool => Durability::Flushed,
            Blocking::Inline => Durability::Relaxed,
        }
    }

    /// Flushes a file's content.
    pub fn flush(self, file: &File) -> io::Result<()> {
        if self == Durability::Flushed { file.sync_data() } else { Ok(()) }
    }

    /// Makes names created, renamed or removed in `dir` durable.
    pub fn flush_names(self, dir: &Path) -> io::Result<()> {
        if self == Durability::Flushed { File::open(dir)?.sync_all() } else { Ok(()) }
    }

    /// Replaces the file `name` in `dir`: after a crash there is the old content or the new, never a mixture. When this
    /// fails the old content is still there.
    pub fn replace(self, dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = dir.join(format!(".{name}.new"));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(content)?;
            self.flush(&file)
        });
        if let Err(error) = written.and_then(|()| fs::rename(&temporary, dir.join(name))) {
            // A half-written file on a full disk only takes room; the error below is what matters.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        self.flush_names(dir)
    }
}

/// Removes a file; fine when there is none.
pub fn remove_file(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_file(path))
}

/// Removes a directory with all it holds; fine when there is none.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_dir_all(path))
}

/// The names in a directory, sorted; none when there is no such directory.
pub fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
