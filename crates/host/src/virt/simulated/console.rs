//! The guest's console: the records on its disk are what it has written there, and it records each line that it reads.

use uuid::Uuid;

use super::super::hypervisor::VirtError;
use super::{Simulated, disks, does_not_run};

impl Simulated {
    pub(super) fn written_lines(&self, server: Uuid) -> Result<String, VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let spec = guest.lock().record.spec.clone();
        disks::records(&self.dir_of(server), &spec).map_err(VirtError::io(format!("cannot read the root disk of server {server}")))
    }

    /// The guest reads a line. What is no printable ASCII could pass for another record, and is left out.
    pub(super) fn reads(&self, server: Uuid, line: &str) -> Result<(), VirtError> {
        let guest = self.find(server).ok_or(VirtError::NoGuest(server))?;
        let mut guest = guest.lock();
        if !guest.record.runs() {
            return Err(does_not_run(server));
        }
        let printable: String = line.chars().filter(|character| matches!(character, ' '..='~')).collect();
        self.write_record(&mut guest, &format!("reads {printable}"));
        Ok(())
    }
}
