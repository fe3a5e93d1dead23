//! The parts of `addFixedIp` and `removeFixedIp`: an address of a port is added or removed.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{HostNeed, Part, Place, Rules};
use crate::domain::server::VmState;
use crate::services::network::FixedIp;

/// An address that a port of the server gets or gives up. A new one is chosen before the operation begins, so that a retry takes no
/// second one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortAddress {
    pub port_id: Uuid,
    pub fixed: FixedIp,
}

part! {
    /// The operation that adds an address.
    AddFixedIp of AddedAddress {}
}

part! {
    /// The operation that removes an address.
    RemoveFixedIp of RemovedAddress {}
}

/// The address of [`AddFixedIp`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AddedAddress(pub PortAddress);

/// The address of [`RemoveFixedIp`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemovedAddress(pub PortAddress);

/// The states of a server whose addresses change: those of every server that was made.
const ALLOWED: &[VmState] = &[
    VmState::Active,
    VmState::Paused,
    VmState::Suspended,
    VmState::Stopped,
    VmState::Rescued,
    VmState::Resized,
    VmState::Shelved,
    VmState::ShelvedOffloaded,
    VmState::SoftDeleted,
    VmState::Error,
];

macro_rules! changes_addresses {
    ($part:ident, $action:literal, $event:literal) => {
        impl Part for $part {
            fn rules(&self) -> Rules {
                Rules { needs_launch: false, ..Rules::new($action, ALLOWED) }
            }

            fn here(&self) -> Option<&Place> {
                self.target_or_source()
            }

            fn host_need(&self) -> HostNeed {
                HostNeed::Nothing
            }

            moves_no_bytes!();

            fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
                vec![($event, self.here())]
            }
        }
    };
}

changes_addresses!(AddFixedIp, "add_fixed_ip", "compute_add_fixed_ip_to_instance");
changes_addresses!(RemoveFixedIp, "remove_fixed_ip", "compute_remove_fixed_ip_from_instance");
