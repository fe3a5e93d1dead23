//! The parts of attach and detach of a volume.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{Part, Place, Rules};
use crate::db::cell::CellTxn;
use crate::db::cell::instance_list::InstanceView;
use crate::domain::server::VmState;
use crate::saga::error::StepError;
use crate::saga::tables::volume_attachment::device;
use crate::saga::world::World;

const ALLOWED: &[VmState] = {
    use VmState::{Active, Paused, Resized, Shelved, ShelvedOffloaded, Stopped};
    &[Active, Paused, Stopped, Resized, Shelved, ShelvedOffloaded]
};

/// A volume to attach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttachRequest {
    pub volume_id: Uuid,
    pub device_name: Option<String>,
    pub tag: Option<String>,
    pub delete_on_termination: bool,
}

/// A volume to detach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DetachRequest {
    pub volume_id: Uuid,
}

part! {
    /// An attach.
    Attach of AttachRequest {
        /// The cell of the record of a server without a host.
        #[serde(default)]
        home: Option<String>,
    }
}

#[async_trait]
impl Part for Attach {
    fn rules(&self) -> Rules {
        Rules::new("attach_volume", ALLOWED)
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        // Nova's API service does it for a server without a host.
        vec![(if self.here().is_some() { "compute_attach_volume" } else { "api_attach_volume" }, self.here())]
    }

    fn read_record(&mut self, cell: &str, _: &InstanceView) {
        self.home = Some(cell.to_owned());
    }

    /// Nova's users read an attachment as soon as its request is answered, before the guest has the volume.
    async fn first_writes(&self, world: &World, txn: CellTxn) -> Result<CellTxn, StepError> {
        Ok(txn.save_block_device(device(world, self)))
    }

    fn undone_writes(&self, world: &World, txn: CellTxn) -> CellTxn {
        txn.delete_block_device(device(world, self).uuid)
    }

    /// The server has the volume by another attachment than the operation's own.
    async fn is_attached_anew(&self, world: &World) -> Result<bool, StepError> {
        let volume_id = self.request.volume_id;
        let own = self.derived_id(&format!("attachment:{volume_id}"));
        let attachments = world.volumes.attachments_of(self.server).await?;
        Ok(attachments.iter().any(|attachment| attachment.volume_id == volume_id && attachment.id != own))
    }
}

part! {
    /// A detach.
    Detach of DetachRequest {
        /// The cell of the record of a server without a host.
        #[serde(default)]
        home: Option<String>,
    }
}

impl Part for Detach {
    fn rules(&self) -> Rules {
        Rules::new("detach_volume", ALLOWED)
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        // Nova's API service does it for a server without a host.
        vec![(if self.here().is_some() { "compute_detach_volume" } else { "api_detach_volume" }, self.here())]
    }

    fn read_record(&mut self, cell: &str, _: &InstanceView) {
        self.home = Some(cell.to_owned());
    }
}
