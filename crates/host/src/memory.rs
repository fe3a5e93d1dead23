//! A host's memory of a server: the highest fence, the claimed room, and the replies under that fence. Each server has a small log, which
//! outlives the guest, so that a late request is still refused.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cellshift_domain::host_protocol::{HostClaim, HostReply};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::virt::files::{self, Durability};
use crate::virt::record_log::{self, RecordLog};

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

impl ServerMemory {
    /// Returns the claims with their keys.
    pub fn held(&self) -> Vec<(Uuid, HostClaim)> {
        self.claims.iter().map(|(holder, claim)| (*holder, claim.clone())).collect()
    }
}

/// The logs of one host.
pub(super) struct MemoryStore {
    dir: PathBuf,
    durability: Durability,
    /// The logs that this process has written.
    logs: Mutex<BTreeMap<Uuid, RecordLog>>,
}

/// Reads the logs in `dir`. Empty if there is no such directory.
pub(super) fn read(dir: &Path) -> io::Result<BTreeMap<Uuid, ServerMemory>> {
    let mut memories = BTreeMap::new();
    for name in files::names_in(dir)? {
        let Some(server) = name.strip_suffix(SUFFIX).and_then(|stem| stem.parse::<Uuid>().ok()) else { continue };
        let text = fs::read(dir.join(&name))?;
        let memory = record_log::last(&text).ok_or_else(|| io::Error::other(format!("the memory of server {server} cannot be read")))?;
        memories.insert(server, memory);
    }
    Ok(memories)
}

impl MemoryStore {
    /// Opens the logs in `dir` and reads them.
    pub fn open(dir: &Path, durability: Durability) -> io::Result<(MemoryStore, BTreeMap<Uuid, ServerMemory>)> {
        fs::create_dir_all(dir)?;
        let memories = read(dir)?;
        Ok((MemoryStore { dir: dir.to_owned(), durability, logs: Mutex::new(BTreeMap::new()) }, memories))
    }

    /// Records the memory of a server. With `flush` it survives a power cut; without, at least the earlier state does. One call at a time
    /// per server.
    pub fn record(&self, server: Uuid, memory: &ServerMemory, flush: bool) -> io::Result<()> {
        let name = format!("{server}{SUFFIX}");
        let mut log = self.logs.lock().remove(&server).unwrap_or_default();
        let recorded = log.record((&self.dir, &name), memory, self.durability, flush);
        self.logs.lock().insert(server, log);
        recorded
    }

    /// Removes the log of a server, to which nothing late can come any more.
    pub fn forget(&self, server: Uuid) -> io::Result<()> {
        self.logs.lock().remove(&server);
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
}
