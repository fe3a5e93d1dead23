//! Bytes of images and volumes as files: written beside their place, flushed, and put there in one move, so that a file that
//! is there is whole.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::Fuse;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::image::ImageData;
use super::{ServiceError, lost_and_found};
use crate::domain::inside;
use crate::env::Env;

/// Bytes read or written at once.
pub const CHUNK: usize = 1 << 20;
/// How names of unfinished files begin; those that a crash left are removed at the next start.
const UNFINISHED: &str = ".unfinished-";

/// A file that is whole but not yet at its place; dropped, it is removed.
pub struct Unplaced {
    file: NamedTempFile,
    /// Bytes that were written.
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
        env.take_disk(bytes.len())?;
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.size += bytes.len() as i64;
        Ok(())
    }
}

/// What becomes of written bytes when the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// They are there.
    Durably,
    /// They may be gone: whoever sent them has them still.
    InPassing,
}

/// Writes all of `data` into an unfinished file in `folder`, and flushes what is to be kept to disk. With `pad_to`, the file is
/// made that long (sparse); data that is longer is refused.
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
        Ok(Unplaced { size: writing.size, sha256: hex(&writing.hasher.finalize()), file: writing.file })
    };
    env.run_blocking(finish).await.map_err(failed)
}

/// Refuses a file that would be longer than the whole disk which holds the folder. Sparse files together may well be.
pub async fn check_length(env: &Env, service: &'static str, folder: &Path, length: u64) -> Result<(), ServiceError> {
    let place = folder.to_owned();
    let disk = env.run_blocking(move || rustix::fs::statvfs(&place)).await;
    let disk = disk.map_err(|e| disk_failed(service, folder, &e.into()))?;
    let holds = disk.f_blocks.saturating_mul(disk.f_frsize);
    match length <= holds {
        true => Ok(()),
        false => {
            Err(ServiceError::Invalid(format!("The size asked for, {length} bytes, is more than the {holds} bytes that the store holds.")))
        }
    }
}

/// A stream in pieces that are worth a write each. Who asks for the next piece while the last one is written lets both go on
/// at once.
pub struct Gathered {
    data: Fuse<ImageData>,
    pending: BytesMut,
}

impl Gathered {
    /// All of `data`.
    pub fn new(data: ImageData) -> Gathered {
        Gathered { data: data.fuse(), pending: BytesMut::new() }
    }

    /// [`CHUNK`] bytes or more; less at the end, and nothing after it.
    pub async fn next(&mut self) -> std::io::Result<Bytes> {
        while self.pending.len() < CHUNK {
            match self.data.next().await.transpose()? {
                // Whole pieces are passed on as they are.
                Some(bytes) if self.pending.is_empty() && bytes.len() >= CHUNK => return Ok(bytes),
                Some(bytes) => self.pending.extend_from_slice(&bytes),
                None => break,
            }
        }
        Ok(self.pending.split().freeze())
    }
}

/// The SHA-256, in hex, of all of `data`, which is stored nowhere.
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
    Ok(hex(&hasher.finalize()))
}

/// Puts the file at `path`, in place of what is there, durably. Blocking.
pub fn place(service: &'static str, unplaced: Unplaced, path: &Path) -> Result<(), ServiceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    rename(service, unplaced, path)?;
    // The new name is durable only when its folder is.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| disk_failed(service, folder, &e))
}

/// As [`place`], but a power cut may take the new name.
pub fn rename(service: &'static str, unplaced: Unplaced, path: &Path) -> Result<(), ServiceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    unplaced.file.persist(path).map_err(|e| disk_failed(service, folder, &e.error))?;
    Ok(())
}

/// Which of these files in a folder are not there.
pub async fn missing(env: &Env, folder: &Path, names: Vec<String>) -> Vec<String> {
    let folder = folder.to_owned();
    env.run_blocking(move || names.into_iter().filter(|name| !folder.join(name).exists()).collect()).await
}

/// The bytes of a file from its beginning, in chunks of [`CHUNK`].
pub async fn read(env: &Env, service: &'static str, path: PathBuf) -> Result<ImageData, ServiceError> {
    read_part(env, service, path, 0, u64::MAX).await
}

/// As [`read`]: the part that begins at `first` and has at most `length` bytes.
pub async fn read_part(env: &Env, service: &'static str, path: PathBuf, first: u64, length: u64) -> Result<ImageData, ServiceError> {
    let name = path.clone();
    let open = move || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(first))?;
        Ok(file.take(length))
    };
    let part = env.run_blocking(open).await.map_err(|e: std::io::Error| disk_failed(service, &name, &e))?;
    let stream = futures::stream::unfold(Some((part, env.clone())), |state| async move {
        let (part, env) = state?;
        match env.run_blocking(move || read_chunk(part)).await {
            Ok((_, chunk)) if chunk.is_empty() => None,
            Ok((part, chunk)) => Some((Ok(chunk), Some((part, env)))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(Box::pin(stream))
}

/// Removes a file; fine when there is none.
pub async fn remove(env: &Env, service: &'static str, path: PathBuf) -> Result<(), ServiceError> {
    let name = path.clone();
    match env.run_blocking(move || std::fs::remove_file(path)).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk_failed(service, &name, &error)),
        _ => Ok(()),
    }
}

/// Makes the folder, removes unfinished files from it, and moves files that no record knows to `lost+found/` beside
/// it. `known` says whether an id still has its record.
///
/// Unfinished files are certainly this service's own, and given up: the caller holds the data directory, so nobody else
/// writes here now; no record ever names such a file; and [`write()`] has not answered for it.
pub async fn open_folder(
    env: &Env,
    service: &'static str,
    folder: &Path,
    known: impl Fn(&str) -> bool + Send + 'static,
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
            // Files under other names are not the service's: they stay where somebody put them.
            } else if uuid::Uuid::parse_str(&name).is_ok() && !known(&name) {
                let kept = lost_and_found::keep(&place, &name, now)?;
                log::warn!(service = service; "no record knows {}: it is kept as {}", entry.path().display(), kept.display());
            }
        }
        Ok(())
    };
    env.run_blocking(sweep).await.map_err(|e| disk_failed(service, folder, &e))
}

fn read_chunk(mut part: Take<File>) -> std::io::Result<(Take<File>, Bytes)> {
    let chunk = next_chunk(&mut part)?;
    Ok((part, chunk))
}

/// The next [`CHUNK`] bytes, fewer at the end, none behind it. Asked for at once: `read_to_end` would feel its way in small reads.
pub fn next_chunk(from: &mut impl Read) -> std::io::Result<Bytes> {
    let mut chunk = vec![0; CHUNK];
    let mut filled = 0;
    while filled < CHUNK {
        match from.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    chunk.truncate(filled);
    Ok(chunk.into())
}

/// What the disk said, as the service's callers see it.
pub fn disk_failed(service: &'static str, path: &Path, error: &std::io::Error) -> ServiceError {
    let full = matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
    let reason = match full {
        true => format!("no space is left on the disk {}", inside::of(format!("that holds {}", path.display()))),
        false => inside::of(format!("{}: {error}", path.display())),
    };
    ServiceError::Unavailable { service, reason }
}

fn broken_off(service: &'static str, size: i64, error: &std::io::Error) -> ServiceError {
    ServiceError::Unavailable { service, reason: format!("the bytes broke off after about {size}: {}", inside::of(error)) }
}

/// Bytes in hexadecimal.
pub fn hex(digest: &[u8]) -> String {
    use std::fmt::Write;
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_gathered_and_whole_ones_passed_on() {
        let pieces = [7, CHUNK - 7, CHUNK + 1, 3, 4].map(|size| Ok(Bytes::from(vec![1; size])));
        let mut gathered = Gathered::new(Box::pin(futures::stream::iter(pieces)));
        let sizes: Vec<usize> = futures::executor::block_on(async {
            let mut sizes = Vec::new();
            for _ in 0..5 {
                sizes.push(gathered.next().await.unwrap().len());
            }
            sizes
        });
        // Nothing comes after the end, however often one asks.
        assert_eq!(sizes, [CHUNK, CHUNK + 1, 7, 0, 0]);
    }

    #[test]
    fn a_stream_that_breaks_off_is_an_error_even_behind_bytes_that_came() {
        let pieces = [Ok(Bytes::from_static(b"some")), Err(std::io::Error::other("gone"))];
        let mut gathered = Gathered::new(Box::pin(futures::stream::iter(pieces)));
        assert!(futures::executor::block_on(gathered.next()).is_err());
    }
}
