//! A simulated guest's disks and volumes as files: taking them over, completing them, and what the guest writes.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::super::files;
use super::super::hypervisor::{DISK_NAMES, EPHEMERAL, ROOT, SWAP, VirtError};
use crate::domain::guest::{GuestSpec, GuestVolume};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// How far from a disk's end the last record is looked for.
const TAIL: u64 = 64 * 1024;

/// Refuses a volume whose connection info leads nowhere.
pub(super) fn check_volume(volume: &GuestVolume) -> Result<(), VirtError> {
    match volume_path(volume) {
        Some(path) if path.is_file() => Ok(()),
        _ => Err(VirtError::Refused(format!("volume {} cannot be reached from this host", volume.volume_id))),
    }
}

fn volume_path(volume: &GuestVolume) -> Option<PathBuf> {
    volume.connection_info.pointer("/data/path").and_then(|path| path.as_str()).map(PathBuf::from)
}

/// Writes what a first build injects behind the image's bytes.
pub(super) fn write_config(root: &Path, config: &serde_json::Value) -> Result<(), VirtError> {
    let failed = || VirtError::io("cannot write the guest's configuration to its root disk");
    let mut file = OpenOptions::new().append(true).open(root).map_err(failed())?;
    file.write_all(format!("\nconfig-drive {config}\n").as_bytes()).map_err(failed())?;
    file.sync_data().map_err(failed())
}

/// Makes the incoming disks the guest's only ones.
pub(super) fn adopt(dir: &Path, incoming: &Path) -> Result<(), VirtError> {
    let failed = || VirtError::io("cannot take over the incoming disks");
    for name in DISK_NAMES {
        let arrived = incoming.join(name);
        if arrived.exists() {
            fs::rename(&arrived, dir.join(name)).map_err(failed())?;
        } else {
            files::remove_file(&dir.join(name)).map_err(failed())?;
        }
    }
    files::remove_tree(incoming).map_err(failed())
}

/// Makes the ephemeral and swap disks that the flavor asks for and nobody brought, and drops a swap disk that it no longer asks
/// for; refuses a guest without a root disk.
pub(super) fn complete(dir: &Path, spec: &GuestSpec) -> Result<(), VirtError> {
    if boot_volume(spec).is_none() && !dir.join(ROOT).is_file() {
        return Err(VirtError::Refused(format!("there is no root disk for server {} on this host", spec.server)));
    }
    for (name, wanted) in [(EPHEMERAL, spec.flavor.ephemeral_gb > 0), (SWAP, spec.flavor.swap_mb > 0)] {
        if wanted && !dir.join(name).exists() {
            File::create(dir.join(name)).map_err(VirtError::io(format!("cannot make {name} of server {}", spec.server)))?;
        }
    }
    if spec.flavor.swap_mb == 0 {
        files::remove_file(&dir.join(SWAP)).map_err(VirtError::io(format!("cannot drop {SWAP} of server {}", spec.server)))?;
    }
    Ok(())
}

fn boot_volume(spec: &GuestSpec) -> Option<&GuestVolume> {
    spec.volumes.iter().find(|volume| volume.boot_index == Some(0))
}

/// A record as the guest writes it.
pub(super) fn record_line(server: Uuid, number: u64, event: &str) -> String {
    format!("\nguest {server} record {number} {event}\n")
}

/// The number of the last record on the guest's root disk (or boot volume); 0 when there is none.
pub(super) fn last_record(dir: &Path, spec: &GuestSpec) -> u64 {
    let root = boot_volume(spec).and_then(volume_path).unwrap_or_else(|| dir.join(ROOT));
    let marker = format!("guest {} record ", spec.server);
    let tail = read_tail(&root).unwrap_or_default();
    // Each stands on a line of its own; the bytes before may be anything.
    let record = tail.rsplit(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(marker.as_bytes()));
    let number = record.and_then(|rest| rest.split(|byte| *byte == b' ').next()).and_then(|digits| std::str::from_utf8(digits).ok());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn read_tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail)
}

/// Appends to each local disk and volume. A disk at its flavor's size takes no more; the others still do.
pub(super) fn append_to_all(dir: &Path, spec: &GuestSpec, bytes: &[u8]) -> Result<(), VirtError> {
    let gib = |amount: i32| u64::try_from(amount).unwrap_or(0) * GIB;
    let mib = |amount: i32| u64::try_from(amount).unwrap_or(0) * MIB;
    // A flavor with root 0 takes the image's size, so it sets no bound of its own.
    let root_bound = if spec.flavor.root_gb > 0 { gib(spec.flavor.root_gb) } else { u64::MAX };
    let local = [(ROOT, root_bound), (EPHEMERAL, gib(spec.flavor.ephemeral_gb)), (SWAP, mib(spec.flavor.swap_mb))];
    let volumes = spec.volumes.iter().filter_map(volume_path).map(|path| (path, u64::MAX));
    let targets = local.into_iter().map(|(name, bound)| (dir.join(name), bound)).chain(volumes);
    let mut outcome = Ok(());
    for (path, bound) in targets {
        // Never created here: a disk that is missing is missing.
        let written = match OpenOptions::new().append(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => Err(error),
            Ok(file) => append(file, bytes, bound),
        };
        if let Err(error) = written {
            outcome = Err(VirtError::io(format!("server {} cannot write to its disk", spec.server))(error));
        }
    }
    outcome
}

fn append(mut file: File, bytes: &[u8], bound: u64) -> std::io::Result<()> {
    let room = bound.saturating_sub(file.metadata()?.len());
    if room < bytes.len() as u64 {
        return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "the disk is as large as its flavor allows"));
    }
    file.write_all(bytes)
}
