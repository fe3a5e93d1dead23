//! The simulated driver: a guest is a directory with its definition (`guest.json`) and its disks as files, and a running
//! guest appends numbered records to its disks and volumes, so that anyone can prove what survived a move.

mod disks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::files::{self, Durability};
use super::hypervisor::{DISK_NAMES, DiskFile, GuestRecord, Hypervisor, Operation, ROOT, StopCause, VirtError};
use crate::domain::guest::{DiskSource, GuestSpec, GuestVif, GuestVolume};
use crate::domain::server::PowerState;
use crate::env::guard::{Guard, stands};

const DEFINITION: &str = "guest.json";
const INCOMING: &str = "incoming";

/// The driver of one host.
pub struct Simulated {
    dir: PathBuf,
    durability: Durability,
    guests: Mutex<BTreeMap<Uuid, Arc<Mutex<Guest>>>>,
    faults: Mutex<BTreeMap<Operation, u32>>,
}

/// A guest as this process knows it; every change goes to `guest.json` first.
struct Guest {
    record: GuestRecord,
    /// The number of the next record; read from the disk when it boots.
    next: u64,
    /// A failing write has been logged already.
    complained: bool,
}

impl Simulated {
    /// Opens the guests under `dir`, which is made when missing.
    pub fn open(dir: &Path, durability: Durability) -> Result<Simulated, VirtError> {
        fs::create_dir_all(dir).map_err(VirtError::io("cannot make the guests' directory"))?;
        let mut guests = BTreeMap::new();
        for name in files::names_in(dir).map_err(VirtError::io("cannot list the guests"))? {
            let Ok(server) = name.parse::<Uuid>() else { continue };
            match read_definition(&dir.join(&name)) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    guests.insert(server, Arc::new(Mutex::new(Guest { record, next: 1, complained: false })));
                }
                // One broken guest must not keep all others down; `RemoveGuest` still clears it away.
                Err(error) => log::error!(server:% = server; "a guest's definition cannot be read, the guest stays off: {error}"),
            }
        }
        Ok(Simulated { dir: dir.to_owned(), durability, guests: Mutex::new(guests), faults: Mutex::new(BTreeMap::new()) })
    }

    fn pass_fault(&self, operation: Operation) -> Result<(), VirtError> {
        let mut faults = lock(&self.faults);
        match faults.get_mut(&operation) {
            Some(left) if *left > 0 => {
                *left -= 1;
                let source = std::io::Error::other("an experiment makes it fail");
                Err(VirtError::Io { what: format!("the hypervisor cannot do {operation:?}"), source })
            }
            _ => Ok(()),
        }
    }

    fn dir_of(&self, server: Uuid) -> PathBuf {
        self.dir.join(server.to_string())
    }

    /// The epoch for which the guest was started, while it runs.
    pub fn runs_for(&self, server: Uuid) -> Option<i64> {
        let guest = self.find(server)?;
        let guest = lock(&guest);
        guest.record.runs().then_some(guest.record.started_epoch)
    }

    fn find(&self, server: Uuid) -> Option<Arc<Mutex<Guest>>> {
        lock(&self.guests).get(&server).cloned()
    }

    fn all(&self) -> Vec<Arc<Mutex<Guest>>> {
        lock(&self.guests).values().cloned().collect()
    }

    /// Changes a guest's record: on the disk first, then in memory.
    fn save(&self, guest: &mut Guest, change: impl FnOnce(&mut GuestRecord)) -> Result<(), VirtError> {
        let mut record = guest.record.clone();
        change(&mut record);
        if record != guest.record {
            self.write_definition(&record)?;
            guest.record = record;
        }
        Ok(())
    }

    fn write_definition(&self, record: &GuestRecord) -> Result<(), VirtError> {
        let what = format!("cannot write the definition of guest {}", record.spec.server);
        let content = serde_json::to_vec_pretty(record).map_err(std::io::Error::other).map_err(VirtError::io(what.clone()))?;
        self.durability.replace(&self.dir_of(record.spec.server), DEFINITION, &content).map_err(VirtError::io(what))
    }

    fn change_defined(&self, server: Uuid, change: impl FnOnce(&mut GuestRecord)) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = lock(&guest);
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        self.save(&mut guest, change)
    }
}

impl Hypervisor for Simulated {
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError> {
        Ok(self.all().iter().map(|guest| lock(guest).record.clone()).collect())
    }

    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError> {
        Ok(self.find(server).map(|guest| lock(&guest).record.clone()))
    }

    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError> {
        let dir = self.dir_of(server);
        let mut found = Vec::new();
        for name in DISK_NAMES {
            let path = dir.join(name);
            match fs::metadata(&path) {
                Ok(about) => found.push(DiskFile { name: name.to_owned(), path, size: about.len() }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(VirtError::io(format!("cannot read {name} of server {server}"))(error)),
            }
        }
        Ok(found)
    }

    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError> {
        let dir = self.dir_of(server).join(INCOMING);
        files::remove_tree(&dir).map_err(VirtError::io("cannot remove a broken-off import"))?;
        fs::create_dir_all(&dir).map_err(VirtError::io("cannot make room for incoming disks"))?;
        Ok(dir)
    }

    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError> {
        let dir = self.dir_of(server);
        files::remove_tree(&dir.join(INCOMING)).map_err(VirtError::io("cannot remove a broken-off import"))?;
        // Only an empty directory goes: one with a definition or disks is a guest's.
        let _ = fs::remove_dir(&dir);
        Ok(())
    }

    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError> {
        let listed = |path: &Path| files::names_in(path).map_err(VirtError::io("cannot list the guests"));
        let mut found = Vec::new();
        for name in listed(&self.dir)? {
            let Ok(server) = name.parse::<Uuid>() else { continue };
            if self.dir.join(&name).join(INCOMING).exists() {
                found.push((server, INCOMING.to_owned()));
            }
        }
        Ok(found)
    }

    fn define(&self, spec: &GuestSpec) -> Result<(), VirtError> {
        self.pass_fault(Operation::Define)?;
        let existing = self.find(spec.server);
        if stands(Guard::RunningGuest) && existing.as_ref().is_some_and(|guest| lock(guest).record.runs()) {
            return Err(VirtError::Refused(format!("the guest of server {} runs", spec.server)));
        }
        for volume in &spec.volumes {
            disks::check_volume(volume)?;
        }
        let dir = self.dir_of(spec.server);
        fs::create_dir_all(&dir).map_err(VirtError::io("cannot make the guest's directory"))?;
        let incoming = dir.join(INCOMING);
        if matches!(spec.disks, DiskSource::Image { .. }) && !spec.config_drive.is_null() {
            disks::write_config(&incoming.join(ROOT), &spec.config_drive)?;
        }
        if spec.disks == DiskSource::Kept {
            self.discard_incoming(spec.server)?;
            fs::create_dir_all(&dir).map_err(VirtError::io("cannot make the guest's directory"))?;
        } else {
            disks::adopt(&dir, &incoming)?;
        }
        if let Err(error) = disks::complete(&dir, spec) {
            // Without a root disk there is nothing to keep; an empty directory would look like a leftover.
            let _ = fs::remove_dir(&dir);
            return Err(error);
        }
        let started_epoch = existing.as_ref().map_or(0, |guest| lock(guest).record.started_epoch);
        let record = GuestRecord { spec: spec.clone(), defined: true, power_state: PowerState::Shutdown, started_epoch, stopped_by: None };
        self.write_definition(&record)?;
        self.durability.flush_names(&self.dir).map_err(VirtError::io("cannot flush the guests' directory"))?;
        lock(&self.guests).insert(spec.server, Arc::new(Mutex::new(Guest { record, next: 1, complained: false })));
        Ok(())
    }

    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError> {
        self.pass_fault(Operation::Start)?;
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = lock(&guest);
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        let ran = guest.record.runs();
        self.save(&mut guest, |record| {
            record.power_state = PowerState::Running;
            record.started_epoch = epoch;
            record.stopped_by = None;
        })?;
        if !ran {
            guest.next = disks::last_record(&self.dir_of(server), &guest.record.spec) + 1;
            self.write_record(&mut guest, "boot");
        }
        Ok(())
    }

    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError> {
        self.pass_fault(Operation::PowerOff)?;
        let Some(guest) = self.find(server) else { return Ok(false) };
        let mut guest = lock(&guest);
        if !guest.record.runs() {
            return match guest.record.stopped_by {
                Some(StopCause::HostDown) => self.save(&mut guest, |record| record.stopped_by = Some(cause)).map(|()| true),
                known => Ok(stands(Guard::StopCause) && known == Some(cause)),
            };
        }
        if orderly {
            self.write_record(&mut guest, "shutdown");
        }
        self.save(&mut guest, |record| {
            record.power_state = PowerState::Shutdown;
            record.stopped_by = Some(cause);
        })?;
        Ok(true)
    }

    fn undefine(&self, server: Uuid) -> Result<(), VirtError> {
        self.pass_fault(Operation::Undefine)?;
        let Some(guest) = self.find(server) else { return Ok(()) };
        let mut guest = lock(&guest);
        if guest.record.runs() {
            return Err(VirtError::Refused(format!("the guest of server {server} runs")));
        }
        self.save(&mut guest, |record| {
            record.defined = false;
            record.stopped_by = None;
            record.spec.volumes.clear();
            record.spec.vifs.clear();
        })
    }

    fn remove(&self, server: Uuid) -> Result<(), VirtError> {
        self.pass_fault(Operation::Undefine)?;
        if let Some(guest) = self.find(server)
            && lock(&guest).record.runs()
        {
            return Err(VirtError::Refused(format!("the guest of server {server} runs")));
        }
        let dir = self.dir_of(server);
        let what = || format!("cannot remove the guest of server {server}");
        // The definition goes first and durably: half a guest must not be found again after a crash.
        files::remove_file(&dir.join(DEFINITION)).map_err(VirtError::io(what()))?;
        lock(&self.guests).remove(&server);
        files::remove_tree(&dir).map_err(VirtError::io(what()))?;
        self.durability.flush_names(&self.dir).map_err(VirtError::io(what()))
    }

    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        self.pass_fault(Operation::Volume)?;
        disks::check_volume(volume)?;
        self.change_defined(server, |record| match record.spec.volumes.iter_mut().find(|known| known.volume_id == volume.volume_id) {
            Some(known) => *known = volume.clone(),
            None => record.spec.volumes.push(volume.clone()),
        })
    }

    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError> {
        self.pass_fault(Operation::Volume)?;
        absent_is_fine(self.change_defined(server, |record| record.spec.volumes.retain(|known| known.volume_id != volume)))
    }

    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError> {
        self.pass_fault(Operation::Vif)?;
        self.change_defined(server, |record| match record.spec.vifs.iter_mut().find(|known| known.port_id == vif.port_id) {
            Some(known) => *known = vif.clone(),
            None => record.spec.vifs.push(vif.clone()),
        })
    }

    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError> {
        self.pass_fault(Operation::Vif)?;
        absent_is_fine(self.change_defined(server, |record| record.spec.vifs.retain(|known| known.port_id != port)))
    }

    fn interrupted(&self, resume: bool) -> Result<(), VirtError> {
        for guest in self.all() {
            let mut guest = lock(&guest);
            let ran = guest.record.runs() || guest.record.stopped_by == Some(StopCause::HostDown);
            if ran {
                self.save(&mut guest, |record| {
                    record.power_state = PowerState::Shutdown;
                    record.stopped_by = resume.then_some(StopCause::HostDown);
                })?;
            }
        }
        Ok(())
    }

    fn tick(&self) {
        for guest in self.all() {
            let mut guest = lock(&guest);
            if guest.record.runs() {
                self.write_record(&mut guest, "tick");
            }
        }
    }

    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let guest = lock(&guest);
        if !guest.record.runs() {
            return Err(VirtError::Refused(format!("the guest of server {server} does not run")));
        }
        disks::append_to_all(&self.dir_of(server), &guest.record.spec, bytes)
    }

    fn fail_next(&self, operation: Operation, times: u32) {
        lock(&self.faults).insert(operation, times);
    }

    fn failing(&self, operation: Operation) -> u32 {
        lock(&self.faults).get(&operation).copied().unwrap_or_default()
    }

    fn heal(&self) {
        lock(&self.faults).clear();
    }
}

impl Simulated {
    /// A numbered line on every disk and volume. A guest whose disk is full goes on running, as a real one would.
    fn write_record(&self, guest: &mut Guest, event: &str) {
        let server = guest.record.spec.server;
        let line = disks::record_line(server, guest.next, event);
        match disks::append_to_all(&self.dir_of(server), &guest.record.spec, line.as_bytes()) {
            Ok(()) => guest.complained = false,
            Err(_) if guest.complained => {}
            Err(error) => {
                guest.complained = true;
                log::warn!(server:% = server; "the guest cannot write to its disks: {error}");
            }
        }
        guest.next += 1;
    }
}

fn read_definition(dir: &Path) -> Result<Option<GuestRecord>, VirtError> {
    let what = "cannot read the definition";
    let text = match fs::read(dir.join(DEFINITION)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(VirtError::io(what))?,
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| VirtError::io(what)(std::io::Error::other(error)))
}

fn absent_is_fine(result: Result<(), VirtError>) -> Result<(), VirtError> {
    match result {
        Err(VirtError::NoGuest(_)) => Ok(()),
        other => other,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
