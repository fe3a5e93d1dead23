//! Rescue: a guest that is off gets a further disk from an image, and boots from it until that disk is removed.

use std::time::Duration;

use cellshift_domain::guest::{DiskSource, GuestSpec};
use cellshift_domain::host_protocol::HostReply;
use cellshift_domain::reason;
use cellshift_domain::secret::Sealed;
use serde_json::Value;
use uuid::Uuid;

use super::first_boot::unsealed;
use super::host::{CommandError, Host};
use super::lanes::Admission;
use crate::virt::Operation;

type Outcome = Result<HostReply, CommandError>;

impl Host {
    pub(super) async fn rescue_guest(
        &self,
        admission: &Admission,
        operation: Uuid,
        image_id: Uuid,
        (config_drive, sealed): (&Value, &Option<Sealed>),
    ) -> Outcome {
        let server = admission.fence.server;
        let guest = self.defined_guest(server).await?;
        if guest.runs() {
            return Err(CommandError::Refused(reason!("the guest of server {server} runs")));
        }
        // The image is the only disk that the guest reads its configuration from.
        let (config_drive, sealed) = (config_drive.clone(), sealed.clone());
        let request = GuestSpec { disks: DiskSource::Image { image_id }, volumes: Vec::new(), config_drive, sealed, ..guest.spec };
        let (spec, key) = (request.clone(), self.key.clone());
        let owned = self.blocking(move || unsealed(&spec, operation, &key)).await??;
        self.latency(admission, Operation::Define).await?;
        let built = async {
            let arrived = self.fetch_disks(admission, operation, &request).await?;
            self.virt(move |hypervisor| hypervisor.rescue(&owned, &arrived)).await
        };
        if let Err(error) = built.await {
            self.virt(move |hypervisor| hypervisor.discard_incoming(server)).await?;
            return Err(error);
        }
        Ok(HostReply::Done)
    }

    pub(super) async fn unrescue_guest(&self, admission: &Admission, operation: Uuid) -> Outcome {
        let server = admission.fence.server;
        if self.virt(move |hypervisor| hypervisor.is_rescued(server)).await? {
            self.power_off(admission, operation, Duration::ZERO).await?;
        }
        self.virt(move |hypervisor| hypervisor.unrescue(server)).await?;
        Ok(HostReply::Done)
    }
}
