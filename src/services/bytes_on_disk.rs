//! Bytes of images and volumes as files: written beside their place, flushed, and put there in one move, so that a file that
//! is there is whole.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::Fuse;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::ServiceError;
use super::image::ImageData;
use crate::env::Env;

/// Bytes read or written at once.
pub const CHUNK: usize = 1 << 20;
/// How names of unfinished files begin; what a crash left of them is removed at the next start.
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

/// As [`place`], but the new name is durable only after [`flush_folder`].
pub fn rename(service: &'static str, unplaced: Unplaced, path: &Path) -> Result<(), ServiceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    unplaced.file.persist(path).map_err(|e| disk_failed(service, folder, &e.error))?;
    Ok(())
}

/// Makes the names in a folder durable.
pub async fn flush_folder(env: &Env, service: &'static str, folder: &Path) -> Result<(), ServiceError> {
    let place = folder.to_owned();
    let flushed = env.run_blocking(move || File::open(place).and_then(|folder| folder.sync_all())).await;
    flushed.map_err(|e| disk_failed(service, folder, &e))
}

/// Which of these files in a folder are not there.
pub async fn missing(env: &Env, folder: &Path, names: Vec<String>) -> Vec<String> {
    let folder = folder.to_owned();
    env.run_blocking(move || names.into_iter().filter(|name| !folder.join(name).exists()).collect()).await
}

/// The bytes of a file from its beginning, in chunks of [`CHUNK`].
pub async fn read(env: &Env, service: &'static str, path: PathBuf) -> Result<ImageData, ServiceError> {
    let name = path.clone();
    let file = env.run_blocking(move || File::open(path)).await.map_err(|e| disk_failed(service, &name, &e))?;
    let stream = futures::stream::unfold(Some((file, env.clone())), |state| async move {
        let (file, env) = state?;
        match env.run_blocking(move || read_chunk(file)).await {
            Ok((_, chunk)) if chunk.is_empty() => None,
            Ok((file, chunk)) => Some((Ok(chunk), Some((file, env)))),
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

/// Makes the folder, and removes from it what no record knows: files that a crash left unfinished, or whose record went first.
/// `known` says whether a name still has its record.
pub async fn open_folder(
    env: &Env,
    service: &'static str,
    folder: &Path,
    known: impl Fn(&str) -> bool + Send + 'static,
) -> Result<(), ServiceError> {
    let place = folder.to_owned();
    let sweep = move || -> std::io::Result<()> {
        std::fs::create_dir_all(&place)?;
        for entry in std::fs::read_dir(&place)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.starts_with(UNFINISHED) || (uuid::Uuid::parse_str(&name).is_ok() && !known(&name));
            if ours && entry.file_type()?.is_file() {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    env.run_blocking(sweep).await.map_err(|e| disk_failed(service, folder, &e))
}

fn read_chunk(mut file: File) -> std::io::Result<(File, Bytes)> {
    let chunk = next_chunk(&mut file)?;
    Ok((file, chunk))
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
        true => format!("no space is left on the disk that holds {}", path.display()),
        false => format!("{}: {error}", path.display()),
    };
    ServiceError::Unavailable { service, reason }
}

fn broken_off(service: &'static str, size: i64, error: &std::io::Error) -> ServiceError {
    ServiceError::Unavailable { service, reason: format!("the bytes broke off after about {size}: {error}") }
}

fn hex(digest: &[u8]) -> String {
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
