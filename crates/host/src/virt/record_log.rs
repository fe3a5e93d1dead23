//! A small file for a record that changes often: each change appends a line, and the last whole line counts. A change then costs one flush of
//! a few bytes, where a file that is replaced as a whole costs three (see [`super::files`], for files that change rarely).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::Durability;

/// The size in bytes beyond which a log is written anew.
const SIZE_MAX: u64 = 32 * 1024;

/// The number of bytes in a log that this process has written; none if another process, or a failed call, wrote to the log last. Such a log
/// may end in a torn line, so the next record replaces the whole file.
#[derive(Debug, Default)]
pub struct RecordLog {
    size: Option<u64>,
}

impl RecordLog {
    /// Records the new state in the file `name` in `dir`. With `flush` the record survives a power cut; without, at least the earlier record
    /// does. One call at a time per file.
    pub fn record(&mut self, (dir, name): (&Path, &str), record: &impl Serialize, durability: Durability, flush: bool) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let before = match self.size.take().filter(|size| *size < SIZE_MAX) {
            Some(size) => {
                let mut file = OpenOptions::new().append(true).open(dir.join(name))?;
                file.write_all(&line)?;
                if flush {
                    durability.flush(&file)?;
                }
                size
            }
            None => {
                durability.replace(dir, name, &line)?;
                0
            }
        };
        self.size = Some(before + line.len() as u64);
        Ok(())
    }
}

/// Returns the record of a log's bytes: its last line that is whole, because a torn line was never acknowledged. None if no line is.
pub fn last<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    bytes.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NAME: &str = "state";

    fn read(dir: &Path) -> Option<u32> {
        last(&fs::read(dir.join(NAME)).unwrap())
    }

    #[test]
    fn the_last_whole_line_counts_after_any_crash() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RecordLog::default();
        let mut longest = 0;
        for number in 1..=20_000 {
            log.record((dir.path(), NAME), &number, Durability::Relaxed, number % 2 == 0).unwrap();
            longest = longest.max(fs::metadata(dir.path().join(NAME)).unwrap().len());
        }
        assert!((SIZE_MAX..SIZE_MAX + 10).contains(&longest), "{longest}");
        assert_eq!(read(dir.path()), Some(20_000));
        OpenOptions::new().append(true).open(dir.path().join(NAME)).unwrap().write_all(b"2000{").unwrap();
        assert_eq!(read(dir.path()), Some(20_000));
        // Another process does not append to the torn line.
        RecordLog::default().record((dir.path(), NAME), &7, Durability::Flushed, true).unwrap();
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), b"7\n");
    }

    #[test]
    fn a_failed_record_leaves_the_earlier_one_and_the_next_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RecordLog::default();
        log.record((dir.path(), NAME), &1, Durability::Flushed, true).unwrap();
        let away = dir.path().join("away");
        fs::rename(dir.path().join(NAME), &away).unwrap();
        log.record((dir.path(), NAME), &2, Durability::Flushed, true).unwrap_err();
        fs::rename(&away, dir.path().join(NAME)).unwrap();
        assert_eq!(read(dir.path()), Some(1));
        log.record((dir.path(), NAME), &3, Durability::Flushed, true).unwrap();
        assert_eq!(read(dir.path()), Some(3));
    }
}
