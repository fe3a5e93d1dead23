//! Proves the contents of a guest's disks with checksums. A running guest continues to append, so the proof covers the bytes of the first
//! look: the second look must find them unchanged.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::DemoError;
use super::server::Server;
use super::stage::Stage;
use crate::domain::host_trial::{HostTrial, TrialOutcome};
use crate::env::Env;
use crate::virt::hypervisor::ROOT;

/// The number of bytes read at once.
const BLOCK: usize = 1 << 20;

/// The first `bytes` bytes of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub bytes: u64,
    /// SHA-256 in hex, over all blocks that are not zero, and their positions.
    pub checksum: String,
}

/// The contents of a server's disks at one time.
pub struct Evidence {
    pub root: Content,
    pub volume: Content,
}

impl Evidence {
    /// Reads all present bytes of the disks.
    pub async fn take(stage: &Stage, server: &Server) -> Result<Evidence, DemoError> {
        let (root, volume) = paths(stage, server).await?;
        Ok(Evidence { root: read(root, None).await?, volume: read(volume, None).await? })
    }

    /// Reads as many bytes as in `self`, from the disks' present place.
    pub async fn again(&self, stage: &Stage, server: &Server) -> Result<Evidence, DemoError> {
        let (root, volume) = paths(stage, server).await?;
        Ok(Evidence { root: read(root, Some(self.root.bytes)).await?, volume: read(volume, Some(self.volume.bytes)).await? })
    }

    /// Prints the contents.
    pub fn show(&self, stage: &Stage) {
        for (name, content) in [("root disk", &self.root), ("volume", &self.volume)] {
            stage.narrator.fact(name, &format!("{:>13} bytes  sha256 {}…", grouped(content.bytes), &content.checksum[..24]));
        }
    }
}

/// Returns the files of the server's root disk, on the host that the API names, and of its volume.
async fn paths(stage: &Stage, server: &Server) -> Result<(PathBuf, PathBuf), DemoError> {
    let host = server.look(stage).await?.host;
    let root = match stage.trial(&host, HostTrial::Disks { server: server.id }).await? {
        TrialOutcome::Disks(disks) => disks.into_iter().find(|disk| disk.name == ROOT),
        _ => None,
    };
    let root = root.ok_or_else(|| DemoError::Wrong(format!("host {host} has no root disk of server {}", server.name)))?;
    server.check_volume_at(stage, &host).await?;
    Ok((root.path, stage.cloud.data().join("volumes").join(&server.volume)))
}

async fn read(path: PathBuf, bytes: Option<u64>) -> Result<Content, DemoError> {
    let what = path.display().to_string();
    let content = Env::system().run_blocking(move || checksum(&path, bytes)).await;
    content.map_err(|source| DemoError::Io { what, source })
}

/// Reads the first bytes of a file, or all.
fn checksum(path: &Path, bytes: Option<u64>) -> std::io::Result<Content> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let bytes = bytes.unwrap_or(size).min(size);
    let (mut hasher, zeros, mut block) = (Sha256::new(), vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < bytes {
        let length = usize::try_from(bytes - at).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact(&mut block[..length])?;
        // Skips zeros, because a new volume is a gibibyte of zeros.
        if block[..length] != zeros[..length] {
            hasher.update(at.to_be_bytes());
            hasher.update(&block[..length]);
        }
        at += length as u64;
    }
    let checksum = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Content { bytes, checksum })
}

/// Groups digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_of_the_bytes_that_were_there_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [vec![0; BLOCK], b"data".to_vec()].concat()).unwrap();
        let before = checksum(&path, None).unwrap();
        std::fs::write(&path, [vec![0; BLOCK], b"data and more".to_vec()].concat()).unwrap();
        assert_eq!(checksum(&path, Some(before.bytes)).unwrap(), before);
        assert_ne!(checksum(&path, None).unwrap(), before);
        std::fs::write(&path, [b"data".to_vec(), vec![0; BLOCK]].concat()).unwrap();
        assert_ne!(checksum(&path, None).unwrap(), before);
        assert_eq!(grouped(1_073_741_909), "1 073 741 909");
        assert_eq!(grouped(12), "12");
    }
}
