//! The bytes of images and volumes as files. A file is written under another name, flushed, and renamed into place, so that a file in its
//! place is always complete.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_env::Env;
use cellshift_env::buffers::Buffer;
use futures::StreamExt;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::image::ImageData;
use super::{ServiceError, lost_and_found};
pub use cellshift_env::buffers::next_chunk;
pub use cellshift_env::streams::Keep;
use cellshift_env::streams::{self, Gathered};

/// The prefix of unfinished files' names. The next start removes files that a crash left.
const UNFINISHED: &str = ".unfinished-";

/// A complete file that is not yet in its place. Dropping it removes the file.
pub struct Unplaced {
    file: NamedTempFile,
    /// The number of written bytes.
    pub size: i64,
    /// Their SHA-256 in hex.
    pub sha256: String,
}

struct Writing {
    file: NamedTempFile,
    hasher: Sha256,
    size: i64,
}

impl Writing {
    fn append(&mut self, env: &Env, bytes: &[u8]) -> std::io::Result<()> {
        env.borders().before_write(bytes.len())?;
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.size += bytes.len() as i64;
        Ok(())
    }
}

/// Writes all of `data` into an unfinished file in `folder`, and flushes it to disk if `keep` requires it. `pad_to` makes the (sparse) file
/// that long; longer data is refused.
pub async fn write(
    env: &Env,
    service: &'static str,
    folder: &Path,
    data: ImageData,
    pad_to: Option<u64>,
    keep: Keep,
) -> Result<Unplaced, ServiceError> {
    let place = folder.to_owned();
    let failed = move |e: std::io::Error| disk_failed(service, &place, &e);
    let start = folder.to_owned();
    let file = env.run_blocking(move || tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(start)).await.map_err(&failed)?;
    let mut writing = Writing { file, hasher: Sha256::new(), size: 0 };
    let mut arriving = Gathered::new(data);
    let mut next = arriving.next().await;
    loop {
        let chunk = next.map_err(|e| broken_off(service, writing.size, &e))?;
        if chunk.is_empty() {
            break;
        }
        if pad_to.is_some_and(|limit| writing.size as u64 + chunk.len() as u64 > limit) {
            return Err(ServiceError::Invalid("The bytes do not fit into the size that was asked for.".into()));
        }
        let space = env.clone();
        let append = env.run_blocking(move || {
            let result = writing.append(&space, &chunk);
            (writing, result)
        });
        let (appended, following) = futures::join!(append, arriving.next());
        let result;
        (writing, result) = appended;
        result.map_err(&failed)?;
        next = following;
    }
    let finish = move || {
        if let Some(length) = pad_to {
            writing.file.as_file().set_len(length)?;
        }
        if keep == Keep::Durably {
            writing.file.as_file().sync_all()?;
        }
        Ok(Unplaced { size: writing.size, sha256: hex::encode(writing.hasher.finalize()), file: writing.file })
    };
    env.run_blocking(finish).await.map_err(failed)
}

/// The size of a disk and its free room, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    pub holds: u64,
    pub free: u64,
}

/// Returns the room of the disk that holds the folder.
pub async fn room(env: &Env, service: &'static str, folder: &Path) -> Result<Room, ServiceError> {
    let place = folder.to_owned();
    let disk = env.run_blocking(move || rustix::fs::statvfs(&place)).await;
    let disk = disk.map_err(|e| disk_failed(service, folder, &e.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(Room { holds: bytes(disk.f_blocks), free: bytes(disk.f_bavail) })
}

/// Refuses a file longer than the whole disk that holds the folder. Together, sparse files may exceed the disk.
pub async fn check_length(env: &Env, service: &'static str, folder: &Path, length: u64) -> Result<(), ServiceError> {
    let Room { holds, .. } = room(env, service, folder).await?;
    match length <= holds {
        true => Ok(()),
        false => {
            Err(ServiceError::Invalid(reason!("The size asked for, {length} bytes, is more than the {holds} bytes that the store holds.")))
        }
    }
}

/// Returns the SHA-256, in hex, of all of `data`. Stores nothing.
pub async fn hash(env: &Env, service: &'static str, mut data: ImageData) -> Result<String, ServiceError> {
    let (mut hasher, mut size) = (Sha256::new(), 0);
    while let Some(chunk) = data.next().await {
        let chunk = chunk.map_err(|e| broken_off(service, size, &e))?;
        size += chunk.len() as i64;
        hasher = env
            .run_blocking(move || {
                hasher.update(&chunk);
                hasher
            })
            .await;
    }
    Ok(hex::encode(hasher.finalize()))
}

/// Moves the file to `path`, over any present file, durably. Blocking.
pub fn place(service: &'static str, unplaced: Unplaced, path: &Path) -> Result<(), ServiceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    rename(service, unplaced, path)?;
    // The new name is durable only once its folder is flushed.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| disk_failed(service, folder, &e))
}

/// Moves the file as [`place`] does, but a power cut may undo the new name.
pub fn rename(service: &'static str, unplaced: Unplaced, path: &Path) -> Result<(), ServiceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    unplaced.file.persist(path).map_err(|e| disk_failed(service, folder, &e.error))?;
    Ok(())
}

/// Returns the names that do not exist in the folder.
pub async fn missing(env: &Env, folder: &Path, names: Vec<String>) -> Vec<String> {
    let folder = folder.to_owned();
    env.run_blocking(move || names.into_iter().filter(|name| !folder.join(name).exists()).collect()).await
}

/// Copies a file into an unfinished one in `folder`, durably, with its holes, and makes the copy at least `length` long. The size and the
/// checksum are those of the bytes before the first hole.
pub async fn copy(env: &Env, service: &'static str, from: PathBuf, folder: &Path, length: u64) -> Result<Unplaced, ServiceError> {
    let (space, start) = (env.clone(), folder.to_owned());
    let failed = |e: std::io::Error| disk_failed(service, folder, &e);
    let opened = env.run_blocking(move || Copying::open(&from, &start)).await;
    let mut copying = opened.map_err(failed)?;
    // A blocking call for each chunk, so that a long copy holds no thread for all its time.
    while !copying.is_done {
        let space = space.clone();
        let step = move || {
            let outcome = copying.step(&space);
            (copying, outcome)
        };
        let outcome;
        (copying, outcome) = env.run_blocking(step).await;
        outcome.map_err(failed)?;
    }
    env.run_blocking(move || copying.finish(length)).await.map_err(failed)
}

/// A copy of a sparse file under way.
struct Copying {
    from: File,
    to: Writing,
    /// The place of the next byte to copy.
    at: u64,
    /// The end of the data that begins before `at`.
    until: u64,
    /// Nothing but data has been copied yet, from the beginning of the file.
    is_head: bool,
    is_done: bool,
}

impl Copying {
    fn open(from: &Path, folder: &Path) -> std::io::Result<Copying> {
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        let to = Writing { file, hasher: Sha256::new(), size: 0 };
        Ok(Copying { from: File::open(from)?, to, at: 0, until: 0, is_head: true, is_done: false })
    }

    /// Copies the next chunk, after a hole if one begins here.
    fn step(&mut self, env: &Env) -> std::io::Result<()> {
        if self.at == self.until && !self.skip_hole()? {
            return Ok(());
        }
        self.from.seek(SeekFrom::Start(self.at))?;
        let chunk = Buffer::filled(&mut (&self.from).take(self.until - self.at))?;
        let chunk = chunk.as_ref();
        if chunk.is_empty() {
            // The file has become shorter meanwhile.
            self.is_done = true;
            return Ok(());
        }
        match self.is_head {
            true => self.to.append(env, chunk)?,
            false => {
                env.borders().before_write(chunk.len())?;
                self.to.file.as_file().write_all_at(chunk, self.at)?;
            }
        }
        self.at += chunk.len() as u64;
        Ok(())
    }

    /// Finds the next data. False if only a hole follows.
    fn skip_hole(&mut self) -> std::io::Result<bool> {
        match rustix::fs::seek(&self.from, rustix::fs::SeekFrom::Data(self.at)) {
            Ok(data) => {
                self.is_head &= data == self.at;
                self.at = data;
                self.until = rustix::fs::seek(&self.from, rustix::fs::SeekFrom::Hole(data))?;
                Ok(true)
            }
            Err(rustix::io::Errno::NXIO) => {
                self.is_done = true;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self, length: u64) -> std::io::Result<Unplaced> {
        let Writing { file, hasher, size } = self.to;
        file.as_file().set_len(length.max(self.at))?;
        file.as_file().sync_all()?;
        Ok(Unplaced { size, sha256: hex::encode(hasher.finalize()), file })
    }
}

/// Returns the number of bytes before the last hole of a sparse file, at least one.
pub async fn written_length(env: &Env, service: &'static str, path: PathBuf) -> Result<u64, ServiceError> {
    let name = path.clone();
    let look = move || {
        let (file, mut end) = (File::open(path)?, 0);
        loop {
            match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(end)) {
                Ok(data) => end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data))?,
                Err(rustix::io::Errno::NXIO) => return Ok(end.max(1)),
                Err(error) => return Err(error.into()),
            }
        }
    };
    env.run_blocking(look).await.map_err(|error: std::io::Error| disk_failed(service, &name, &error))
}

/// Reads a file from its beginning, in chunks of [`SIZE`](crate::env::buffers::SIZE).
pub async fn read(env: &Env, service: &'static str, path: PathBuf) -> Result<ImageData, ServiceError> {
    read_part(env, service, path, 0, u64::MAX).await
}

/// Reads a file as [`read`] does, from byte `first` on, at most `length` bytes.
pub async fn read_part(env: &Env, service: &'static str, path: PathBuf, first: u64, length: u64) -> Result<ImageData, ServiceError> {
    let name = path.clone();
    let open = move || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(first))?;
        Ok(file.take(length))
    };
    let part = env.run_blocking(open).await.map_err(|e: std::io::Error| disk_failed(service, &name, &e))?;
    Ok(streams::of_file(env, part))
}

/// The proof that a service has given up an id's bytes: a transaction has deleted the id's record, or has found it deleted.
#[derive(Debug)]
pub struct RecordGone(Uuid);

impl RecordGone {
    /// Deletes the record. The proof holds when the transaction is committed, so it must be the transaction's result.
    pub fn with_record<T, E>(id: Uuid, delete: impl FnOnce() -> Result<T, E>) -> Result<RecordGone, E> {
        delete().map(|_| RecordGone(id))
    }
}

/// Removes the bytes that a service has given up. Succeeds if there are none.
pub async fn remove(env: &Env, service: &'static str, folder: &Path, proof: RecordGone) -> Result<(), ServiceError> {
    let path = folder.join(proof.0.to_string());
    let name = path.clone();
    match env.run_blocking(move || std::fs::remove_file(path)).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk_failed(service, &name, &error)),
        _ => Ok(()),
    }
}

/// Makes the folder, removes unfinished files from it, and moves files without a record to `lost+found/` beside it. `known` says whether an
/// id has a record.
///
/// Unfinished files are safe to remove: the caller holds the data directory, so nobody else writes here now, no record names an unfinished
/// file, and [`write()`] has not acknowledged it.
pub async fn open_folder(
    env: &Env,
    service: &'static str,
    folder: &Path,
    has_record: impl Fn(&str) -> bool + Send + 'static,
) -> Result<(), ServiceError> {
    let (place, now) = (folder.to_owned(), env.now());
    let sweep = move || -> std::io::Result<()> {
        std::fs::create_dir_all(&place)?;
        for entry in std::fs::read_dir(&place)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type()?.is_file() {
                continue;
            }
            if name.starts_with(UNFINISHED) {
                std::fs::remove_file(entry.path())?;
            // A file with another name is not the service's, so it stays.
            } else if Uuid::parse_str(&name).is_ok() && !has_record(&name) {
                let kept = lost_and_found::keep(&place, &name, now)?;
                log::warn!(service = service; "no record knows {}: it is kept as {}", entry.path().display(), kept.display());
            }
        }
        Ok(())
    };
    env.run_blocking(sweep).await.map_err(|e| disk_failed(service, folder, &e))
}

/// Turns a disk error into an error for the service's callers.
pub fn disk_failed(service: &'static str, path: &Path, error: &std::io::Error) -> ServiceError {
    let full = matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
    let reason = match full {
        true => reason!("no space is left on the disk {}", Inside(format!("that holds {}", path.display()))),
        false => Reason::inside(format!("{}: {error}", path.display())),
    };
    ServiceError::Unavailable { service, reason }
}

fn broken_off(service: &'static str, size: i64, error: &std::io::Error) -> ServiceError {
    ServiceError::Unavailable { service, reason: reason!("the bytes broke off after about {size}: {}", Inside(error)) }
}
