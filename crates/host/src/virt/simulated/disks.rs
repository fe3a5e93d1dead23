//! A simulated guest's disks and volumes as files: adopts incoming disks, makes missing ones, and writes for the guest.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use cellshift_domain::guest::{GuestSpec, GuestVolume};
use cellshift_domain::reason;
use uuid::Uuid;

use super::super::files;
use super::super::files::Durability;
use super::super::hypervisor::{DISK_NAMES, EPHEMERAL, RESCUE, ROOT, SWAP, VirtError};
use super::super::written::{Writing, Written};
use super::rescue::is_rescued;

/// The contents of local disks, by name, and of volumes, by id.
pub(super) type Contents = BTreeMap<String, Written>;
/// The contents that a running guest adds to.
pub(super) type Growing = BTreeMap<String, Writing>;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// The distance from a disk's end within which the last record is searched.
const TAIL: u64 = 64 * 1024;

/// Refuses a volume whose connection info leads to no file.
pub(super) fn check_volume(volume: &GuestVolume) -> Result<(), VirtError> {
    match volume_path(volume) {
        Some(path) if path.is_file() => Ok(()),
        _ => Err(VirtError::Refused(reason!("volume {} cannot be reached from this host", volume.volume_id))),
    }
}

fn volume_path(volume: &GuestVolume) -> Option<PathBuf> {
    volume.connection_info.pointer("/data/path").and_then(|path| path.as_str()).map(PathBuf::from)
}

/// Appends the config drive to the disk that the guest boots from: its boot volume, or its root disk.
pub(super) fn write_config(root: &Path, spec: &GuestSpec, contents: &mut Contents) -> Result<(), VirtError> {
    let config = &spec.config_drive;
    let volume = boot_volume(spec).and_then(volume_path);
    let disk = volume.as_deref().unwrap_or(root);
    let failed = || VirtError::io("cannot write the guest's configuration to its root disk");
    let text = format!("\nconfig-drive {config}\n");
    let mut file = OpenOptions::new().append(true).open(disk).map_err(failed())?;
    file.write_all(text.as_bytes()).map_err(failed())?;
    file.sync_data().map_err(failed())?;
    if volume.is_some() {
        return Ok(());
    }
    let before = contents.remove(ROOT).map(|image| Writing::resume(&image, root)).transpose().map_err(failed())?;
    if let Some(mut root) = before.flatten() {
        root.append(text.as_bytes());
        contents.insert(ROOT.to_owned(), root.written());
    }
    Ok(())
}

/// Makes the incoming disks the guest's only disks.
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

/// Makes the flavor's missing ephemeral and swap disks, and removes a swap disk that the flavor no longer has. Refuses a guest without a
/// root disk.
pub(super) fn complete(dir: &Path, spec: &GuestSpec, contents: &mut Contents) -> Result<(), VirtError> {
    if boot_volume(spec).is_none() && !dir.join(ROOT).is_file() {
        return Err(VirtError::Refused(reason!("there is no root disk for server {} on this host", spec.server)));
    }
    for (name, is_required) in [(EPHEMERAL, spec.flavor.ephemeral_gb > 0), (SWAP, spec.flavor.swap_mb > 0)] {
        if is_required && !dir.join(name).exists() {
            File::create(dir.join(name)).map_err(VirtError::io(format!("cannot make {name} of server {}", spec.server)))?;
            contents.insert(name.to_owned(), Writing::at(0).written());
        }
    }
    if spec.flavor.swap_mb == 0 {
        files::remove_file(&dir.join(SWAP)).map_err(VirtError::io(format!("cannot drop {SWAP} of server {}", spec.server)))?;
        contents.remove(SWAP);
    }
    // A guest that is defined anew boots from its own disk again.
    files::remove_file(&dir.join(RESCUE)).map_err(VirtError::io(format!("cannot drop {RESCUE} of server {}", spec.server)))?;
    contents.remove(RESCUE);
    Ok(())
}

fn boot_volume(spec: &GuestSpec) -> Option<&GuestVolume> {
    spec.volumes.iter().find(|volume| volume.boot_index == Some(0))
}

/// Returns a record as the guest writes it.
pub(super) fn record_line(server: Uuid, number: u64, event: &str) -> String {
    format!("\nguest {server} record {number} {event}\n")
}

/// Returns the line by which the guest keeps its administrator's password. It is no record, so the console does not show it.
pub(super) fn password_line(server: Uuid, hash: &str) -> String {
    format!("\nguest {server} shadow root:{hash}\n")
}

/// Returns the number of the last record on the disk that the guest boots from; 0 if there is none.
pub(super) fn last_record(dir: &Path, spec: &GuestSpec) -> u64 {
    let marker = marker(spec);
    let tail = read_tail(&root_of(dir, spec)).unwrap_or_default();
    // Each record is a line of its own; the bytes before it may be anything.
    let record = tail.rsplit(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(marker.as_bytes()));
    let number = record.and_then(|rest| rest.split(|byte| *byte == b' ').next()).and_then(|digits| std::str::from_utf8(digits).ok());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the guest's newest records on the disk that it boots from, a line each.
pub(super) fn records(dir: &Path, spec: &GuestSpec) -> std::io::Result<String> {
    let (marker, tail) = (marker(spec), read_tail(&root_of(dir, spec))?);
    let lines = tail.split(|byte| *byte == b'\n').filter(|line| line.starts_with(marker.as_bytes()));
    Ok(lines.map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect())
}

fn root_of(dir: &Path, spec: &GuestSpec) -> PathBuf {
    if is_rescued(dir) {
        return dir.join(RESCUE);
    }
    boot_volume(spec).and_then(volume_path).unwrap_or_else(|| dir.join(ROOT))
}

fn marker(spec: &GuestSpec) -> String {
    format!("guest {} record ", spec.server)
}

fn read_tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail)
}

/// Appends to each local disk and volume. A full disk does not stop the writes to others.
pub(super) fn append_to_all(dir: &Path, spec: &GuestSpec, bytes: &[u8], growing: &mut Growing) -> Result<(), VirtError> {
    let gib = |amount: i32| u64::try_from(amount).unwrap_or(0) * GIB;
    let mib = |amount: i32| u64::try_from(amount).unwrap_or(0) * MIB;
    // A flavor with root 0 takes the image's size, so it sets no limit.
    let root_bound = if spec.flavor.root_gb > 0 { gib(spec.flavor.root_gb) } else { u64::MAX };
    let bounds = [(ROOT, root_bound), (RESCUE, root_bound), (EPHEMERAL, gib(spec.flavor.ephemeral_gb)), (SWAP, mib(spec.flavor.swap_mb))];
    let mut outcome = Ok(());
    let mut files = paths(dir, spec);
    if is_rescued(dir) {
        files.retain(|(name, _)| name == RESCUE);
    }
    for (name, path) in files {
        let bound = bounds.iter().find(|(local, _)| *local == name).map_or(u64::MAX, |(_, bound)| *bound);
        // Never creates the file, so that a missing disk stays missing.
        let written = match OpenOptions::new().append(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => Err(error),
            Ok(file) => append(file, bytes, bound, &name, growing),
        };
        if let Err(error) = written {
            outcome = Err(VirtError::io(format!("server {} cannot write to its disk", spec.server))(error));
        }
    }
    outcome
}

/// Returns the files of a guest: local disks by name, volumes by id.
pub(super) fn paths(dir: &Path, spec: &GuestSpec) -> Vec<(String, PathBuf)> {
    let local = DISK_NAMES.into_iter().chain([RESCUE]).map(|name| (name.to_owned(), dir.join(name)));
    let volumes = spec.volumes.iter().filter_map(|volume| Some((volume.volume_id.to_string(), volume_path(volume)?)));
    local.chain(volumes).collect()
}

/// True for a local disk, to which only its guest writes.
pub(super) fn is_local(name: &str) -> bool {
    DISK_NAMES.contains(&name) || name == RESCUE
}

/// Returns the local disks that the flavor and the boot volume require.
pub(super) fn required_disks(spec: &GuestSpec) -> Vec<&'static str> {
    let disks = [(ROOT, boot_volume(spec).is_none()), (EPHEMERAL, spec.flavor.ephemeral_gb > 0), (SWAP, spec.flavor.swap_mb > 0)];
    disks.into_iter().filter(|(_, is_required)| *is_required).map(|(name, _)| name).collect()
}

fn append(mut file: File, bytes: &[u8], bound: u64, name: &str, growing: &mut Growing) -> std::io::Result<()> {
    let before = file.metadata()?.len();
    if bound.saturating_sub(before) < bytes.len() as u64 {
        return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "the disk is as large as its flavor allows"));
    }
    let outcome = file.write_all(bytes);
    let after = file.metadata().map_or(before, |file| file.len());
    // A full disk may have taken a part of the bytes.
    let part = usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX).min(bytes.len());
    let Some(writing) = growing.get_mut(name) else { return outcome };
    let alone = writing.end() == before && after == before + part as u64;
    writing.append(&bytes[..part]);
    if !alone && !is_local(name) {
        // Another guest of the volume wrote too, so the origin of the bytes is unknown from now on.
        growing.remove(name);
    }
    outcome
}

/// Returns where a starting guest continues to write: after its recorded contents, and for a new volume at its present end.
pub(super) fn growing(dir: &Path, spec: &GuestSpec, contents: &Contents) -> std::io::Result<Growing> {
    let mut growing = Growing::new();
    for (name, path) in paths(dir, spec) {
        let writing = match contents.get(&name) {
            Some(record) if is_local(&name) => Writing::resume(record, &path)?,
            // Other guests may have extended a shared volume. A shorter volume has lost bytes, which must stay visible.
            Some(record) if length(&path)?.is_none_or(|length| length <= record.end) => Writing::resume(record, &path)?,
            None if is_local(&name) => None,
            _ => length(&path)?.map(Writing::at),
        };
        growing.extend(writing.map(|writing| (name, writing)));
    }
    Ok(growing)
}

/// Reads the bytes that a guest added since its last record, when its host went away. Reads only these bytes.
pub(super) fn recovered(dir: &Path, spec: &GuestSpec, contents: &Contents) -> std::io::Result<Contents> {
    let mut new_contents = contents.clone();
    for (name, path) in paths(dir, spec) {
        let (Some(record), Some(length)) = (contents.get(&name), length(&path)?) else { continue };
        if length > record.end
            && let Some(mut writing) = Writing::resume(record, &path)?
        {
            writing.follow(&path, length)?;
            new_contents.insert(name, writing.written());
        }
    }
    Ok(new_contents)
}

/// Makes the guest's writes durable before they are recorded.
pub(super) fn flush(dir: &Path, spec: &GuestSpec, durability: Durability) -> std::io::Result<()> {
    for (_, path) in paths(dir, spec) {
        match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            file => durability.flush(&file?)?,
        }
    }
    Ok(())
}

/// Returns a file's length; none if it is missing.
pub(super) fn length(path: &Path) -> std::io::Result<Option<u64>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        metadata => Ok(Some(metadata?.len())),
    }
}
