//! A host's memory of a server: the highest fence, the claimed room, and the replies under that fence. Each server has a small log, whose
//! last whole line counts. The log outlives the guest, so that a late request is still refused.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::host_protocol::{HostClaim, HostReply};
use crate::virt::files::{self, Durability};

/// The number of lines after which a log is written anew.
const LINES_MAX: u32 = 32;
const SUFFIX: &str = ".log";

/// A host's memory of one server.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct ServerMemory {
    /// The highest `(epoch, attempt)`.
    pub fence: (i64, i64),
    /// The claims by their keys.
    pub claims: BTreeMap<Uuid, HostClaim>,
    /// The replies under `fence` by the command's digest.
    pub replies: BTreeMap<String, HostReply>,
}

/// The logs of one host.
pub(super) struct MemoryStore {
    dir: PathBuf,
    durability: Durability,
    /// The number of lines in each log that this process has written. A log without a number is written anew first.
    lines: Mutex<BTreeMap<Uuid, u32>>,
}

/// Reads the logs in `dir`. Empty if there is no such directory.
pub(super) fn read(dir: &Path) -> io::Result<BTreeMap<Uuid, ServerMemory>> {
    let mut memories = BTreeMap::new();
    for name in files::names_in(dir)? {
        let Some(server) = name.strip_suffix(SUFFIX).and_then(|stem| stem.parse::<Uuid>().ok()) else { continue };
        let text = fs::read(dir.join(&name))?;
        // A torn last line was never acknowledged, so the line before it counts.
        let last = text.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice::<ServerMemory>(line).ok());
        let memory = last.ok_or_else(|| io::Error::other(format!("the memory of server {server} cannot be read")))?;
        memories.insert(server, memory);
    }
    Ok(memories)
}

impl MemoryStore {
    /// Opens the logs in `dir` and reads them.
    pub fn open(dir: &Path, durability: Durability) -> io::Result<(MemoryStore, BTreeMap<Uuid, ServerMemory>)> {
        fs::create_dir_all(dir)?;
        let memories = read(dir)?;
        Ok((MemoryStore { dir: dir.to_owned(), durability, lines: Mutex::new(BTreeMap::new()) }, memories))
    }

    /// Records the memory of a server. With `flush` it survives a power cut; without, at least the earlier state does. One call at a time
    /// per server.
    pub fn record(&self, server: Uuid, memory: &ServerMemory, flush: bool) -> io::Result<()> {
        let mut line = serde_json::to_vec(memory)?;
        line.push(b'\n');
        let name = format!("{server}{SUFFIX}");
        let lines = self.lines.lock().remove(&server);
        let written = match lines {
            Some(count) if count < LINES_MAX => {
                let mut file = OpenOptions::new().append(true).open(self.dir.join(&name))?;
                file.write_all(&line)?;
                if flush {
                    self.durability.flush(&file)?;
                }
                count + 1
            }
            _ => {
                self.durability.replace(&self.dir, &name, &line)?;
                1
            }
        };
        // After the write: a failed append may leave a torn line, and the log must be written anew.
        self.lines.lock().insert(server, written);
        Ok(())
    }

    /// Removes the log of a server, to which nothing late can come any more.
    pub fn forget(&self, server: Uuid) -> io::Result<()> {
        self.lines.lock().remove(&server);
        match fs::remove_file(self.dir.join(format!("{server}{SUFFIX}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_of_an_earlier_release_has_no_functions() {
        let old = r#"{"fence":[1,2],"claims":{"00000000-0000-0000-0000-000000000001":{"vcpu":1,"memory_mb":2,"disk_gb":3}},"replies":{}}"#;
        let memory: ServerMemory = serde_json::from_str(old).unwrap();
        let claim = &memory.claims[&Uuid::from_u128(1)];
        assert_eq!((claim.room.vcpu, claim.room.disk_gb, claim.functions.len()), (1, 3, 0));
        assert_eq!(serde_json::to_string(&memory).unwrap(), old);
    }

    #[test]
    fn the_last_whole_line_counts_after_any_crash() {
        let dir = tempfile::tempdir().unwrap();
        let server = Uuid::from_u128(1);
        let memory = |attempt| ServerMemory { fence: (1, attempt), ..ServerMemory::default() };
        let (store, _) = MemoryStore::open(dir.path(), Durability::Flushed).unwrap();
        for attempt in 1..=100 {
            store.record(server, &memory(attempt), attempt % 2 == 0).unwrap();
        }
        let path = dir.path().join(format!("{server}.log"));
        assert!(fs::read_to_string(&path).unwrap().lines().count() <= LINES_MAX as usize + 1);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"fence\":[1,10").unwrap();
        let (store, memories) = MemoryStore::open(dir.path(), Durability::Flushed).unwrap();
        assert_eq!(memories[&server], memory(100));
        store.record(server, &memory(101), true).unwrap();
        let (_, memories) = MemoryStore::open(dir.path(), Durability::Flushed).unwrap();
        assert_eq!(memories[&server], memory(101));
    }
}
