//! Compares the files of images and volumes with their records, for the audit.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cellshift_env::Env;
use sha2::{Digest, Sha256};

use super::bytes_on_disk::next_chunk;
pub use cellshift_neighbours::stored_bytes::StoredBytes;

/// The number of bytes that one blocking call reads. Between two calls the reader may be cancelled.
const PIECE: u64 = 8 << 20;

/// A fault found in a file's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    Differs { expected: String, sha256: String },
    Unreadable(String),
}

/// Reads the bytes that the service wrote into a file, and adds their number to `read` as it goes. None if they match, or if the record has
/// no checksum.
pub async fn verify(file: &StoredBytes, env: &Env, read: &AtomicU64) -> Option<Finding> {
    let (length, expected) = file.content.clone()?;
    match checksum(env, file.path.clone(), length, read).await {
        Ok(digest) if digest == expected => None,
        Ok(digest) => Some(Finding::Differs { expected, sha256: digest }),
        Err(error) => Some(Finding::Unreadable(error.to_string())),
    }
}

/// Returns the SHA-256 of a file's first bytes.
async fn checksum(env: &Env, path: PathBuf, length: u64, read: &AtomicU64) -> std::io::Result<String> {
    let mut file = env.run_blocking(move || File::open(path)).await?.take(length);
    let mut hasher = Sha256::new();
    loop {
        let (back, hashed, outcome) = env
            .run_blocking(move || {
                let outcome = piece(&mut file, &mut hasher);
                (file, hasher, outcome)
            })
            .await;
        (file, hasher) = (back, hashed);
        match outcome? {
            0 => return Ok(hex::encode(hasher.finalize())),
            bytes => read.fetch_add(bytes, Ordering::Relaxed),
        };
    }
}

fn piece(file: &mut impl Read, hasher: &mut Sha256) -> std::io::Result<u64> {
    let mut done = 0;
    while done < PIECE {
        let chunk = next_chunk(file)?;
        if chunk.is_empty() {
            break;
        }
        hasher.update(&chunk);
        done += chunk.len() as u64;
    }
    Ok(done)
}

/// Returns the lengths of files in a folder, in the order of their names; none for missing files.
pub async fn lengths(env: &Env, folder: &Path, names: Vec<String>) -> std::io::Result<Vec<Option<u64>>> {
    let folder = folder.to_owned();
    let look = move |name: String| match std::fs::metadata(folder.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        metadata => Ok(Some(metadata?.len())),
    };
    env.run_blocking(move || names.into_iter().map(look).collect()).await
}
