//! Files that must survive a crash: written whole, flushed, and renamed into place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use cellshift_env::{Blocking, Env};

/// Whether writes wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// A finished write survives a power cut.
    Flushed,
    /// A finished write survives the end of the process only: for a simulation, where the power cannot fail.
    Relaxed,
}

impl Durability {
    /// Returns the durability for the environment.
    pub fn of(env: &Env) -> Durability {
        match env.blocking() {
            Blocking::Pool => Durability::Flushed,
            Blocking::Inline => Durability::Relaxed,
        }
    }

    /// Flushes a file's contents.
    pub fn flush(self, file: &File) -> io::Result<()> {
        if self == Durability::Flushed { file.sync_data() } else { Ok(()) }
    }

    /// Makes names created, renamed or removed in `dir` durable.
    pub fn flush_names(self, dir: &Path) -> io::Result<()> {
        if self == Durability::Flushed { File::open(dir)?.sync_all() } else { Ok(()) }
    }

    /// Replaces the file `name` in `dir`. After a crash the file has the old or the new contents, never a mixture. If this fails, the old
    /// contents stay.
    pub fn replace(self, dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = dir.join(format!(".{name}.new"));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(content)?;
            self.flush(&file)
        });
        if let Err(error) = written.and_then(|()| fs::rename(&temporary, dir.join(name))) {
            // A half-written file on a full disk only takes room; return the original error.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        self.flush_names(dir)
    }
}

/// Removes a file. Succeeds if there is none.
pub fn remove_file(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_file(path))
}

/// Removes a directory with its contents. Succeeds if there is none.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_dir_all(path))
}

/// Returns the names in a directory, sorted; none if there is no directory.
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
