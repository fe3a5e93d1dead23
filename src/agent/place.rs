//! The place of a host: the id of the data directory that its agent has for it, and the number of the agent's lives there. By the number,
//! controllers see that of two lives of one directory the earlier one is over: the directory is locked by one process at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cellshift_nats::Place;

use crate::env::Env;
use crate::virt::files::Durability;

/// The folder of places in the data directory.
const FOLDER: &str = "agent";

/// The reason why a life has no place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The file cannot be read.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's or the parser's words.
        reason: String,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// Counts a life of the host's agent durably, and returns its place. The first life makes the place. Only the process that holds the data
/// directory's lock may call this. Blocks.
pub fn next_life(data_dir: &Path, host: &str, env: &Env) -> Result<Place, PlaceError> {
    let (folder, name) = (data_dir.join(FOLDER), format!("{host}.toml"));
    let path = folder.join(&name);
    let earlier = read(&path).map_err(|reason| PlaceError::Unreadable { path: path.clone(), reason })?;
    let place = match earlier {
        Some(Place { id, start }) => Place { id, start: start.saturating_add(1) },
        None => Place { id: env.uuid(), start: 1 },
    };
    write(&folder, &name, &place, Durability::of(env)).map_err(|error| PlaceError::Unwritable { path, error })?;
    Ok(place)
}

/// Reads a place; none if there was no life yet.
fn read(path: &Path) -> Result<Option<Place>, String> {
    match fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|error| error.to_string().trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn write(folder: &Path, name: &str, place: &Place, durability: Durability) -> io::Result<()> {
    let text = toml::to_string(place).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    if let Some(data_dir) = folder.parent() {
        durability.flush_names(data_dir)?;
    }
    durability.replace(folder, name, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_has_a_higher_number_in_the_same_place() {
        let (data, env) = (tempfile::tempdir().unwrap(), Env::system());
        let first = next_life(data.path(), "h1", &env).unwrap();
        let second = next_life(data.path(), "h1", &env).unwrap();
        assert_eq!((first.start, second), (1, Place { id: first.id, start: 2 }));
        let other = next_life(data.path(), "h.2", &env).unwrap();
        assert!(other.id != first.id && other.start == 1, "each host has a place of its own");
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(next_life(elsewhere.path(), "h1", &env).unwrap().id, first.id);
    }

    #[test]
    fn a_place_that_cannot_be_read_is_not_made_anew() {
        let (data, env) = (tempfile::tempdir().unwrap(), Env::system());
        next_life(data.path(), "h1", &env).unwrap();
        let path = data.path().join("agent/h1.toml");
        fs::write(&path, "id = 7").unwrap();
        let refusal = next_life(data.path(), "h1", &env).unwrap_err().to_string();
        assert!(refusal.contains(&format!("{} cannot be read", path.display())), "{refusal}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "id = 7");
    }

    #[test]
    fn a_life_that_cannot_be_counted_has_no_place() {
        let (data, env) = (tempfile::tempdir().unwrap(), Env::system());
        fs::write(data.path().join("agent"), "a file where the folder should be").unwrap();
        assert!(matches!(next_life(data.path(), "h1", &env), Err(PlaceError::Unreadable { .. } | PlaceError::Unwritable { .. })));
    }
}
