//! Guests that stand still with their memory. A guest that its user paused or suspended keeps its memory in a file, and so survives a restart
//! of its host; a guest that an operation pauses does not.

use std::fs;

use cellshift_domain::reason;
use cellshift_domain::server::PowerState;
use uuid::Uuid;

use super::memory::Memory;
use super::{Guest, Simulated, does_not_run, files};
use crate::virt::{StopCause, VirtError};

/// The file with the memory of a paused or suspended guest.
const SAVED_MEMORY: &str = "memory";

impl Simulated {
    /// See [`super::Hypervisor::pause`].
    pub(super) fn let_stand(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        match guest.record.power_state {
            PowerState::Paused if cause == StopCause::UserPaused => {
                self.write_memory(server, guest.memory.bytes())?;
                self.save(&mut guest, |record| record.stopped_by = Some(cause))
            }
            PowerState::Paused => Ok(()),
            PowerState::Running => {
                self.flush(&guest)?;
                if cause == StopCause::UserPaused {
                    self.write_memory(server, guest.memory.bytes())?;
                }
                self.stands_still(&mut guest, PowerState::Paused, Some(cause))
            }
            PowerState::Shutdown | PowerState::NoState | PowerState::Suspended => Err(does_not_run(server)),
        }
    }

    /// See [`super::Hypervisor::suspend`].
    pub(super) fn save_memory(&self, server: Uuid) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        match guest.record.power_state {
            PowerState::Suspended => Ok(()),
            PowerState::Running | PowerState::Paused => {
                self.flush(&guest)?;
                self.write_memory(server, guest.memory.bytes())?;
                self.stands_still(&mut guest, PowerState::Suspended, None)?;
                guest.memory = Memory::default();
                Ok(())
            }
            PowerState::Shutdown | PowerState::NoState => Err(does_not_run(server)),
        }
    }

    /// See [`super::Hypervisor::resume`].
    pub(super) fn run_on(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        let arrived = match guest.record.power_state {
            PowerState::Suspended if arrived.is_none() => Some(self.saved_memory(server)?),
            PowerState::Shutdown | PowerState::NoState if arrived.is_none() => {
                return Err(VirtError::Refused(reason!("the guest of server {server} is neither paused nor suspended")));
            }
            _ => arrived,
        };
        let begins = self.begins_to_run(&mut guest, epoch)?;
        if let Some(bytes) = arrived.filter(|_| begins) {
            guest.memory = Memory::arrived(bytes);
        }
        Ok(())
    }

    /// See [`super::Hypervisor::arrive_paused`].
    pub(super) fn take_memory(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.defined || guest.record.runs() {
            return Err(VirtError::Refused(reason!("server {server} has no guest on this host that waits for its memory")));
        }
        self.write_memory(server, &memory)?;
        self.save(&mut guest, |record| {
            record.power_state = PowerState::Paused;
            record.started_epoch = epoch;
            record.stopped_by = Some(StopCause::UserPaused);
        })?;
        guest.memory = Memory::arrived(memory);
        Ok(())
    }

    /// Gives a guest that its user paused its memory again after a restart of the host. Without the memory it is off.
    pub(super) fn stay_paused(&self, guest: &mut Guest) -> Result<(), VirtError> {
        match self.saved_memory(guest.record.spec.server) {
            Ok(memory) => {
                guest.memory = Memory::arrived(memory);
                Ok(())
            }
            Err(error) => {
                log::error!(server:% = guest.record.spec.server; "a paused guest is off now: {error}");
                self.went_off(guest, None)
            }
        }
    }

    fn write_memory(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        let written = self.durability.replace(&self.dir_of(server), SAVED_MEMORY, bytes);
        written.map_err(VirtError::io(format!("cannot write the memory of server {server}")))
    }

    fn saved_memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError> {
        let read = fs::read(self.dir_of(server).join(SAVED_MEMORY));
        read.map_err(VirtError::io(format!("cannot read the memory of server {server}")))
    }

    /// Removes the memory's file. A left file does no harm: only a paused or suspended guest reads it, which wrote it anew.
    pub(super) fn forget_memory(&self, server: Uuid) {
        if let Err(error) = files::remove_file(&self.dir_of(server).join(SAVED_MEMORY)) {
            log::warn!(server:% = server; "the memory of a guest that stood still cannot be removed: {error}");
        }
    }
}
