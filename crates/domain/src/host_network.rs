//! The network of a host as its agents report it: bridges and physical functions with guaranteed bandwidth, a rate of packets, and virtual
//! functions for guests. The providers lie below the host's own in placement (docs/QOS.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The namespace of the ids of network providers.
const PROVIDERS: Uuid = Uuid::from_u128(0x5d0c_21c4_7d55_4b8f_9d8e_3c1f_6a0b_7e11);
/// The agent of a host's bridges.
pub const BRIDGE_AGENT: &str = "Open vSwitch agent";
/// The agent of a host's physical functions.
pub const FUNCTION_AGENT: &str = "NIC Switch agent";

/// The class of guaranteed bandwidth that leaves a guest.
pub const EGRESS_BANDWIDTH: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
/// The class of guaranteed bandwidth that reaches a guest.
pub const INGRESS_BANDWIDTH: &str = "NET_BW_IGR_KILOBIT_PER_SEC";
/// The class of guaranteed packets in both directions together.
pub const PACKET_RATE: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

/// The vendor and the product of each virtual function, as PCI ids.
pub const FUNCTION_VENDOR: &str = "8086:1515";
/// The VNIC types of ports that get a virtual function.
const FUNCTION_TYPES: [&str; 2] = ["direct", "macvtap"];

/// The maximum length of a name of a network, a bridge or an interface.
const NAME_MAX: usize = 64;
/// The maximum number of virtual functions of a physical one: a PCI device has 256 functions at most.
const FUNCTIONS_MAX: u32 = 255;
/// The maximum number of physical functions of a host, so that each has a PCI bus of its own.
const DEVICES_MAX: usize = 128;

/// The bandwidth that a bridge or a physical function guarantees, in kilobits per second; 0 guarantees none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bandwidth {
    pub egress: u32,
    pub ingress: u32,
}

/// The configuration of a host's network agents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostNetwork {
    /// The thousands of packets per second that the host's switch processes; 0 guarantees none.
    pub packet_rate_kpps: u32,
    /// The number of virtual functions of each physical function.
    pub virtual_functions: u32,
    /// The bridge to each physical network.
    pub bridge_mappings: BTreeMap<String, String>,
    /// The physical functions (SR-IOV) on each physical network.
    pub physical_device_mappings: BTreeMap<String, Vec<String>>,
    /// The guaranteed bandwidth of each bridge and physical function.
    pub bandwidths: BTreeMap<String, Bandwidth>,
}

impl Default for HostNetwork {
    fn default() -> HostNetwork {
        let all = Bandwidth { egress: 10_000_000, ingress: 10_000_000 };
        HostNetwork {
            packet_rate_kpps: 1_000_000,
            virtual_functions: 4,
            bridge_mappings: BTreeMap::from([("physnet0".to_owned(), "br-physnet0".to_owned())]),
            physical_device_mappings: BTreeMap::from([("physnet0".to_owned(), vec!["ens1".to_owned(), "ens2".to_owned()])]),
            bandwidths: ["br-physnet0", "ens1", "ens2"].into_iter().map(|device| (device.to_owned(), all)).collect(),
        }
    }
}

/// A provider below a host's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkProvider {
    pub id: Uuid,
    pub name: String,
    /// The agent's provider; none for an agent, whose parent is the host's own provider.
    pub parent: Option<Uuid>,
    /// Totals by class.
    pub totals: BTreeMap<String, i64>,
    pub traits: Vec<String>,
}

/// A virtual function that a guest's port can have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct VirtualFunction {
    /// The PCI address on the host.
    pub pci_slot: String,
    /// The interface of its physical function.
    pub parent_ifname: String,
    pub physical_network: String,
}

/// A port's wish for a virtual function of its host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionWish {
    pub port: Uuid,
    pub physical_network: String,
    /// The interface of the physical function that placement has charged; none if any physical function will do.
    pub parent_ifname: Option<String>,
}

impl FunctionWish {
    /// True if the function fulfils the wish.
    pub fn is_met_by(&self, function: &VirtualFunction) -> bool {
        let parent = self.parent_ifname.as_ref();
        function.physical_network == self.physical_network && parent.is_none_or(|parent| *parent == function.parent_ifname)
    }
}

impl fmt::Display for FunctionWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parent_ifname {
            Some(parent) => write!(f, "a virtual function of {parent} on physical network {}", self.physical_network),
            None => write!(f, "a virtual function on physical network {}", self.physical_network),
        }
    }
}

/// True if ports of this VNIC type get a virtual function of their host.
pub fn takes_function(vnic_type: &str) -> bool {
    FUNCTION_TYPES.contains(&vnic_type)
}

/// Returns the device in the name of an agent's provider: the last of `host:agent:device`. None if the name has other than three parts.
pub fn device_in(provider_name: &str) -> Option<&str> {
    match provider_name.split(':').collect::<Vec<_>>().as_slice() {
        [_, _, device] if !device.is_empty() => Some(device),
        _ => None,
    }
}

/// A value of a [`HostNetwork`] that is refused: the key below it, and the permitted values.
pub type Misfit = (String, String);

impl HostNetwork {
    /// Returns this network without physical functions.
    #[must_use]
    pub fn without_functions(&self) -> HostNetwork {
        let devices: BTreeSet<&String> = self.physical_device_mappings.values().flatten().collect();
        let bandwidths = self.bandwidths.iter().filter(|(device, _)| !devices.contains(device));
        HostNetwork {
            physical_device_mappings: BTreeMap::new(),
            bandwidths: bandwidths.map(|(device, bandwidth)| (device.clone(), *bandwidth)).collect(),
            ..self.clone()
        }
    }

    /// Returns the first value that is refused.
    pub fn misfit(&self) -> Option<Misfit> {
        let devices = || self.physical_device_mappings.iter().flat_map(|(net, devices)| devices.iter().map(move |device| (net, device)));
        let options =
            [("bridge_mappings", self.bridge_mappings.iter().collect::<Vec<_>>()), ("physical_device_mappings", devices().collect())];
        let mut seen = BTreeSet::new();
        for (key, pairs) in &options {
            for (network, device) in pairs {
                let key = format!("{key}.{network}");
                if !network.chars().any(|c| c.is_ascii_alphanumeric()) || !is_name(network) {
                    return Some((key, "named after a physical network: at most 64 characters without spaces and colons".to_owned()));
                }
                if !is_name(device) {
                    return Some((key, "the name of a bridge or an interface: at most 64 characters without spaces and colons".to_owned()));
                }
                if !seen.insert(device.as_str()) {
                    return Some((key, format!("on another device than {device}, which is on a physical network already")));
                }
            }
        }
        if devices().count() > DEVICES_MAX {
            return Some(("physical_device_mappings".to_owned(), format!("of at most {DEVICES_MAX} interfaces")));
        }
        if self.virtual_functions > FUNCTIONS_MAX {
            return Some(("virtual_functions".to_owned(), format!("at most {FUNCTIONS_MAX}")));
        }
        let most = i32::MAX.unsigned_abs();
        if self.packet_rate_kpps > most {
            return Some(("packet_rate_kpps".to_owned(), format!("at most {most}")));
        }
        for (device, bandwidth) in &self.bandwidths {
            let key = format!("bandwidths.{device}");
            if !seen.contains(device.as_str()) {
                let devices = seen.into_iter().collect::<Vec<_>>().join(", ");
                return Some((key, format!("named after a bridge or an interface of the mappings ({devices})")));
            }
            if bandwidth.egress > most || bandwidth.ingress > most {
                return Some((key, format!("at most {most} kilobits per second each way")));
            }
        }
        None
    }

    /// Returns the providers of a host's agents, each after its parent.
    pub fn providers(&self, host: &str) -> Vec<NetworkProvider> {
        let mut all = Vec::new();
        if !self.bridge_mappings.is_empty() || self.packet_rate_kpps > 0 {
            let rate = (self.packet_rate_kpps > 0).then(|| (PACKET_RATE.to_owned(), self.packet_rate_kpps.into()));
            let agent = NetworkProvider {
                totals: rate.into_iter().collect(),
                traits: vec![vnic_trait("normal")],
                ..provider(format!("{host}:{BRIDGE_AGENT}"), None)
            };
            let bridges = self.bridge_mappings.iter().map(|(network, bridge)| self.device(&agent, network, bridge, &["normal"]));
            all.extend(bridges.collect::<Vec<_>>());
            all.insert(0, agent);
        }
        if self.physical_device_mappings.values().any(|devices| !devices.is_empty()) {
            let agent = provider(format!("{host}:{FUNCTION_AGENT}"), None);
            let devices = self.physical_device_mappings.iter().flat_map(|(network, devices)| devices.iter().map(move |one| (network, one)));
            let devices: Vec<NetworkProvider> =
                devices.map(|(network, device)| self.device(&agent, network, device, &FUNCTION_TYPES)).collect();
            all.push(agent);
            all.extend(devices);
        }
        all
    }

    fn device(&self, agent: &NetworkProvider, network: &str, device: &str, vnic_types: &[&str]) -> NetworkProvider {
        let bandwidth = self.bandwidths.get(device).copied().unwrap_or_default();
        let totals = [(EGRESS_BANDWIDTH, bandwidth.egress), (INGRESS_BANDWIDTH, bandwidth.ingress)];
        let totals = totals.into_iter().filter(|(_, total)| *total > 0).map(|(class, total)| (class.to_owned(), total.into()));
        NetworkProvider {
            totals: totals.collect(),
            traits: [physnet_trait(network)].into_iter().chain(vnic_types.iter().map(|kind| vnic_trait(kind))).collect(),
            ..provider(format!("{}:{device}", agent.name), Some(agent.id))
        }
    }

    /// Returns the virtual functions of a host, by physical function.
    pub fn functions(&self) -> Vec<VirtualFunction> {
        let devices = self.physical_device_mappings.iter().flat_map(|(network, devices)| devices.iter().map(move |one| (network, one)));
        let of_device = |(bus, (network, device)): (usize, (&String, &String))| {
            (1..=self.virtual_functions)
                .map(|number| VirtualFunction {
                    // The physical function is the first of its bus.
                    pci_slot: format!("0000:{:02x}:{:02x}.{}", 0x80 + bus, number / 8, number % 8),
                    parent_ifname: device.clone(),
                    physical_network: network.clone(),
                })
                .collect::<Vec<_>>()
        };
        devices.enumerate().flat_map(of_device).collect()
    }
}

fn is_name(text: &str) -> bool {
    let count = text.chars().count();
    (1..=NAME_MAX).contains(&count) && !text.chars().any(|c| c == ':' || c.is_whitespace() || c.is_control())
}

fn provider(name: String, parent: Option<Uuid>) -> NetworkProvider {
    NetworkProvider { id: provider_id(&name), name, parent, totals: BTreeMap::new(), traits: Vec::new() }
}

/// Returns the id of the network provider with this name, which a restart finds again.
pub fn provider_id(name: &str) -> Uuid {
    Uuid::new_v5(&PROVIDERS, name.as_bytes())
}

/// True if a host's agent has reported the provider.
pub fn is_reported(id: Uuid, name: &str) -> bool {
    provider_id(name) == id
}

/// Returns the trait of providers on this physical network.
pub fn physnet_trait(network: &str) -> String {
    format!("CUSTOM_PHYSNET_{}", spelt(network))
}

/// Returns the trait of providers for ports of this VNIC type.
pub fn vnic_trait(vnic_type: &str) -> String {
    format!("CUSTOM_VNIC_TYPE_{}", spelt(vnic_type))
}

/// Spells a name as traits do: capitals and digits, with an underscore for each run of other characters.
fn spelt(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c.is_ascii_alphanumeric() {
            true => text.push(c.to_ascii_uppercase()),
            false if text.ends_with('_') => {}
            false => text.push('_'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reports_its_agents_and_their_devices_below_them() {
        let network = HostNetwork::default();
        let providers = network.providers("h");
        let names: Vec<&str> = providers.iter().map(|provider| provider.name.as_str()).collect();
        let expected = ["h:Open vSwitch agent", "h:Open vSwitch agent:br-physnet0", "h:NIC Switch agent", "h:NIC Switch agent:ens1"];
        assert_eq!((&names[..4], names[4]), (&expected[..], "h:NIC Switch agent:ens2"));
        let parents: Vec<Option<Uuid>> = providers.iter().map(|provider| provider.parent).collect();
        let (bridges, functions) = (Some(providers[0].id), Some(providers[2].id));
        assert_eq!(parents, [None, bridges, None, functions, functions]);
        assert_eq!(providers[0].totals, BTreeMap::from([(PACKET_RATE.to_owned(), 1_000_000)]));
        assert_eq!(providers[1].totals.values().copied().collect::<Vec<_>>(), [10_000_000, 10_000_000]);
        assert_eq!(providers[1].traits, ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"]);
        assert!(providers[2].totals.is_empty());
        assert_eq!(providers[3].traits, ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_DIRECT", "CUSTOM_VNIC_TYPE_MACVTAP"]);
        assert_eq!(providers, network.providers("h"));
        assert!(providers.iter().all(|provider| is_reported(provider.id, &provider.name)));
        assert_eq!(network.without_functions().providers("h").len(), 2);
        assert_eq!(network.without_functions().misfit(), None);
    }

    #[test]
    fn each_virtual_function_has_an_address_of_its_own() {
        let network = HostNetwork { virtual_functions: 9, ..HostNetwork::default() };
        let functions = network.functions();
        assert_eq!(functions.iter().map(|one| &one.pci_slot).collect::<BTreeSet<_>>().len(), 18);
        assert_eq!((functions[0].pci_slot.as_str(), functions[8].pci_slot.as_str()), ("0000:80:00.1", "0000:80:01.1"));
        assert_eq!((functions[9].pci_slot.as_str(), functions[9].parent_ifname.as_str()), ("0000:81:00.1", "ens2"));
    }

    #[test]
    fn a_wish_is_met_by_the_charged_physical_function_alone() {
        let functions = HostNetwork::default().functions();
        let wish = |parent: Option<&str>, network: &str| FunctionWish {
            port: Uuid::nil(),
            physical_network: network.to_owned(),
            parent_ifname: parent.map(str::to_owned),
        };
        let met = |wish: FunctionWish| functions.iter().filter(|function| wish.is_met_by(function)).count();
        assert_eq!((met(wish(Some("ens2"), "physnet0")), met(wish(None, "physnet0"))), (4, 8));
        assert_eq!((met(wish(Some("ens3"), "physnet0")), met(wish(None, "physnet1"))), (0, 0));
        assert_eq!(device_in("h:NIC Switch agent:ens1"), Some("ens1"));
        for name in ["h", "h:NIC Switch agent", "h:NIC Switch agent:", "h:NIC Switch agent:ens1:2"] {
            assert_eq!(device_in(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_spelt_as_traits_are() {
        assert_eq!(physnet_trait("rack-7  a"), "CUSTOM_PHYSNET_RACK_7_A");
        assert_eq!(vnic_trait("virtio-forwarder"), "CUSTOM_VNIC_TYPE_VIRTIO_FORWARDER");
    }
}
