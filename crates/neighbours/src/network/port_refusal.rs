//! The reasons why a network cannot give a server the ports that a request names. They are looked for before the request is accepted; the
//! creation of the ports checks the same again, because others may have taken an address meanwhile.

use uuid::Uuid;

/// The reason why a port gets no security groups, in Nova's words.
pub const GROUPS_NEED_SECURITY: &str = "Network requires port_security_enabled and subnet associated in order to apply security groups.";

/// A reason, in Nova's words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PortRefusal {
    /// The network has no subnet, so its ports have no addresses.
    #[error("Network {network} requires a subnet in order to boot instances on.")]
    NoSubnet {
        network: Uuid,
        /// True if the network applies security groups to its ports, which needs addresses.
        port_security: bool,
    },
    /// No subnet has the address, or no port may have it: it is the network's, the broadcast or the gateway's address.
    #[error("Invalid input received: Fixed IP {address} is not a valid ip address for network {network}.")]
    WrongAddress { network: Uuid, address: String },
    #[error("Fixed IP {address} is already in use.")]
    AddressInUse {
        address: String,
        /// The device of the port that has it; empty if the port has none.
        device: String,
    },
    #[error("No fixed IP addresses available for network: {network}")]
    NoAddressLeft { network: Uuid },
    /// The network's QoS policy guarantees a minimum, which a host is chosen for only if the port exists before.
    #[error("Using networks with QoS policy is not supported: make a port on network {network} first, and name the port.")]
    GuaranteedMinimum { network: Uuid },
}
