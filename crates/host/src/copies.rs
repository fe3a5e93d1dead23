//! Streams of disks: reads files as one stream and writes files from one, in chunks, with a SHA-256 of each disk. The readers and writers
//! block; `transfer` moves their chunks.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use cellshift_domain::guest::{DiskManifest, DiskPart};
use cellshift_domain::reason::Reason;
use cellshift_env::buffers::next_chunk;
use cellshift_env::guard::{Guard, stands};
use sha2::{Digest, Sha256};

use crate::virt::DiskFile;
use crate::virt::written::{Writing, Written};

/// Reads disks one after another in chunks. Between two chunks a higher fence is noticed.
pub(super) struct DiskReader {
    waiting: VecDeque<DiskFile>,
    current: Option<OpenDisk>,
    parts: Vec<DiskPart>,
    /// The hash over all disks; needed only if there are several.
    all: Option<Sha256>,
}

struct OpenDisk {
    name: String,
    file: File,
    content: Writing,
}

impl OpenDisk {
    fn new(name: String, file: File) -> OpenDisk {
        OpenDisk { name, file, content: Writing::at(0) }
    }
}

impl DiskReader {
    pub fn new(disks: Vec<DiskFile>) -> DiskReader {
        let all = (disks.len() > 1).then(Sha256::new);
        DiskReader { waiting: disks.into(), current: None, parts: Vec::new(), all }
    }

    /// Returns the next bytes with the name of their disk; none after the last disk.
    pub fn next_chunk(&mut self) -> io::Result<Option<(String, Bytes)>> {
        loop {
            let disk = match &mut self.current {
                Some(disk) => disk,
                None => {
                    let Some(next) = self.waiting.pop_front() else { return Ok(None) };
                    let file = File::open(&next.path)?;
                    self.current.insert(OpenDisk::new(next.name, file))
                }
            };
            let chunk = next_chunk(&mut disk.file)?;
            if chunk.is_empty() {
                if let Some(done) = self.current.take() {
                    let Written { end: size, sha256, .. } = done.content.written();
                    self.parts.push(DiskPart { name: done.name, size, sha256 });
                }
                continue;
            }
            disk.content.append(&chunk);
            if let Some(all) = &mut self.all {
                all.update(&chunk);
            }
            return Ok(Some((disk.name.clone(), chunk)));
        }
    }

    /// Returns the disks that were read, and the SHA-256 of all bytes in hex. For use after the last chunk.
    pub fn finish(self) -> (DiskManifest, String) {
        let all = match self.all {
            Some(all) => hex::encode(all.finalize()),
            None => self.parts.first().map_or_else(|| hex::encode(Sha256::digest(b"")), |part| part.sha256.clone()),
        };
        (DiskManifest { disks: self.parts }, all)
    }
}

/// An expected disk.
pub(super) struct Expected {
    pub name: String,
    /// None for an image without a recorded size.
    pub size: Option<u64>,
    /// None for an image without a recorded checksum.
    pub sha256: Option<String>,
}

impl From<&DiskPart> for Expected {
    fn from(part: &DiskPart) -> Expected {
        Expected { name: part.name.clone(), size: Some(part.size), sha256: Some(part.sha256.clone()) }
    }
}

/// The reason why arriving disks are refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    /// The bytes differ from those that were sent.
    #[error("{0}")]
    Mismatch(String),
    /// The host cannot store the bytes.
    #[error("cannot store {disk}: {why}", disk = .0, why = Reason::of_system(.1))]
    Store(String, io::Error),
}

/// The moment at which an arrived disk is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flush {
    /// When its last byte has arrived.
    OnArrival,
    /// Later, with the bytes that the driver adds before the guest counts as defined.
    WithAddition,
}

/// Writes arriving bytes to the expected disks, and verifies each disk.
pub(super) struct DiskWriter {
    dir: PathBuf,
    flush: Flush,
    waiting: VecDeque<Expected>,
    current: Option<(Expected, OpenDisk)>,
    arrived: BTreeMap<String, Written>,
}

impl DiskWriter {
    pub fn new(dir: PathBuf, expected: Vec<Expected>, flush: Flush) -> DiskWriter {
        DiskWriter { dir, flush, waiting: expected.into(), current: None, arrived: BTreeMap::new() }
    }

    /// Writes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), CopyError> {
        while !bytes.is_empty() {
            let Some((expected, disk)) = self.open()? else {
                return Err(CopyError::Mismatch("more bytes arrived than the disks hold".into()));
            };
            let room = expected.size.map_or(u64::MAX, |size| size - disk.content.end());
            let (now, rest) = bytes.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len()));
            disk.file.write_all(now).map_err(|error| CopyError::Store(disk.name.clone(), error))?;
            disk.content.append(now);
            bytes = rest;
            if expected.size == Some(disk.content.end()) {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Ends the stream, and returns the record of each disk.
    pub fn finish(mut self) -> Result<BTreeMap<String, Written>, CopyError> {
        while self.open()?.is_some() {
            self.close()?;
        }
        Ok(self.arrived)
    }

    fn open(&mut self) -> Result<Option<(&Expected, &mut OpenDisk)>, CopyError> {
        // An empty disk is complete as soon as it is open.
        while self.current.is_none() {
            let Some(expected) = self.waiting.pop_front() else { return Ok(None) };
            let store = |error| CopyError::Store(expected.name.clone(), error);
            let file = File::create(self.dir.join(&expected.name)).map_err(store)?;
            let empty = expected.size == Some(0);
            let disk = OpenDisk::new(expected.name.clone(), file);
            self.current = Some((expected, disk));
            if empty {
                self.close()?;
            }
        }
        Ok(self.current.as_mut().map(|(expected, disk)| (&*expected, disk)))
    }

    fn close(&mut self) -> Result<(), CopyError> {
        let Some((expected, disk)) = self.current.take() else { return Ok(()) };
        if self.flush == Flush::OnArrival {
            disk.file.sync_all().map_err(|error| CopyError::Store(disk.name.clone(), error))?;
        }
        let written = disk.content.written();
        if let Some(size) = expected.size.filter(|size| *size != written.end) {
            return Err(CopyError::Mismatch(format!("{} arrived with {} of {size} bytes", disk.name, written.end)));
        }
        match expected.sha256 {
            Some(sent) if stands(Guard::DiskChecksum) && sent != written.sha256 => {
                let arrived = written.sha256;
                return Err(CopyError::Mismatch(format!("the checksum of {} does not match: sent {sent}, arrived {arrived}", disk.name)));
            }
            _ => {}
        }
        self.arrived.insert(disk.name, written);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellshift_env::buffers::SIZE;

    #[test]
    fn disks_arrive_as_they_were_sent_or_not_at_all() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disks: Vec<_> = [("disk", 3 * SIZE / 2), ("disk.eph0", 0), ("disk.swap", 7)]
            .into_iter()
            .map(|(name, size)| {
                let path = source.path().join(name);
                std::fs::write(&path, vec![name.len() as u8; size]).unwrap();
                DiskFile { name: name.into(), path, size: size as u64 }
            })
            .collect();
        let mut reader = DiskReader::new(disks);
        let mut sent = Vec::new();
        while let Some((_, chunk)) = reader.next_chunk().unwrap() {
            sent.extend_from_slice(&chunk);
        }
        let (manifest, all) = reader.finish();
        assert_eq!(all, hex::encode(Sha256::digest(&sent)));

        let writer = || DiskWriter::new(target.path().to_owned(), manifest.disks.iter().map(Expected::from).collect(), Flush::OnArrival);
        let arrive = |bytes: &[u8]| {
            let mut writer = writer();
            bytes.chunks(1000).try_for_each(|chunk| writer.take(chunk)).and_then(|()| writer.finish())
        };
        arrive(&sent).unwrap();
        for part in &manifest.disks {
            assert_eq!(std::fs::read(target.path().join(&part.name)).unwrap(), std::fs::read(source.path().join(&part.name)).unwrap());
        }
        assert!(matches!(arrive(&sent[1..]), Err(CopyError::Mismatch(_))));
        assert!(matches!(arrive(&[&sent[..], b"x"].concat()), Err(CopyError::Mismatch(_))));
        let mut changed = sent.clone();
        changed[5] ^= 1;
        assert!(matches!(arrive(&changed), Err(CopyError::Mismatch(_))));
    }
}
