//! The bytes known to be on a disk: length, SHA-256 and the state of that hash, so that appended bytes can be added without reading the
//! disk again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};

/// The number of bytes read at once.
const CHUNK: usize = 1 << 20;

/// A part of a file with known contents: a whole disk, or the bytes that a guest appended to a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Written {
    /// Its offset in the file: 0, except for a volume.
    #[serde(default)]
    pub from: u64,
    /// Its end, which is also the end of the file if nobody else has written.
    pub end: u64,
    /// The SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// The state of this hash, in hex.
    state: String,
}

/// A [`Written`] to which bytes are being added.
#[derive(Clone)]
pub struct Writing {
    from: u64,
    end: u64,
    hash: Sha256,
}

impl Writing {
    /// Begins at this offset without known bytes.
    pub fn at(from: u64) -> Writing {
        Writing { from, end: from, hash: Sha256::new() }
    }

    /// Continues after `record`, whose bytes are in the file at `path`. Reads the file only if another release wrote the state of the hash;
    /// then `None` if its bytes differ.
    pub fn resume(record: &Written, path: &Path) -> io::Result<Option<Writing>> {
        if let Some(hash) = restored(&record.state) {
            return Ok(Some(Writing { from: record.from, end: record.end, hash }));
        }
        let mut read = Writing::at(record.from);
        read.follow(path, record.end)?;
        Ok(Some(read).filter(|read| read.written().sha256 == record.sha256))
    }

    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.end += bytes.len() as u64;
    }

    /// Adds the bytes of the file up to `end`, or up to its end if it is shorter.
    pub fn follow(&mut self, path: &Path, end: u64) -> io::Result<()> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.end))?;
        let mut rest = file.take(end.saturating_sub(self.end));
        let mut chunk = vec![0; CHUNK];
        loop {
            match rest.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => self.append(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the present end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the present contents.
    pub fn written(&self) -> Written {
        let (sha256, state) = (hex::encode(self.hash.clone().finalize()), hex::encode(self.hash.serialize()));
        Written { from: self.from, end: self.end, sha256, state }
    }
}

fn restored(state: &str) -> Option<Sha256> {
    let bytes = SerializedState::<Sha256>::try_from(&*hex::decode(state).ok()?).ok()?;
    Sha256::deserialize(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_need_no_look_at_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let bytes: Vec<u8> = (0..5000u32).map(|number| (number % 251) as u8).collect();
        for (cut, readable) in [(0, true), (63, true), (64, true), (4999, true), (700, false)] {
            let mut begun = Writing::at(0);
            begun.append(&bytes[..cut]);
            let mut record = begun.written();
            std::fs::write(&path, &bytes[..cut]).unwrap();
            if !readable {
                record.state = "of another release".into();
            }
            let record: Written = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            let mut resumed = Writing::resume(&record, &path).unwrap().unwrap();
            resumed.append(&bytes[cut..]);
            assert_eq!(resumed.written().sha256, hex::encode(Sha256::digest(&bytes)), "cut at {cut}");
            assert_eq!(resumed.end(), 5000);
        }
    }

    #[test]
    fn bytes_that_changed_are_not_taken_for_those_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let mut begun = Writing::at(0);
        begun.append(b"what was written");
        let mut record = begun.written();
        record.state.clear();
        std::fs::write(&path, b"what was changed").unwrap();
        assert!(Writing::resume(&record, &path).unwrap().is_none());
    }
}
