//! The parts of attach and detach of a network interface.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{HealPlan, Part, Place, RequestedNetwork, Rules};
use crate::domain::network_info::Vif;
use crate::domain::server::VmState;
use crate::saga::debt::has_interface;
use crate::saga::error::StepError;
use crate::saga::world::World;

/// The states in which a server's interfaces come and go.
pub const ALLOWED: &[VmState] = &[VmState::Active, VmState::Paused, VmState::Stopped];

part! {
    /// An attach.
    AttachInterface of RequestedNetwork {
        /// The interface as the record is to have it; none before the server has the port.
        #[serde(default)]
        vif: Option<Vif>,
        /// The resources that the port gets of the host's network; none before they are chosen.
        #[serde(default)]
        plan: Option<HealPlan>,
    }
}

#[async_trait]
impl Part for AttachInterface {
    fn rules(&self) -> Rules {
        Rules {
            // The port's resources are added to what the server holds.
            waits_for_moves_debts: true,
            ..Rules::new("attach_interface", ALLOWED)
        }
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_attach_interface", self.here())]
    }

    /// The server has the port by a later attach, because this one failed.
    async fn is_attached_anew(&self, world: &World) -> Result<bool, StepError> {
        has_interface(world, self, self.request.port_id).await
    }
}

/// An interface to detach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DetachInterfaceRequest {
    pub port_id: Uuid,
}

part! {
    /// A detach.
    DetachInterface of DetachInterfaceRequest {
        /// The amounts that the server holds with and without the port; none before they are known.
        #[serde(default)]
        plan: Option<HealPlan>,
    }
}

impl Part for DetachInterface {
    fn rules(&self) -> Rules {
        Rules {
            // The port's resources are taken from what the server holds.
            waits_for_moves_debts: true,
            ..Rules::new("detach_interface", ALLOWED)
        }
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_detach_interface", self.here())]
    }
}
