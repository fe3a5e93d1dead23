//! The trials that a host makes with itself and its guests, if its options allow them.

use cellshift_domain::host_trial::{DiskPlace, HostTrial, TrialOutcome};

use super::host::{CommandError, Host};
use crate::virt::StopCause;

impl Host {
    /// Makes a trial. [`HostTrial::Crash`] panics, which ends the actor that carries this host.
    pub(super) async fn make_trial(&self, trial: HostTrial) -> Result<TrialOutcome, CommandError> {
        match trial {
            HostTrial::GuestWrite { server, bytes } => self.virt(move |hypervisor| hypervisor.guest_write(server, &bytes)).await?,
            HostTrial::MemoryWrite { server, bytes } => self.virt(move |hypervisor| hypervisor.memory_write(server, &bytes)).await?,
            HostTrial::Memory { server } => return Ok(TrialOutcome::Memory(self.virt(move |hypervisor| hypervisor.memory(server)).await?)),
            HostTrial::Disks { server } => {
                let disks = self.virt(move |hypervisor| hypervisor.disks(server)).await?;
                let places = disks.into_iter().map(|disk| DiskPlace { name: disk.name, path: disk.path });
                return Ok(TrialOutcome::Disks(places.collect()));
            }
            HostTrial::LoseGuest { server } => {
                let lose = self.virt(move |hypervisor| {
                    hypervisor.stop(server, StopCause::HostDown, false)?;
                    hypervisor.undefine(server)
                });
                lose.await?;
            }
            HostTrial::ResumeGuests => self.resume().await,
            HostTrial::Crash => panic!("a trial crashes host {}", self.host()),
        }
        Ok(TrialOutcome::Done)
    }
}
