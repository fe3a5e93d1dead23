//! The part of a rescue.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{has_first_boot, part};
use super::transfers::image_read;
use super::{Part, Place, Rules};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// A request for a rescue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RescueRequest {
    /// The image from which the guest boots.
    pub image_id: Uuid,
    /// The configuration that the guest reads from the image's disk.
    pub config_drive: serde_json::Value,
    /// The guest's password, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

part! {
    /// A rescue.
    Rescue of Box<RescueRequest> {}
}

impl Part for Rescue {
    fn rules(&self) -> Rules {
        Rules {
            first_task_state: Some(TaskState::Rescuing),
            copies_disks: true,
            ..Rules::new("rescue", &[VmState::Active, VmState::Stopped, VmState::Error])
        }
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        Vec::from_iter(image_read(self.source.as_ref(), Some(self.request.image_id)))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_rescue_instance", self.here())]
    }

    has_first_boot!();
}
