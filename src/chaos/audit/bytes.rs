//! I16 for bytes: each image, volume and disk exists with its expected length and, if a deep audit has read it, with the bytes that were
//! written.

use std::collections::BTreeSet;

use cellshift_embedded::stored_bytes::Finding;
use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation};
use super::snapshot::Snapshot;
use crate::domain::host_protocol::{DiskReport, DiskVerdict};
use crate::domain::instance::Instance;
use crate::domain::server::VmState;
use crate::services::stored_bytes::StoredBytes;

/// Finds violations of I16 in files.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    for (kind, files) in [("image", &snapshot.image_files), ("volume", &snapshot.volume_files)] {
        for file in files.iter().flatten().filter(|file| !file.fits()) {
            findings.add("I16", format!("{kind} {}", file.id), length_of(file));
        }
    }
    // A server whose build or rebuild failed may lack disks that nobody has written.
    let broken: BTreeSet<Uuid> = snapshot.records().filter(|(_, record)| is_unfinished(record)).map(|(_, record)| record.uuid).collect();
    for (name, host) in &snapshot.hosts {
        for guest in &host.report.guests {
            let whole = |disk: &DiskReport| fits(disk) || (disk.expected.is_none() && broken.contains(&guest.server));
            for disk in guest.disks.iter().filter(|disk| !whole(disk)) {
                findings.about(guest.server, Topic::Host, "I16", format!("server {}", guest.server), length_on(name, disk));
            }
        }
    }
    if let Some(deep) = &snapshot.deep {
        for (kind, id, finding) in &deep.files {
            findings.add("I16", format!("{kind} {id}"), wrong_content("its file", finding));
        }
        for (host, server, disk, verdict) in &deep.disks {
            let subject = format!("server {server}");
            match verdict {
                DiskVerdict::Differs { expected, sha256 } => {
                    let finding = Finding::Differs { expected: expected.clone(), sha256: sha256.clone() };
                    findings.about(*server, Topic::Host, "I16", subject, wrong_content(&format!("{} on {host}", called(disk)), &finding));
                }
                DiskVerdict::Unreadable { reason } => {
                    let finding = Finding::Unreadable(reason.clone());
                    findings.about(*server, Topic::Host, "I16", subject, wrong_content(&format!("{} on {host}", called(disk)), &finding));
                }
                DiskVerdict::Same | DiskVerdict::Changing => {}
            }
        }
    }
    findings.done()
}

fn is_unfinished(record: &Instance) -> bool {
    matches!(record.vm_state, VmState::Error | VmState::Building | VmState::Deleted)
}

/// True for a disk of the expected length. A missing volume is reported by its own record.
fn fits(disk: &DiskReport) -> bool {
    match (disk.length, disk.expected) {
        (None, _) => disk.name.parse::<Uuid>().is_ok(),
        (Some(_), None) => true,
        (Some(length), Some(expected)) => length == expected || (disk.at_least && length > expected),
    }
}

fn called(disk: &str) -> String {
    match disk.parse::<Uuid>() {
        Ok(volume) => format!("volume {volume}"),
        Err(_) => disk.to_owned(),
    }
}

fn length_on(host: &str, disk: &DiskReport) -> String {
    let least = if disk.at_least { "at least " } else { "" };
    match (disk.length, disk.expected) {
        (None, Some(expected)) => format!("{} on {host} is missing, expected {least}{expected} bytes", called(&disk.name)),
        (None, None) => format!("{} on {host} is missing, expected a file", called(&disk.name)),
        (Some(length), expected) => {
            let expected = expected.unwrap_or_default();
            format!("{} on {host} has {length} bytes, expected {least}the {expected} that were written", called(&disk.name))
        }
    }
}

fn length_of(file: &StoredBytes) -> String {
    let least = if file.at_least { "at least " } else { "" };
    match file.length {
        None => format!("its file is missing, expected {least}{} bytes", file.expected),
        Some(length) => format!("its file has {length} bytes, expected {least}{} as on its record", file.expected),
    }
}

fn wrong_content(what: &str, finding: &Finding) -> String {
    match finding {
        Finding::Differs { expected, sha256 } => {
            format!("{what} does not hold what was written: its SHA-256 is {sha256}, expected {expected}")
        }
        Finding::Unreadable(reason) => format!("{what} cannot be read: {reason}"),
    }
}
