//! The deep audit: reads all bytes that have a checksum, a few files at a time, and reports its progress. Dropping the request stops it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cellshift_embedded::stored_bytes::{Finding, verify};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::collect::Sources;
use super::snapshot::Snapshot;
use crate::domain::host_protocol::{DiskVerdict, HostAnswer, HostQuery};
use crate::services::stored_bytes::StoredBytes;

/// The number of files, or guests with their disks, that are read concurrently.
const AT_ONCE: usize = 2;
/// The lowest rate at which a host is expected to read its disks. It determines how long the audit waits.
const LEAST_BYTES_PER_SECOND: u64 = 8 << 20;

/// The findings of a deep audit in files.
#[derive(Clone, Debug, Default)]
pub struct Deep {
    /// `image` or `volume`, and the fault of its file.
    pub files: Vec<(&'static str, Uuid, Finding)>,
    /// Host, server, disk, and the result of reading it.
    pub disks: Vec<(String, Uuid, String, DiskVerdict)>,
    pub files_read: usize,
    pub bytes_read: u64,
    /// The number of files without a checksum, from an older release: only their presence is known.
    pub files_unknown: usize,
}

/// The progress of a deep audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    pub files_done: usize,
    pub files_total: usize,
    pub bytes_done: u64,
    pub bytes_total: u64,
}

/// The counters of a deep audit while it runs.
#[derive(Default)]
pub struct Counter {
    files_done: AtomicUsize,
    files_total: AtomicUsize,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
}

impl Counter {
    pub fn progress(&self) -> Progress {
        Progress {
            files_done: self.files_done.load(Ordering::Relaxed),
            files_total: self.files_total.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            bytes_total: self.bytes_total.load(Ordering::Relaxed),
        }
    }

    fn begin(&self, work: &[Work]) {
        self.files_total.store(work.iter().map(|work| work.files).sum(), Ordering::Relaxed);
        self.bytes_total.store(work.iter().map(|work| work.bytes).sum(), Ordering::Relaxed);
    }
}

/// A file or a guest's disks to read.
struct Work {
    what: What,
    files: usize,
    bytes: u64,
}

enum What {
    Stored(&'static str, StoredBytes),
    Guest { cell: String, host: String, server: Uuid },
}

enum Read {
    Stored(&'static str, StoredBytes, Option<Finding>),
    Guest { host: String, server: Uuid, disks: Result<Vec<(String, DiskVerdict)>, String> },
}

/// Reads the snapshot's files and disks, and adds the findings.
pub(super) async fn read(sources: &Sources<'_>, snapshot: &mut Snapshot, counter: &Counter) {
    let (work, files_unknown) = plan(snapshot);
    counter.begin(&work);
    let results: Vec<Read> =
        futures::stream::iter(work).map(|work| perform(sources, work, counter)).buffer_unordered(AT_ONCE).collect().await;
    let Progress { files_done, bytes_done, .. } = counter.progress();
    let mut deep = Deep { files_unknown, files_read: files_done, bytes_read: bytes_done, ..Deep::default() };
    let mut doubtful = Vec::new();
    for result in results {
        match result {
            Read::Stored(kind, file, Some(finding)) => doubtful.push((kind, file, finding)),
            Read::Stored(..) => {}
            Read::Guest { host, server, disks: Ok(disks) } => {
                deep.disks.extend(disks.into_iter().map(|(name, verdict)| (host.clone(), server, name, verdict)));
            }
            Read::Guest { disks: Err(silence), .. } => snapshot.unreachable.push(silence),
        }
    }
    if !doubtful.is_empty() {
        // A file that was deleted or replaced while it was read is no finding.
        let (images, volumes) = sources.stored_bytes(snapshot).await;
        let still = |kind: &str, file: &StoredBytes| {
            let now = if kind == "image" { &images } else { &volumes };
            now.iter().flatten().any(|now| now.id == file.id && now.content == file.content)
        };
        let certain = doubtful.into_iter().filter(|(kind, file, _)| still(kind, file));
        deep.files.extend(certain.map(|(kind, file, finding)| (kind, file.id, finding)));
    }
    deep.disks.sort_by(|a, b| (&a.0, a.1, &a.2).cmp(&(&b.0, b.1, &b.2)));
    snapshot.deep = Some(deep);
}

/// Returns the files to read, and the number of files without a checksum.
fn plan(snapshot: &Snapshot) -> (Vec<Work>, usize) {
    let (mut work, mut unknown) = (Vec::new(), 0);
    for (kind, files) in [("image", &snapshot.image_files), ("volume", &snapshot.volume_files)] {
        for file in files.iter().flatten().filter(|file| file.fits()) {
            match &file.content {
                None => unknown += 1,
                Some((bytes, _)) => work.push(Work { bytes: *bytes, files: 1, what: What::Stored(kind, file.clone()) }),
            }
        }
    }
    for (name, host) in &snapshot.hosts {
        for guest in &host.report.guests {
            let (disks, others): (Vec<_>, Vec<_>) = guest.disks.iter().partition(|disk| disk.expected.is_some());
            // A definition has no expected length to compare.
            unknown += others.iter().filter(|disk| disk.is_disk()).count();
            if disks.is_empty() {
                continue;
            }
            let bytes = disks.iter().map(|disk| disk.expected.unwrap_or_default().saturating_sub(disk.from)).sum();
            let what = What::Guest { cell: host.cell.clone(), host: name.clone(), server: guest.server };
            work.push(Work { bytes, files: disks.len(), what });
        }
    }
    (work, unknown)
}

async fn perform(sources: &Sources<'_>, work: Work, counter: &Counter) -> Read {
    let read = match work.what {
        What::Stored(kind, file) => {
            let finding = verify(&file, sources.env, &counter.bytes_done).await;
            Read::Stored(kind, file, finding)
        }
        What::Guest { cell, host, server } => {
            let patience = sources.patience + Duration::from_secs(work.bytes / LEAST_BYTES_PER_SECOND);
            let answer = sources.hosts.query(&cell, &host, HostQuery::Contents { server }, patience).await;
            let disks = match answer {
                Ok(HostAnswer::Contents(checks)) => {
                    counter.bytes_done.fetch_add(checks.iter().map(|check| check.bytes).sum(), Ordering::Relaxed);
                    Ok(checks.into_iter().map(|check| (check.name, check.verdict)).collect())
                }
                Ok(_) => Err(format!("host {host}: it answered something else than the contents of its disks")),
                Err(silence) => Err(format!("host {host}, disks of server {server}: {silence}")),
            };
            Read::Guest { host, server, disks }
        }
    };
    counter.files_done.fetch_add(work.files, Ordering::Relaxed);
    read
}
