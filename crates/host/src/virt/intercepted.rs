//! A driver before another. An interceptor sees each call on its way down, and may fail it, delay it, or look at the guest before and
//! after it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cellshift_domain::guest::{GuestSpec, GuestVif, GuestVolume};
use uuid::Uuid;

use super::written::Written;
use super::{Content, DiskFile, GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// The effect of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The call only reads.
    None,
    /// The call changes something without an operation of the hypervisor: incoming disks, memory, console, password.
    Change,
    /// The call takes time on a real hypervisor.
    Operation(Operation),
    /// All guests of the host go off.
    Interruption,
}

/// A call of a driver.
pub struct Call<'a> {
    /// The host of the driver.
    pub host: &'a str,
    /// The server whose guest is meant. None if the call is about all guests of the host.
    pub server: Option<Uuid>,
    /// The effect that the call has if the driver carries it out.
    pub effect: Effect,
    /// The driver below, which does not pass the interceptor again.
    pub driver: &'a dyn Hypervisor,
}

/// Sees the calls of drivers.
pub trait Interceptor: Send + Sync {
    /// Carries out the call with `work`, or fails in its place. Runs where the call runs, so it may block. The result is the caller's.
    fn around<T>(&self, call: &Call<'_>, work: impl FnOnce() -> Result<T, VirtError>) -> Result<T, VirtError>;
}

/// A host's driver with an interceptor before it. [`Hypervisor::has_guests`] and [`Hypervisor::tick`] cannot fail and do not pass it.
pub struct Intercepted<I> {
    host: String,
    driver: Arc<dyn Hypervisor>,
    interceptor: Arc<I>,
}

impl<I: Interceptor> Intercepted<I> {
    /// Puts the interceptor before the host's driver.
    pub fn new(host: &str, driver: Arc<dyn Hypervisor>, interceptor: Arc<I>) -> Intercepted<I> {
        Intercepted { host: host.to_owned(), driver, interceptor }
    }

    fn pass<T>(
        &self,
        effect: Effect,
        server: Option<Uuid>,
        work: impl FnOnce(&dyn Hypervisor) -> Result<T, VirtError>,
    ) -> Result<T, VirtError> {
        let driver = &*self.driver;
        self.interceptor.around(&Call { host: &self.host, server, effect, driver }, || work(driver))
    }

    fn read<T>(&self, server: Uuid, work: impl FnOnce(&dyn Hypervisor) -> Result<T, VirtError>) -> Result<T, VirtError> {
        self.pass(Effect::None, Some(server), work)
    }

    fn change<T>(&self, server: Uuid, work: impl FnOnce(&dyn Hypervisor) -> Result<T, VirtError>) -> Result<T, VirtError> {
        self.pass(Effect::Change, Some(server), work)
    }

    fn operate<T>(
        &self,
        operation: Operation,
        server: Uuid,
        work: impl FnOnce(&dyn Hypervisor) -> Result<T, VirtError>,
    ) -> Result<T, VirtError> {
        self.pass(Effect::Operation(operation), Some(server), work)
    }
}

impl<I: Interceptor> Hypervisor for Intercepted<I> {
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError> {
        self.pass(Effect::None, None, |driver| driver.guests())
    }

    fn has_guests(&self) -> bool {
        self.driver.has_guests()
    }

    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError> {
        self.read(server, |driver| driver.guest(server))
    }

    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError> {
        self.read(server, |driver| driver.disks(server))
    }

    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError> {
        self.read(server, |driver| driver.contents(server))
    }

    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError> {
        self.change(server, |driver| driver.clear_incoming(server))
    }

    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError> {
        self.change(server, |driver| driver.discard_incoming(server))
    }

    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError> {
        self.pass(Effect::None, None, |driver| driver.leftovers())
    }

    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.operate(Operation::Define, spec.server, |driver| driver.define(spec, arrived))
    }

    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError> {
        self.operate(Operation::Start, server, |driver| driver.start(server, epoch))
    }

    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError> {
        self.operate(Operation::PowerOff, server, |driver| driver.stop(server, cause, orderly))
    }

    fn pause(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError> {
        self.operate(Operation::Pause, server, |driver| driver.pause(server, cause))
    }

    fn suspend(&self, server: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Suspend, server, |driver| driver.suspend(server))
    }

    fn resume(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError> {
        self.operate(Operation::Start, server, |driver| driver.resume(server, epoch, arrived))
    }

    fn arrive_paused(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError> {
        self.operate(Operation::Start, server, |driver| driver.arrive_paused(server, epoch, memory))
    }

    fn memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError> {
        self.read(server, |driver| driver.memory(server))
    }

    fn memory_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.change(server, |driver| driver.memory_write(server, bytes))
    }

    fn undefine(&self, server: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Undefine, server, |driver| driver.undefine(server))
    }

    fn remove(&self, server: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Undefine, server, |driver| driver.remove(server))
    }

    fn rescue(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.operate(Operation::Define, spec.server, |driver| driver.rescue(spec, arrived))
    }

    fn is_rescued(&self, server: Uuid) -> Result<bool, VirtError> {
        self.read(server, |driver| driver.is_rescued(server))
    }

    fn unrescue(&self, server: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Undefine, server, |driver| driver.unrescue(server))
    }

    fn inject_nmi(&self, server: Uuid) -> Result<(), VirtError> {
        self.change(server, |driver| driver.inject_nmi(server))
    }

    fn set_password(&self, server: Uuid, hash: &str) -> Result<(), VirtError> {
        self.change(server, |driver| driver.set_password(server, hash))
    }

    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        self.operate(Operation::Volume, server, |driver| driver.connect_volume(server, volume))
    }

    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Volume, server, |driver| driver.disconnect_volume(server, volume))
    }

    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError> {
        self.operate(Operation::Vif, server, |driver| driver.add_vif(server, vif))
    }

    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError> {
        self.operate(Operation::Vif, server, |driver| driver.remove_vif(server, port))
    }

    fn interrupted(&self, resume: bool) -> Result<(), VirtError> {
        self.pass(Effect::Interruption, None, |driver| driver.interrupted(resume))
    }

    fn tick(&self) {
        self.driver.tick();
    }

    fn console(&self, server: Uuid) -> Result<String, VirtError> {
        self.read(server, |driver| driver.console(server))
    }

    fn type_line(&self, server: Uuid, line: &str) -> Result<(), VirtError> {
        self.change(server, |driver| driver.type_line(server, line))
    }

    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.change(server, |driver| driver.guest_write(server, bytes))
    }
}
