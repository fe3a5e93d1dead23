//! The number of the last published notification, in a small file beside the notifications.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file with the number.
#[derive(Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Names the file beside the file of notifications.
    pub fn beside(notifications: &Path) -> Place {
        Place(notifications.with_extension("published"))
    }

    /// Reads the number; none before the first. A damaged file counts as 0: what is kept is published again, so that nothing is lost.
    pub fn read(&self) -> io::Result<Option<u64>> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(text.trim().parse().unwrap_or_else(|_| {
                log::warn!("{} is damaged: all notifications that are kept are published again", self.0.display());
                0
            }))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the number, completely or not at all.
    pub fn write(&self, sequence: u64) -> io::Result<()> {
        let partial = self.0.with_extension("published.partial");
        fs::write(&partial, format!("{sequence}\n"))?;
        fs::rename(&partial, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_and_a_damaged_one_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::beside(&directory.path().join("notifications.jsonl"));
        assert_eq!(place.read().unwrap(), None);
        place.write(41).unwrap();
        assert_eq!(place.read().unwrap(), Some(41));
        fs::write(directory.path().join("notifications.published"), "").unwrap();
        assert_eq!(place.read().unwrap(), Some(0));
    }
}
