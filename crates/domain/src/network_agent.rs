//! The network agents of hosts, as the network API shows them: an agent of bridges and one of physical functions, with the configuration that
//! placement's providers follow.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::host_network::{BRIDGE_AGENT, FUNCTION_AGENT, HostNetwork, provider_id};

/// The networks of all hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostNetworks {
    /// The network of a host without one of its own.
    pub usual: HostNetwork,
    /// The networks of single hosts, by the host's name.
    pub own: BTreeMap<String, HostNetwork>,
    /// The number of hosts of each cell, from the first, that have the usual network's physical functions.
    pub hosts_with_functions: u32,
}

impl HostNetworks {
    /// Returns the network of a host.
    pub fn of(&self, host: &str) -> HostNetwork {
        let number = host.rsplit_once("-host").and_then(|(_, number)| number.parse::<u32>().ok());
        match self.own.get(host) {
            Some(own) => own.clone(),
            None if number.is_some_and(|number| number <= self.hosts_with_functions) => self.usual.clone(),
            None => self.usual.without_functions(),
        }
    }
}

/// An agent of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkAgent {
    pub id: Uuid,
    pub agent_type: &'static str,
    pub binary: &'static str,
    pub configurations: Value,
}

/// Returns the agents of a host.
pub fn agents(host: &str, network: &HostNetwork) -> Vec<NetworkAgent> {
    let mut agents = Vec::new();
    if !network.bridge_mappings.is_empty() || network.packet_rate_kpps > 0 {
        let rates = if network.packet_rate_kpps > 0 { json!({"": network.packet_rate_kpps}) } else { json!({}) };
        let own = json!({
            "bridge_mappings": network.bridge_mappings,
            "integration_bridge": "br-int",
            "tunnel_types": [],
            "resource_provider_packet_processing_without_direction": rates,
            "resource_provider_packet_processing_with_direction": {},
            "resource_provider_packet_processing_inventory_defaults": inventory_defaults(),
        });
        let devices: Vec<&String> = network.bridge_mappings.values().collect();
        agents.push(agent(host, network, (BRIDGE_AGENT, "neutron-openvswitch-agent"), &devices, own));
    }
    let devices: Vec<&String> = network.physical_device_mappings.values().flatten().collect();
    if !devices.is_empty() {
        let own = json!({"device_mappings": network.physical_device_mappings, "exclude_devices": {}});
        agents.push(agent(host, network, (FUNCTION_AGENT, "neutron-sriov-nic-agent"), &devices, own));
    }
    agents
}

fn agent(host: &str, network: &HostNetwork, (kind, binary): (&'static str, &'static str), devices: &[&String], own: Value) -> NetworkAgent {
    let by_device = |value: &dyn Fn(&str) -> Option<Value>| -> Map<String, Value> {
        devices.iter().filter_map(|device| Some(((*device).clone(), value(device)?))).collect()
    };
    let bandwidths = by_device(&|device| {
        let bandwidth = network.bandwidths.get(device)?;
        Some(json!({"egress": bandwidth.egress, "ingress": bandwidth.ingress}))
    });
    let mut configurations = json!({
        "extensions": ["qos"],
        "resource_provider_bandwidths": bandwidths,
        "resource_provider_hypervisors": by_device(&|_| Some(json!(host))),
        "resource_provider_inventory_defaults": inventory_defaults(),
    });
    if let (Some(all), Value::Object(own)) = (configurations.as_object_mut(), own) {
        all.extend(own);
    }
    let id = Uuid::new_v5(&provider_id(&format!("{host}:{kind}")), b"agent");
    NetworkAgent { id, agent_type: kind, binary, configurations }
}

fn inventory_defaults() -> Value {
    json!({"allocation_ratio": 1.0, "min_unit": 1, "step_size": 1, "reserved": 0})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_shows_what_its_providers_offer() {
        let list = agents("h", &HostNetwork::default());
        assert_eq!(list.iter().map(|agent| agent.binary).collect::<Vec<_>>(), ["neutron-openvswitch-agent", "neutron-sriov-nic-agent"]);
        let (bridges, functions) = (&list[0].configurations, &list[1].configurations);
        assert_eq!(bridges["bridge_mappings"], json!({"physnet0": "br-physnet0"}));
        assert_eq!(bridges["resource_provider_bandwidths"], json!({"br-physnet0": {"egress": 10_000_000, "ingress": 10_000_000}}));
        assert_eq!(bridges["resource_provider_packet_processing_without_direction"], json!({"": 1_000_000}));
        assert_eq!(functions["device_mappings"], json!({"physnet0": ["ens1", "ens2"]}));
        assert_eq!(functions["resource_provider_hypervisors"], json!({"ens1": "h", "ens2": "h"}));
        assert_ne!(list[0].id, agents("other", &HostNetwork::default())[0].id);
        assert_eq!(agents("h", &HostNetwork::default().without_functions()).len(), 1);
    }

    #[test]
    fn only_the_first_hosts_of_a_cell_have_functions() {
        let own = BTreeMap::from([("cell1-host3".to_owned(), HostNetwork::default())]);
        let networks = HostNetworks { usual: HostNetwork::default(), own, hosts_with_functions: 1 };
        let has = |host: &str| agents(host, &networks.of(host)).len() == 2;
        assert_eq!(["cell1-host1", "cell1-host2", "cell1-host3", "elsewhere"].map(has), [true, false, true, false]);
    }
}
