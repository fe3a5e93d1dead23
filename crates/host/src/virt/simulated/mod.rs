//! The simulated driver: a guest is a directory with its definition (`guest.json`, a log) and its disks as files. A running guest appends
//! numbered records to its disks and volumes, which prove later which bytes survived a move.

mod console;
mod disks;
mod memory;
mod rescue;
mod standstill;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellshift_domain::guest::{DiskSource, GuestSpec, GuestVif, GuestVolume};
use cellshift_domain::reason;
use cellshift_domain::server::PowerState;
use cellshift_env::guard::{Guard, stands};
use parking_lot::Mutex;
use uuid::Uuid;

use super::files::{self, Durability};
use super::hypervisor::{Content, DISK_NAMES, DiskFile, GuestRecord, Hypervisor, ROOT, StopCause, VirtError};
use super::record_log::{self, RecordLog};
use super::written::Written;
use disks::{Contents, Growing};
use memory::Memory;

const DEFINITION: &str = "guest.json";
const INCOMING: &str = "incoming";

/// The driver of a host.
pub struct Simulated {
    dir: PathBuf,
    durability: Durability,
    guests: Mutex<BTreeMap<Uuid, Arc<Mutex<Guest>>>>,
    lives: AtomicU64,
}

/// A guest in this process. Each change is written to `guest.json` first.
struct Guest {
    record: GuestRecord,
    definition: RecordLog,
    /// The number of the next record, read from the disk at boot.
    next: u64,
    /// True if a failing write has been logged already.
    complained: bool,
    /// The contents that it adds to while it runs. They are lost with the process: the next process reads the added bytes from the disks.
    growing: Growing,
    /// Its memory while it runs or is paused.
    memory: Memory,
    /// Changes each time the guest is defined.
    life: u64,
    /// True if its files are removed, or belong to a newer guest of the server.
    gone: bool,
}

impl Guest {
    fn new(record: GuestRecord, definition: RecordLog, life: u64) -> Guest {
        Guest { record, definition, next: 1, complained: false, growing: Growing::new(), memory: Memory::default(), life, gone: false }
    }

    /// Returns the bytes known to be written so far.
    fn written(&self) -> Contents {
        let mut written = self.record.contents.clone();
        written.extend(self.growing.iter().map(|(name, writing)| (name.clone(), writing.written())));
        written
    }
}

impl Simulated {
    /// Opens the guests under `dir`, which is made if missing.
    pub fn open(dir: &Path, durability: Durability) -> Result<Simulated, VirtError> {
        fs::create_dir_all(dir).map_err(VirtError::io("cannot make the guests' directory"))?;
        let mut guests = BTreeMap::new();
        for name in files::names_in(dir).map_err(VirtError::io("cannot list the guests"))? {
            let Ok(server) = name.parse::<Uuid>() else { continue };
            match read_definition(&dir.join(&name)) {
                Ok(None) => {}
                Ok(Some(mut record)) => {
                    let mut definition = RecordLog::default();
                    if !record.spec.config_drive.is_null() {
                        record.spec.config_drive = serde_json::Value::Null;
                        // Replaces the file, and so removes the password that an earlier release kept in it.
                        if let Err(error) = definition.record((&dir.join(&name), DEFINITION), &record, durability, true) {
                            log::error!(server:% = server; "cannot write a guest's definition without its password: {error}");
                        }
                    }
                    guests.insert(server, Arc::new(Mutex::new(Guest::new(record, definition, guests.len() as u64))));
                }
                // A broken guest must not keep the others down; `RemoveGuest` still removes it.
                Err(error) => log::error!(server:% = server; "a guest's definition cannot be read, the guest stays off: {error}"),
            }
        }
        let lives = AtomicU64::new(guests.len() as u64);
        Ok(Simulated { dir: dir.to_owned(), durability, guests: Mutex::new(guests), lives })
    }

    fn dir_of(&self, server: Uuid) -> PathBuf {
        self.dir.join(server.to_string())
    }

    /// Returns the epoch of the running guest's start.
    pub fn runs_for(&self, server: Uuid) -> Option<i64> {
        let guest = self.find(server)?;
        let guest = guest.lock();
        guest.record.runs().then_some(guest.record.started_epoch)
    }

    fn find(&self, server: Uuid) -> Option<Arc<Mutex<Guest>>> {
        self.guests.lock().get(&server).cloned()
    }

    fn all(&self) -> Vec<Arc<Mutex<Guest>>> {
        self.guests.lock().values().cloned().collect()
    }

    /// Changes a guest's record: on disk first, then in memory.
    fn save(&self, guest: &mut Guest, change: impl FnOnce(&mut GuestRecord)) -> Result<(), VirtError> {
        let mut record = guest.record.clone();
        change(&mut record);
        if record != guest.record {
            self.write_definition(&mut guest.definition, &record)?;
            guest.record = record;
        }
        Ok(())
    }

    fn write_definition(&self, definition: &mut RecordLog, record: &GuestRecord) -> Result<(), VirtError> {
        let server = record.spec.server;
        let written = definition.record((&self.dir_of(server), DEFINITION), record, self.durability, true);
        written.map_err(VirtError::io(format!("cannot write the definition of guest {server}")))
    }

    fn change_defined(&self, server: Uuid, change: impl FnOnce(&mut GuestRecord)) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        self.save(&mut guest, change)
    }
}

impl Hypervisor for Simulated {
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError> {
        Ok(self.all().iter().map(|guest| guest.lock().record.clone()).collect())
    }

    fn has_guests(&self) -> bool {
        !self.guests.lock().is_empty()
    }

    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError> {
        Ok(self.find(server).map(|guest| guest.lock().record.clone()))
    }

    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError> {
        let dir = self.dir_of(server);
        let mut disks = Vec::new();
        for name in DISK_NAMES {
            let path = dir.join(name);
            match fs::metadata(&path) {
                Ok(about) => disks.push(DiskFile { name: name.to_owned(), path, size: about.len() }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(VirtError::io(format!("cannot read {name} of server {server}"))(error)),
            }
        }
        Ok(disks)
    }

    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError> {
        let Some(guest) = self.find(server) else { return Ok(Vec::new()) };
        let guest = guest.lock();
        if guest.gone {
            return Ok(Vec::new());
        }
        let dir = self.dir_of(server);
        let written = guest.written();
        let unseen = guest.record.runs() && guest.growing.is_empty();
        let mut files = disks::paths(&dir, &guest.record.spec);
        // A record of an older release has no contents. Released disks are found only by their contents: the guest's former volumes are
        // unknown, and so is whether it needed a root disk.
        let unknown = guest.record.defined && !written.keys().any(|name| disks::is_local(name));
        let required = if unknown { disks::required_disks(&guest.record.spec) } else { Vec::new() };
        files.retain(|(name, _)| !disks::is_local(name) || written.contains_key(name) || required.contains(&name.as_str()));
        files.insert(0, (DEFINITION.to_owned(), dir.join(DEFINITION)));
        let seen = files.into_iter().map(|(name, path)| {
            // A file that cannot be read counts as missing, so that the other guests are still reported.
            let length = disks::length(&path).unwrap_or_default();
            let at_least = unseen || !disks::is_local(&name);
            Content { written: written.get(&name).cloned(), length, at_least, life: guest.life, name, path }
        });
        Ok(seen.collect())
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
        // Removes only an empty directory: a directory with a definition or disks belongs to a guest.
        let _ = fs::remove_dir(&dir);
        Ok(())
    }

    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError> {
        let listed = |path: &Path| files::names_in(path).map_err(VirtError::io("cannot list the guests"));
        let mut leftovers = Vec::new();
        for name in listed(&self.dir)? {
            let Ok(server) = name.parse::<Uuid>() else { continue };
            if self.dir.join(&name).join(INCOMING).exists() {
                leftovers.push((server, INCOMING.to_owned()));
            }
        }
        Ok(leftovers)
    }

    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        let existing = self.find(spec.server);
        let mut existing = existing.as_ref().map(|guest| guest.lock());
        if stands(Guard::RunningGuest) && existing.as_ref().is_some_and(|guest| guest.record.runs()) {
            return Err(VirtError::Refused(reason!("the guest of server {} runs", spec.server)));
        }
        for volume in &spec.volumes {
            disks::check_volume(volume)?;
        }
        let dir = self.dir_of(spec.server);
        fs::create_dir_all(&dir).map_err(VirtError::io("cannot make the guest's directory"))?;
        let incoming = dir.join(INCOMING);
        let mut contents = arrived.clone();
        if spec.disks != DiskSource::Kept && !spec.config_drive.is_null() {
            disks::write_config(&incoming.join(ROOT), spec, &mut contents)?;
        }
        if spec.disks == DiskSource::Kept {
            contents = existing.as_ref().map(|guest| guest.record.contents.clone()).unwrap_or_default();
            contents.retain(|name, _| disks::is_local(name));
            self.discard_incoming(spec.server)?;
            fs::create_dir_all(&dir).map_err(VirtError::io("cannot make the guest's directory"))?;
        } else {
            if let Some(guest) = &mut existing {
                // Clears the contents durably before the disks are replaced, because the incoming disks have other bytes.
                self.save(guest, |record| record.contents.clear())?;
            }
            disks::adopt(&dir, &incoming)?;
        }
        if let Err(error) = disks::complete(&dir, spec, &mut contents) {
            // Without a root disk there is nothing to keep; an empty directory would look like a leftover.
            let _ = fs::remove_dir(&dir);
            return Err(error);
        }
        let started_epoch = existing.as_ref().map_or(0, |guest| guest.record.started_epoch);
        // A guest that keeps its disks is the same guest: if its host went away under it, it may still come back by itself.
        let stopped_by = existing.as_ref().filter(|guest| guest.record.defined && spec.disks == DiskSource::Kept);
        let stopped_by = stopped_by.and_then(|guest| guest.record.stopped_by).filter(|cause| *cause == StopCause::HostDown);
        let power_state = PowerState::Shutdown;
        let spec = GuestSpec { config_drive: serde_json::Value::Null, sealed: None, ..spec.clone() };
        let record = GuestRecord { spec, defined: true, power_state, started_epoch, stopped_by, contents };
        let mut definition = existing.as_mut().map(|guest| std::mem::take(&mut guest.definition)).unwrap_or_default();
        self.write_definition(&mut definition, &record)?;
        self.forget_memory(record.spec.server);
        if let Some(guest) = &mut existing {
            guest.gone = true;
        }
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        self.guests.lock().insert(record.spec.server, Arc::new(Mutex::new(Guest::new(record, definition, life))));
        self.durability.flush_names(&self.dir).map_err(VirtError::io("cannot flush the guests' directory"))?;
        Ok(())
    }

    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        if self.begins_to_run(&mut guest, epoch)? {
            guest.memory = Memory::of_boot(guest.next);
            self.write_record(&mut guest, "boot");
        }
        Ok(())
    }

    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError> {
        let Some(guest) = self.find(server) else { return Ok(false) };
        let mut guest = guest.lock();
        if let PowerState::Paused | PowerState::Suspended = guest.record.power_state {
            let ran = !matches!(guest.record.stopped_by, Some(StopCause::UserPaused) | None);
            self.went_off(&mut guest, Some(cause).filter(|_| ran))?;
            self.forget_memory(server);
            return Ok(ran);
        }
        if !guest.record.runs() {
            return match guest.record.stopped_by {
                Some(StopCause::HostDown) => self.save(&mut guest, |record| record.stopped_by = Some(cause)).map(|()| true),
                stopped_by => Ok(stands(Guard::StopCause) && stopped_by == Some(cause)),
            };
        }
        if orderly {
            self.write_record(&mut guest, "shutdown");
        }
        self.flush(&guest)?;
        self.went_off(&mut guest, Some(cause))?;
        Ok(true)
    }

    fn pause(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError> {
        self.let_stand(server, cause)
    }

    fn suspend(&self, server: Uuid) -> Result<(), VirtError> {
        self.save_memory(server)
    }

    fn resume(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError> {
        self.run_on(server, epoch, arrived)
    }

    fn arrive_paused(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError> {
        self.take_memory(server, epoch, memory)
    }

    fn memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        Ok(guest.lock().memory.bytes().to_vec())
    }

    fn memory_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.runs() {
            return Err(does_not_run(server));
        }
        guest.memory.write(bytes);
        Ok(())
    }

    fn undefine(&self, server: Uuid) -> Result<(), VirtError> {
        let Some(guest) = self.find(server) else { return Ok(()) };
        let mut guest = guest.lock();
        if guest.record.runs() {
            return Err(VirtError::Refused(reason!("the guest of server {server} runs")));
        }
        self.save(&mut guest, |record| {
            record.defined = false;
            record.power_state = PowerState::Shutdown;
            record.stopped_by = None;
            record.spec.volumes.clear();
            record.spec.vifs.clear();
            record.contents.retain(|name, _| disks::is_local(name));
        })?;
        guest.memory = Memory::default();
        self.forget_memory(server);
        Ok(())
    }

    fn remove(&self, server: Uuid) -> Result<(), VirtError> {
        let guest = self.find(server);
        let mut guest = guest.as_ref().map(|guest| guest.lock());
        if guest.as_ref().is_some_and(|guest| guest.record.runs()) {
            return Err(VirtError::Refused(reason!("the guest of server {server} runs")));
        }
        let dir = self.dir_of(server);
        let what = || format!("cannot remove the guest of server {server}");
        // Removes the definition first and durably, so that a crash leaves no half guest.
        files::remove_file(&dir.join(DEFINITION)).map_err(VirtError::io(what()))?;
        if let Some(guest) = &mut guest {
            guest.gone = true;
        }
        self.guests.lock().remove(&server);
        files::remove_tree(&dir).map_err(VirtError::io(what()))?;
        self.durability.flush_names(&self.dir).map_err(VirtError::io(what()))
    }

    fn rescue(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.add_rescue_disk(spec, arrived)
    }

    fn is_rescued(&self, server: Uuid) -> Result<bool, VirtError> {
        Ok(rescue::is_rescued(&self.dir_of(server)))
    }

    fn unrescue(&self, server: Uuid) -> Result<(), VirtError> {
        self.drop_rescue_disk(server)
    }

    fn inject_nmi(&self, server: Uuid) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.runs() {
            return Err(does_not_run(server));
        }
        self.write_record(&mut guest, "crash dump");
        Ok(())
    }

    fn set_password(&self, server: Uuid, hash: &str) -> Result<(), VirtError> {
        self.guest_write(server, disks::password_line(server, hash).as_bytes())
    }

    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        disks::check_volume(volume)?;
        self.change_defined(server, |record| match record.spec.volumes.iter_mut().find(|entry| entry.volume_id == volume.volume_id) {
            Some(entry) => *entry = volume.clone(),
            None => record.spec.volumes.push(volume.clone()),
        })?;
        self.begin_volume(server, volume)
    }

    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError> {
        let forgotten = self.change_defined(server, |record| {
            record.spec.volumes.retain(|entry| entry.volume_id != volume);
            record.contents.remove(&volume.to_string());
        });
        if let Some(guest) = self.find(server) {
            guest.lock().growing.remove(&volume.to_string());
        }
        absent_is_fine(forgotten)
    }

    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError> {
        self.change_defined(server, |record| match record.spec.vifs.iter_mut().find(|entry| entry.port_id == vif.port_id) {
            Some(entry) => *entry = vif.clone(),
            None => record.spec.vifs.push(vif.clone()),
        })
    }

    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError> {
        absent_is_fine(self.change_defined(server, |record| record.spec.vifs.retain(|entry| entry.port_id != port)))
    }

    fn interrupted(&self, resume: bool) -> Result<(), VirtError> {
        for guest in self.all() {
            let mut guest = guest.lock();
            let paused = guest.record.power_state == PowerState::Paused;
            if paused && guest.record.stopped_by == Some(StopCause::UserPaused) {
                match resume {
                    true => self.stay_paused(&mut guest)?,
                    false => self.went_off(&mut guest, None)?,
                }
                continue;
            }
            let ran = guest.record.runs() || paused || guest.record.stopped_by == Some(StopCause::HostDown);
            if ran {
                self.went_off(&mut guest, resume.then_some(StopCause::HostDown))?;
            }
        }
        Ok(())
    }

    fn console(&self, server: Uuid) -> Result<String, VirtError> {
        self.written_lines(server)
    }

    fn type_line(&self, server: Uuid, line: &str) -> Result<(), VirtError> {
        self.reads(server, line)
    }

    fn tick(&self) {
        for guest in self.all() {
            let mut guest = guest.lock();
            if guest.record.runs() {
                self.write_record(&mut guest, "tick");
            }
        }
    }

    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.runs() {
            return Err(does_not_run(server));
        }
        let Guest { record, growing, .. } = &mut *guest;
        disks::append_to_all(&self.dir_of(server), &record.spec, bytes, growing)
    }
}

impl Simulated {
    /// Records that a guest runs, for this epoch. False if it ran before.
    fn begins_to_run(&self, guest: &mut Guest, epoch: i64) -> Result<bool, VirtError> {
        let (server, ran) = (guest.record.spec.server, guest.record.runs());
        let dir = self.dir_of(server);
        if !ran {
            let grows = disks::growing(&dir, &guest.record.spec, &guest.record.contents);
            guest.growing = grows.map_err(VirtError::io(format!("cannot look at the disks of server {server}")))?;
        }
        // Saves the record durably before the guest writes: from now on its disks may be longer than the record says.
        let contents = if ran { guest.record.contents.clone() } else { guest.written() };
        self.save(guest, |record| {
            record.power_state = PowerState::Running;
            record.started_epoch = epoch;
            record.stopped_by = None;
            record.contents = contents;
        })?;
        if !ran {
            self.forget_memory(server);
            guest.next = disks::last_record(&dir, &guest.record.spec) + 1;
        }
        Ok(!ran)
    }

    fn flush(&self, guest: &Guest) -> Result<(), VirtError> {
        let server = guest.record.spec.server;
        let flushed = disks::flush(&self.dir_of(server), &guest.record.spec, self.durability);
        flushed.map_err(VirtError::io(format!("cannot flush the disks of server {server}")))
    }

    /// Records that a guest is off, and its contents. If another process ran the guest, reads the added bytes from its disks.
    fn went_off(&self, guest: &mut Guest, cause: Option<StopCause>) -> Result<(), VirtError> {
        self.stands_still(guest, PowerState::Shutdown, cause)?;
        guest.memory = Memory::default();
        Ok(())
    }

    /// Records that a guest is off or paused, as [`Simulated::went_off`] does.
    fn stands_still(&self, guest: &mut Guest, state: PowerState, cause: Option<StopCause>) -> Result<(), VirtError> {
        let server = guest.record.spec.server;
        let contents = match guest.record.runs() && guest.growing.is_empty() {
            true => disks::recovered(&self.dir_of(server), &guest.record.spec, &guest.record.contents).unwrap_or_else(|error| {
                // An unreadable disk must not keep its host down; the audit reports it.
                log::error!(server:% = server; "the disks of a guest that ran cannot be read: {error}");
                guest.record.contents.clone()
            }),
            false => guest.written(),
        };
        self.save(guest, |record| {
            record.power_state = state;
            record.stopped_by = cause;
            record.contents = contents;
        })?;
        guest.growing.clear();
        Ok(())
    }

    /// Lets a running guest write to a volume from its end at the time of the connection.
    fn begin_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        let name = volume.volume_id.to_string();
        if guest.record.runs() && !guest.growing.contains_key(&name) && !guest.record.contents.contains_key(&name) {
            let dir = self.dir_of(server);
            let grows = disks::growing(&dir, &guest.record.spec, &Contents::new());
            let begun = grows.map_err(VirtError::io(format!("cannot look at volume {name}")))?.remove(&name);
            guest.growing.extend(begun.map(|begun| (name, begun)));
        }
        Ok(())
    }

    /// Writes a numbered line to each disk and volume. A guest with a full disk continues to run, as a real one would.
    fn write_record(&self, guest: &mut Guest, event: &str) {
        let server = guest.record.spec.server;
        let line = disks::record_line(server, guest.next, event);
        let Guest { record, growing, .. } = &mut *guest;
        match disks::append_to_all(&self.dir_of(server), &record.spec, line.as_bytes(), growing) {
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
    // An earlier release wrote a definition over many lines.
    match record_log::last(&text) {
        Some(record) => Ok(Some(record)),
        None => serde_json::from_slice(&text).map(Some).map_err(|error| VirtError::io(what)(std::io::Error::other(error))),
    }
}

pub(super) fn does_not_run(server: Uuid) -> VirtError {
    VirtError::Refused(reason!("the guest of server {server} does not run"))
}

fn absent_is_fine(result: Result<(), VirtError>) -> Result<(), VirtError> {
    match result {
        Err(VirtError::NoGuest(_)) => Ok(()),
        other => other,
    }
}
