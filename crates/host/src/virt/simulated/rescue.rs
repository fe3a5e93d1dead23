//! The disk of a rescue. While its file is there, the guest boots from it and writes to it alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cellshift_domain::guest::GuestSpec;
use cellshift_domain::reason;
use uuid::Uuid;

use super::super::files;
use super::super::hypervisor::{RESCUE, ROOT, VirtError};
use super::super::written::Written;
use super::{INCOMING, Simulated, disks};

/// True if the guest's directory has the disk of a rescue.
pub(super) fn is_rescued(dir: &Path) -> bool {
    dir.join(RESCUE).is_file()
}

impl Simulated {
    pub(super) fn add_rescue_disk(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        let server = spec.server;
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.defined {
            return Err(VirtError::NoGuest(server));
        }
        if guest.record.runs() {
            return Err(VirtError::Refused(reason!("the guest of server {server} runs")));
        }
        let (dir, failed) = (self.dir_of(server), || VirtError::io(format!("cannot make the rescue disk of server {server}")));
        let incoming = dir.join(INCOMING);
        let mut contents = arrived.clone();
        disks::write_config(&incoming.join(ROOT), spec, &mut contents)?;
        // Durably before the file is replaced, because the new one has other bytes.
        self.save(&mut guest, |record| drop(record.contents.remove(RESCUE)))?;
        fs::rename(incoming.join(ROOT), dir.join(RESCUE)).map_err(failed())?;
        files::remove_tree(&incoming).map_err(failed())?;
        self.durability.flush_names(&dir).map_err(failed())?;
        let written = contents.remove(ROOT);
        self.save(&mut guest, |record| record.contents.extend(written.map(|written| (RESCUE.to_owned(), written))))?;
        self.forget_memory(server);
        Ok(())
    }

    pub(super) fn drop_rescue_disk(&self, server: Uuid) -> Result<(), VirtError> {
        let Some(guest) = self.find(server) else { return Ok(()) };
        let mut guest = guest.lock();
        let (dir, failed) = (self.dir_of(server), || VirtError::io(format!("cannot remove the rescue disk of server {server}")));
        if is_rescued(&dir) && guest.record.runs() {
            return Err(VirtError::Refused(reason!("the guest of server {server} runs")));
        }
        self.save(&mut guest, |record| drop(record.contents.remove(RESCUE)))?;
        files::remove_file(&dir.join(RESCUE)).map_err(failed())?;
        self.durability.flush_names(&dir).map_err(failed())
    }
}
