//! The parts of attach and detach of a network interface.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{HealPlan, Part, Place, RequestedNetwork, Rules, ServerFacts, as_request};
use crate::domain::network_info::Vif;
use crate::domain::server::VmState;
use crate::saga::debt::has_interface;
use crate::saga::error::StepError;
use crate::saga::world::World;

/// The states in which a server's interfaces come and go.
pub const ALLOWED: &[VmState] = &[VmState::Active, VmState::Paused, VmState::Stopped];

/// An attach.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttachInterface {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: RequestedNetwork,
    /// The interface as the record is to have it; none before the server has the port.
    #[serde(default)]
    pub vif: Option<Vif>,
    /// The resources that the port gets of the host's network; none before they are chosen.
    #[serde(default)]
    pub plan: Option<HealPlan>,
}

part!(AttachInterface of RequestedNetwork, vif: None, plan: None);

#[async_trait]
impl Part for AttachInterface {
    fn rules(&self) -> Rules {
        Rules {
            // The port's resources are added to what the server holds.
            waits_for_moves_debts: true,
            ..Rules::new("attach_interface", ALLOWED)
        }
    }

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

/// A detach.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DetachInterface {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: DetachInterfaceRequest,
    /// The amounts that the server holds with and without the port; none before they are known.
    #[serde(default)]
    pub plan: Option<HealPlan>,
}

part!(DetachInterface of DetachInterfaceRequest, plan: None);

impl Part for DetachInterface {
    fn rules(&self) -> Rules {
        Rules {
            // The port's resources are taken from what the server holds.
            waits_for_moves_debts: true,
            ..Rules::new("detach_interface", ALLOWED)
        }
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_detach_interface", self.here())]
    }
}
