//! Compares a guest's disks with the record of what was written to them: by their lengths in each report, byte by byte on demand.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use cellshift_domain::host_protocol::{DiskCheck, DiskReport, DiskVerdict};
use cellshift_domain::reason::Reason;
use uuid::Uuid;

use super::host::{CommandError, Host};
use crate::virt::Content;
use crate::virt::written::{Writing, Written};

/// The number of bytes of one blocking read. Between two reads the asker may go away.
const PIECE: u64 = 8 << 20;
/// The number of tries to read a disk whose guest is defined anew meanwhile.
const READINGS: usize = 3;

/// Reads a guest's files.
#[async_trait]
pub(super) trait Reads: Sync {
    /// See [`crate::virt::Hypervisor::contents`].
    async fn contents(&self, server: Uuid) -> Result<Vec<Content>, Reason>;
    /// See [`Writing::follow`].
    async fn follow(&self, writing: Writing, path: PathBuf, end: u64) -> Result<(Writing, io::Result<()>), Reason>;
}

#[async_trait]
impl Reads for Host {
    async fn contents(&self, server: Uuid) -> Result<Vec<Content>, Reason> {
        self.virt(move |hypervisor| hypervisor.contents(server)).await.map_err(CommandError::reason)
    }

    async fn follow(&self, writing: Writing, path: PathBuf, end: u64) -> Result<(Writing, io::Result<()>), Reason> {
        self.blocking(move || followed(writing, &path, end)).await.map_err(CommandError::reason)
    }
}

/// Follows a writing as [`Writing::follow`] does, and returns it.
pub(super) fn followed(mut writing: Writing, path: &std::path::Path, end: u64) -> (Writing, io::Result<()>) {
    let read = writing.follow(path, end);
    (writing, read)
}

/// A guest's files, read by its host.
pub(super) fn disk_reports(contents: Vec<Content>) -> Vec<DiskReport> {
    let reports = contents.into_iter().map(|Content { name, length, written, at_least, .. }| {
        let (from, expected) = written.map_or((0, None), |written| (written.from, Some(written.end)));
        DiskReport { name, length, from, expected, at_least }
    });
    reports.collect()
}

/// Reads each disk of a guest whose contents are known.
pub(super) async fn check_disks(reads: &impl Reads, server: Uuid) -> Result<Vec<DiskCheck>, Reason> {
    let mut checks = Vec::new();
    for content in reads.contents(server).await? {
        // The length tells of a file that is missing or too short.
        let enough = content.written.as_ref().is_some_and(|written| content.length.is_some_and(|length| length >= written.end));
        if enough {
            checks.push(check_disk(reads, server, content).await?);
        }
    }
    Ok(checks)
}

async fn check_disk(reads: &impl Reads, server: Uuid, mut content: Content) -> Result<DiskCheck, Reason> {
    let name = content.name.clone();
    let mut bytes = 0;
    for _ in 0..READINGS {
        let Some(written) = content.written.take() else { break };
        let read = read(reads, content.path.clone(), &written).await?;
        bytes += read.as_ref().map_or(0, |read| read.end - read.from);
        if read.as_ref().is_ok_and(|read| *read == written) {
            return Ok(DiskCheck { name, bytes, verdict: DiskVerdict::Same });
        }
        let now = reads.contents(server).await?.into_iter().find(|now| now.name == name);
        let Some(now) = now else { break };
        // The record of writes only grows as long as the guest is the same. A guest that is defined anew has other disks.
        let same = now.life == content.life && now.written.as_ref().is_some_and(|now| now.from == written.from && now.end >= written.end);
        if same {
            let verdict = match read {
                Ok(read) => DiskVerdict::Differs { expected: written.sha256, sha256: read.sha256 },
                Err(error) => DiskVerdict::Unreadable { reason: error.to_string() },
            };
            return Ok(DiskCheck { name, bytes, verdict });
        }
        content = now;
    }
    Ok(DiskCheck { name, bytes, verdict: DiskVerdict::Changing })
}

/// Returns the part of the file that was written.
async fn read(reads: &impl Reads, path: PathBuf, written: &Written) -> Result<io::Result<Written>, Reason> {
    let mut reading = Writing::at(written.from);
    while reading.end() < written.end {
        let before = reading.end();
        let (read, outcome) = reads.follow(reading, path.clone(), written.end.min(before + PIECE)).await?;
        reading = read;
        if let Err(error) = outcome {
            return Ok(Err(error));
        }
        if reading.end() == before {
            break;
        }
    }
    Ok(Ok(reading.written()))
}
