//! The part of a rebuild.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{has_first_boot, part};
use super::transfers::image_read;
use super::{Part, Place, Rules};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// The changes of a rebuild.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RebuildRequest {
    pub image_id: Uuid,
    /// The demands of the image on hosts.
    #[serde(default)]
    pub image_properties: BTreeMap<String, String>,
    /// True if the root disk is a volume and the image fills it anew.
    #[serde(default)]
    pub reimages_root_volume: bool,
    pub name: Option<String>,
    pub description: Option<Option<String>>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub key_name: Option<Option<String>>,
    /// The configuration that the guest reads at its next first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends; its user data if the request brings new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

part! {
    /// A rebuild.
    Rebuild of Box<RebuildRequest> {}
}

impl Part for Rebuild {
    fn rules(&self) -> Rules {
        Rules {
            needs_launch: false,
            first_task_state: Some(TaskState::Rebuilding),
            refuses_waiting_move: true,
            copies_disks: true,
            ..Rules::new("rebuild", &[VmState::Active, VmState::Stopped, VmState::Error])
        }
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        let image = (!self.volume_backed).then_some(self.request.image_id);
        Vec::from_iter(image_read(self.source.as_ref(), image))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("rebuild_server", None), ("compute_rebuild_instance", self.here())]
    }

    has_first_boot!();
}
