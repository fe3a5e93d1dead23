//! A host's place, and the parts that it keeps through its incarnations.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellshift_domain::host_protocol::Asker;
use cellshift_env::guard::{Guard, stands};
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use uuid::Uuid;

use crate::virt::Hypervisor;

/// The name of the folder for disks that move within the cell, in the cell's directory.
pub const TRANSFER_AREA: &str = "transfer";

/// A host's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPlace {
    /// The cell's name.
    pub cell: String,
    /// The host's name.
    pub host: String,
    /// The cell's directory, which contains the host's.
    pub cell_dir: PathBuf,
}

impl HostPlace {
    /// Returns the host's name and its cell's, for questions upwards.
    pub fn asker(&self) -> Asker {
        Asker { cell: self.cell.clone(), host: self.host.clone() }
    }

    /// Returns the host's own directory.
    pub fn dir(&self) -> PathBuf {
        self.cell_dir.join("hosts").join(&self.host)
    }

    /// Returns the directory of its guests.
    pub fn guests_dir(&self) -> PathBuf {
        self.dir().join("guests")
    }

    /// Returns the directory of its memory.
    pub fn memory_dir(&self) -> PathBuf {
        self.dir().join("obeyed")
    }

    /// Returns the storage that all hosts of the cell reach, for disks that move within the cell.
    pub fn transfer_area(&self) -> PathBuf {
        self.cell_dir.join(TRANSFER_AREA)
    }

    /// Returns a server's directory in the transfer area.
    pub fn transfer_dir(&self, server: Uuid) -> PathBuf {
        self.transfer_area().join(server.to_string())
    }
}

/// The parts that all incarnations of a host share: its place, its driver, and a gate. The gate keeps the last blocking calls of a dead
/// incarnation from overlapping with the first calls of its successor.
pub struct HostSite {
    /// The host's place.
    pub place: HostPlace,
    /// The host's driver.
    pub hypervisor: Arc<dyn Hypervisor>,
    generation: AtomicU64,
    gate: Arc<RwLock<()>>,
    /// The moment at which the machine got its power; none without power.
    up_since: Mutex<Option<DateTime<Utc>>>,
}

impl HostSite {
    /// Makes the site of a host before its first incarnation.
    pub fn new(place: HostPlace, hypervisor: Arc<dyn Hypervisor>) -> Arc<HostSite> {
        let (generation, gate) = (AtomicU64::new(0), Arc::new(RwLock::new(())));
        Arc::new(HostSite { place, hypervisor, generation, gate, up_since: Mutex::new(None) })
    }

    /// Returns since when the machine has had power; none without power.
    pub fn up_since(&self) -> Option<DateTime<Utc>> {
        *self.up_since.lock()
    }

    /// Notes that the machine has power. A new incarnation on a running machine changes nothing.
    pub(crate) fn has_power(&self, now: DateTime<Utc>) {
        self.up_since.lock().get_or_insert(now);
    }

    /// Notes that the machine has lost its power.
    pub fn lost_power(&self) {
        *self.up_since.lock() = None;
    }

    /// Ends the power of each earlier incarnation: it begins no further blocking call, and its running calls have ended when this returns.
    /// Returns the new generation.
    pub async fn take_over(&self) -> u64 {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        drop(self.gate.write().await);
        generation
    }

    /// Lets a blocking call of this generation in: while the returned value lives, no successor begins. None if one has begun.
    pub(crate) async fn enter(&self, generation: u64) -> Option<OwnedRwLockReadGuard<()>> {
        let entered = self.gate.clone().read_owned().await;
        let succeeded = stands(Guard::HostLife) && self.generation.load(Ordering::SeqCst) != generation;
        (!succeeded).then_some(entered)
    }
}
