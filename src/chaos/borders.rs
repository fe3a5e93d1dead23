//! Borders with faults: databases that refuse, hang or lose replies, and a disk that becomes full.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::db::Db;
use crate::env::Env;
use crate::env::borders::{Borders, Gate, Reply};

/// A fault of a database, set by an experiment or a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outage {
    /// The database works.
    None = 0,
    /// Refuses each call at once.
    Refuses = 1,
    /// Does not answer while the outage lasts; then the connections fail.
    Hangs = 2,
    /// Does its work and then reports a failure.
    LosesReplies = 3,
}

/// Means that files have no limit.
const UNLIMITED: u64 = u64::MAX;

/// The borders of an environment in which faults may happen.
pub struct FaultyBorders {
    /// The number of bytes that files may still grow by.
    disk: AtomicU64,
}

impl Default for FaultyBorders {
    fn default() -> FaultyBorders {
        FaultyBorders { disk: AtomicU64::new(UNLIMITED) }
    }
}

impl FaultyBorders {
    /// Returns the environment as one in which faults may happen.
    pub fn of(env: Env) -> Env {
        env.with_borders(Arc::new(FaultyBorders::default()))
    }
}

impl Borders for FaultyBorders {
    fn gate(&self) -> Option<Box<dyn Gate>> {
        Some(Box::new(OutageGate::default()))
    }

    fn before_write(&self, bytes: usize) -> io::Result<()> {
        let take = |left: u64| if left == UNLIMITED { Some(left) } else { left.checked_sub(bytes as u64) };
        match self.disk.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}

/// Limits the further bytes of the files of images, volumes and hosts; none removes the limit. Panics if the environment has no faults.
pub fn limit_disk(env: &Env, bytes: Option<u64>) {
    let borders: &dyn Any = env.borders();
    let borders: &FaultyBorders = borders.downcast_ref().expect("an environment with faults");
    borders.disk.store(bytes.unwrap_or(UNLIMITED), Ordering::SeqCst);
}

/// The gate of a database whose calls can be made to fail.
#[derive(Default)]
pub struct OutageGate {
    outage: AtomicU8,
    /// The number of calls that still meet the outage; the maximum means all.
    spoils: AtomicU32,
    changed: Notify,
}

impl OutageGate {
    /// Returns the gate of this handle of a database; none in an environment without faults.
    pub fn of(db: &Db) -> Option<&OutageGate> {
        let gate: &dyn Any = db.gate()?;
        gate.downcast_ref()
    }

    /// Sets the fault that the next `calls` calls meet.
    pub fn set(&self, outage: Outage, calls: u32) {
        self.spoils.store(calls, Ordering::SeqCst);
        self.outage.store(outage as u8, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// True if a call would meet a fault now.
    pub fn is_spoiled(&self) -> bool {
        self.outage.load(Ordering::SeqCst) != Outage::None as u8 && self.spoils.load(Ordering::SeqCst) > 0
    }

    /// Counts a call, and returns the fault that it meets.
    fn meet(&self) -> u8 {
        let outage = self.outage.load(Ordering::SeqCst);
        if outage == Outage::None as u8 {
            return outage;
        }
        let left = self.spoils.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            0 | u32::MAX => None,
            left => Some(left - 1),
        });
        if left == Err(0) { Outage::None as u8 } else { outage }
    }

    async fn until_it_changes(&self) {
        let changed = self.changed.notified();
        if self.outage.load(Ordering::SeqCst) == Outage::Hangs as u8 {
            changed.await;
        }
    }
}

impl Gate for OutageGate {
    fn pass(&self) -> BoxFuture<'_, Result<Reply, String>> {
        Box::pin(async {
            let outage = self.meet();
            if outage == Outage::Hangs as u8 {
                self.until_it_changes().await;
                return Err("an experiment let it hang".into());
            }
            if outage == Outage::Refuses as u8 {
                return Err("an experiment holds it down".into());
            }
            Ok(if outage == Outage::LosesReplies as u8 { Reply::Lost("an experiment lost the reply".into()) } else { Reply::Kept })
        })
    }
}

/// Outages of databases that are known to have a gate. Panics in an environment without faults.
pub trait Outages {
    /// Sets the fault that all calls meet from now on.
    fn set_outage(&self, outage: Outage);

    /// Sets the fault that the next `calls` calls meet.
    fn set_outage_for(&self, outage: Outage, calls: u32);
}

impl Outages for Db {
    fn set_outage(&self, outage: Outage) {
        self.set_outage_for(outage, u32::MAX);
    }

    fn set_outage_for(&self, outage: Outage, calls: u32) {
        OutageGate::of(self).expect("a database of an environment with faults").set(outage, calls);
    }
}
