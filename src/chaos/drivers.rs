//! Drivers of hosts whose operations can be made to fail, as on a broken hypervisor.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::actors::cell::HypervisorFactory;
use crate::domain::guest::{GuestSpec, GuestVif, GuestVolume};
use crate::virt::written::Written;
use crate::virt::{Content, DiskFile, GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// The armed faults of all hosts' drivers. Cheap to clone.
#[derive(Clone, Default)]
pub struct FaultyDrivers(Arc<Mutex<Armed>>);

/// By host and operation: the number of calls that will fail.
type Armed = BTreeMap<(String, Operation), u32>;

impl FaultyDrivers {
    /// Wraps a factory of drivers. A driver that is opened has no faults.
    pub fn over(&self, inner: HypervisorFactory) -> HypervisorFactory {
        let faults = self.clone();
        Arc::new(move |place, env| {
            faults.heal(&place.host);
            let driver = inner(place, env)?;
            Ok(Arc::new(FaultyDriver { host: place.host.clone(), inner: driver, faults: faults.clone() }))
        })
    }

    /// Lets the next `times` calls of this operation fail.
    pub fn fail_next(&self, host: &str, operation: Operation, times: u32) {
        self.0.lock().insert((host.to_owned(), operation), times);
    }

    /// Returns how many of the next calls of this operation will fail.
    pub fn failing(&self, host: &str, operation: Operation) -> u32 {
        self.0.lock().get(&(host.to_owned(), operation)).copied().unwrap_or_default()
    }

    /// Disarms all faults of a host.
    pub fn heal(&self, host: &str) {
        self.0.lock().retain(|(name, _), _| name != host);
    }

    fn pass(&self, host: &str, operation: Operation) -> Result<(), VirtError> {
        match self.0.lock().get_mut(&(host.to_owned(), operation)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                let source = std::io::Error::other("an experiment makes it fail");
                Err(VirtError::Io { what: format!("the hypervisor fails at {operation}"), source })
            }
            _ => Ok(()),
        }
    }
}

/// A host's driver.
struct FaultyDriver {
    host: String,
    inner: Arc<dyn Hypervisor>,
    faults: FaultyDrivers,
}

impl FaultyDriver {
    /// Returns the real driver, or the fault of this operation.
    fn at(&self, operation: Operation) -> Result<&dyn Hypervisor, VirtError> {
        self.faults.pass(&self.host, operation)?;
        Ok(self.inner.as_ref())
    }
}

impl Hypervisor for FaultyDriver {
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError> {
        self.inner.guests()
    }

    fn has_guests(&self) -> bool {
        self.inner.has_guests()
    }

    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError> {
        self.inner.guest(server)
    }

    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError> {
        self.inner.disks(server)
    }

    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError> {
        self.inner.contents(server)
    }

    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError> {
        self.inner.clear_incoming(server)
    }

    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError> {
        self.inner.discard_incoming(server)
    }

    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError> {
        self.inner.leftovers()
    }

    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.at(Operation::Define)?.define(spec, arrived)
    }

    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError> {
        self.at(Operation::Start)?.start(server, epoch)
    }

    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError> {
        self.at(Operation::PowerOff)?.stop(server, cause, orderly)
    }

    fn pause(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError> {
        self.at(Operation::Pause)?.pause(server, cause)
    }

    fn suspend(&self, server: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Suspend)?.suspend(server)
    }

    fn arrive_paused(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError> {
        self.at(Operation::Start)?.arrive_paused(server, epoch, memory)
    }

    fn resume(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError> {
        self.at(Operation::Start)?.resume(server, epoch, arrived)
    }

    fn rescue(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.at(Operation::Define)?.rescue(spec, arrived)
    }

    fn is_rescued(&self, server: Uuid) -> Result<bool, VirtError> {
        self.inner.is_rescued(server)
    }

    fn unrescue(&self, server: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Undefine)?.unrescue(server)
    }

    fn inject_nmi(&self, server: Uuid) -> Result<(), VirtError> {
        self.inner.inject_nmi(server)
    }

    fn set_password(&self, server: Uuid, hash: &str) -> Result<(), VirtError> {
        self.inner.set_password(server, hash)
    }

    fn memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError> {
        self.inner.memory(server)
    }

    fn memory_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.inner.memory_write(server, bytes)
    }

    fn undefine(&self, server: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Undefine)?.undefine(server)
    }

    fn remove(&self, server: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Undefine)?.remove(server)
    }

    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        self.at(Operation::Volume)?.connect_volume(server, volume)
    }

    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Volume)?.disconnect_volume(server, volume)
    }

    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError> {
        self.at(Operation::Vif)?.add_vif(server, vif)
    }

    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError> {
        self.at(Operation::Vif)?.remove_vif(server, port)
    }

    fn interrupted(&self, resume: bool) -> Result<(), VirtError> {
        self.inner.interrupted(resume)
    }

    fn console(&self, server: Uuid) -> Result<String, VirtError> {
        self.inner.console(server)
    }

    fn type_line(&self, server: Uuid, line: &str) -> Result<(), VirtError> {
        self.inner.type_line(server, line)
    }

    fn tick(&self) {
        self.inner.tick();
    }

    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.inner.guest_write(server, bytes)
    }
}
