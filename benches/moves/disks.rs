//! The bytes in an operation's floor: a disk that is read once, hashed, written once and flushed once. What carries a disk from one host to
//! another hashes it at both, so that each knows that it has the right bytes; what makes a disk from an image hashes it where it is written.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::measure::What;

/// As many bytes as the image of the measured servers has.
const SIZE: usize = 4 << 20;
/// The number of bytes that are read or written at once.
const CHUNK: usize = 1 << 20;

/// Returns the number of times that an operation must hash the disk that it carries; none if it carries no disk.
pub fn hashes(what: What) -> Option<usize> {
    match what {
        What::Resize | What::PlainPorts | What::GuaranteedPorts | What::LiveMigrate | What::Drain => Some(2),
        What::Create | What::Shelve | What::Unshelve | What::Evacuate => Some(1),
        What::Confirm | What::Revert | What::Show | What::List => None,
    }
}

/// A disk, and the directory of its copies.
pub struct Disk {
    dir: PathBuf,
    /// As many copies at once as serve the machine best.
    turns: Arc<Semaphore>,
}

impl Disk {
    /// Writes the disk.
    pub fn make(dir: &Path) -> Disk {
        let bytes: Vec<u8> = (0..SIZE).map(|place| (place % 251) as u8).collect();
        std::fs::write(dir.join("floor"), bytes).expect("a disk");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Disk { dir: dir.to_owned(), turns: Arc::new(Semaphore::new(2 * cores)) }
    }

    /// Copies the disk for a client.
    pub async fn copy(&self, hashes: usize, client: usize) {
        let _turn = self.turns.acquire().await.expect("a turn");
        let (from, to) = (self.dir.join("floor"), self.of(client));
        tokio::task::spawn_blocking(move || copy(&from, &to, hashes)).await.expect("a copy").expect("a copy");
    }

    /// Removes the copies of these clients.
    pub fn clear(&self, clients: usize) {
        for client in 0..clients {
            // Whoever carries no disk has none.
            let _ = std::fs::remove_file(self.of(client));
        }
    }

    fn of(&self, client: usize) -> PathBuf {
        self.dir.join(format!("floor-{client}"))
    }
}

fn copy(from: &Path, to: &Path, hashes: usize) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let mut hashers = vec![Sha256::new(); hashes];
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hashers.iter_mut().for_each(|hasher| hasher.update(&chunk[..read]));
        to.write_all(&chunk[..read])?;
    }
    for hasher in hashers {
        std::hint::black_box(hasher.finalize());
    }
    to.sync_data()
}
