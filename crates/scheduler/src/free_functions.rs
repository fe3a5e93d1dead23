//! Free virtual functions (SR-IOV) in the choice of a host. For the time of a choice, the provider of each physical function offers those that
//! no port has, and each port that needs one asks for it. Placement counts none of them: the host's claim decides.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use cellshift_domain::host_network::{EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, VirtualFunction, device_in, physnet_trait};
use cellshift_domain::port_request::{PortRequest, RequestGroup};
use cellshift_neighbours::placement::candidates::{Group, Query};
use cellshift_neighbours::placement::tree::Tree;
use cellshift_neighbours::placement::{Inventory, Provider};

/// The class of a virtual function.
const FUNCTION: &str = "SRIOV_NET_VF";

/// Adds the free virtual functions, which come by the host's provider, to the providers of their physical functions. A provider whose name has
/// no device may offer each function that belongs to no other: its name is complained about when the host is asked.
pub fn offer(trees: &mut [(Provider, Option<Uuid>)], free: &BTreeMap<Uuid, Vec<VirtualFunction>>) {
    let tree = Tree::of(trees.to_vec());
    for (provider, _) in trees {
        let root = tree.root(provider.uuid);
        let Some(functions) = free.get(&root) else { continue };
        let devices: BTreeSet<&str> = tree.below(root).filter_map(|provider| device_in(&provider.name)).collect();
        let is_offered = |function: &&VirtualFunction| match device_in(&provider.name) {
            Some(device) => device == function.parent_ifname,
            None => !devices.contains(function.parent_ifname.as_str()),
        };
        let total = functions.iter().filter(is_offered).count() as i64;
        if total > 0 {
            let stock = Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
            provider.inventories.insert(FUNCTION.to_owned(), stock);
        }
    }
}

/// Returns the request of a port with the virtual function that it needs: from the provider of its bandwidth, or from any physical function on
/// its network.
pub fn with_function(request: &PortRequest) -> PortRequest {
    let mut request = request.clone();
    let Some(network) = &request.function_on else { return request };
    let is_bandwidth = |group: &&mut RequestGroup| [EGRESS_BANDWIDTH, INGRESS_BANDWIDTH].iter().any(|c| group.resources.contains_key(*c));
    match request.groups.iter_mut().find(is_bandwidth) {
        Some(group) => drop(group.resources.insert(FUNCTION.to_owned(), 1)),
        None => request.groups.push(RequestGroup {
            id: Uuid::new_v5(&request.port, FUNCTION.as_bytes()),
            resources: BTreeMap::from([(FUNCTION.to_owned(), 1)]),
            required: BTreeSet::from([physnet_trait(network)]),
        }),
    }
    request
}

/// Returns the query as if no port needed a virtual function.
pub fn without_functions(query: &Query) -> Query {
    let without = |(suffix, group): (&String, &Group)| {
        let mut group = group.clone();
        group.resources.remove(FUNCTION);
        (!group.resources.is_empty()).then(|| (suffix.clone(), group))
    };
    Query { groups: query.groups.iter().filter_map(without).collect(), ..query.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port_providers::PortProviders;
    use cellshift_domain::host_network::{HostNetwork, vnic_trait};
    use cellshift_domain::port_request::RequestForm;
    use cellshift_domain::reason;
    use cellshift_domain::reason::Reason;

    const HOST: Uuid = Uuid::from_u128(1);

    fn trees() -> Vec<(Provider, Option<Uuid>)> {
        let provider = |uuid, name: &str, bandwidth: i64, traits: Vec<String>| {
            let inventory =
                Inventory { total: bandwidth, reserved: 0, min_unit: 1, max_unit: bandwidth, step_size: 1, allocation_ratio: 1.0 };
            let inventories = BTreeMap::from([(EGRESS_BANDWIDTH.to_owned(), inventory)]);
            let (usages, aggregates) = (BTreeMap::new(), Vec::new());
            Provider { uuid: Uuid::from_u128(uuid), name: name.to_owned(), generation: 0, inventories, usages, traits, aggregates }
        };
        let direct = || vec![physnet_trait("physnet0"), vnic_trait("direct")];
        vec![
            (provider(1, "h", 0, Vec::new()), None),
            (provider(2, "h:NIC Switch agent:ens1", 1000, direct()), Some(HOST)),
            (provider(3, "h:NIC Switch agent:ens2", 1000, direct()), Some(HOST)),
        ]
    }

    /// A direct port, with or without guaranteed bandwidth.
    fn port(id: u128, bandwidth: bool) -> PortRequest {
        let (port, id) = (Uuid::from_u128(id), Uuid::from_u128(id + 100));
        let group = RequestGroup { id, resources: BTreeMap::from([(EGRESS_BANDWIDTH.to_owned(), 10)]), required: BTreeSet::new() };
        let groups = if bandwidth { vec![group] } else { Vec::new() };
        PortRequest { groups, form: RequestForm::Groups, function_on: Some("physnet0".to_owned()), ..PortRequest::of_nothing(port) }
    }

    /// The providers of these ports' bandwidth if the host has these free functions; or why there are none.
    fn chosen(free: &[&str], ports: &[PortRequest], renamed: Option<&str>) -> Result<Vec<u128>, Reason> {
        let functions = HostNetwork::default().functions();
        let mut left: Vec<VirtualFunction> = Vec::new();
        for device in free {
            let next = functions.iter().find(|function| function.parent_ifname == *device && !left.contains(function));
            left.push(next.expect("a function").clone());
        }
        let mut trees = trees();
        if let Some(name) = renamed {
            trees[2].0.name = name.to_owned();
        }
        let providers = PortProviders::with_functions(trees, &BTreeMap::from([(HOST, left)]), ports, false);
        providers.grants(HOST).map(|grants| {
            assert!(grants.iter().all(|grant| !grant.resources.contains_key(FUNCTION)), "placement is not asked for functions");
            grants.iter().map(|grant| grant.provider.as_u128()).collect()
        })
    }

    #[test]
    fn bandwidth_comes_from_a_device_with_a_free_function() {
        assert_eq!(chosen(&["ens1", "ens2"], &[port(10, true)], None), Ok(vec![2]));
        assert_eq!(chosen(&["ens2"], &[port(10, true)], None), Ok(vec![3]));
        assert_eq!(chosen(&["ens1", "ens2"], &[port(10, true), port(11, true)], None), Ok(vec![2, 3]));
        let none = Reason::public("no virtual function is free for each port that needs one");
        assert_eq!(chosen(&[], &[port(10, true)], None).unwrap_err(), none);
        assert_eq!(chosen(&["ens2"], &[port(10, true), port(11, true)], None).unwrap_err(), none);
    }

    #[test]
    fn a_port_without_bandwidth_needs_a_free_function_too() {
        assert_eq!(chosen(&["ens2"], &[port(10, false)], None), Ok(Vec::new()));
        assert_eq!(chosen(&["ens1", "ens2"], &[port(10, false), port(11, true)], None), Ok(vec![2]));
        assert!(chosen(&["ens1"], &[port(10, false), port(11, true)], None).is_err());
        assert!(chosen(&[], &[port(10, false)], None).is_err());
    }

    #[test]
    fn a_provider_with_a_bad_name_is_left_to_the_claim() {
        assert_eq!(chosen(&["ens2"], &[port(10, true)], Some("card-2")), Ok(vec![3]));
    }

    #[test]
    fn too_little_bandwidth_is_the_reason() {
        let mut greedy = port(10, true);
        greedy.groups[0].resources.insert(EGRESS_BANDWIDTH.to_owned(), 1001);
        assert_eq!(chosen(&["ens1"], &[greedy], None).unwrap_err(), reason!("no provider of its network gives {EGRESS_BANDWIDTH} 1001"));
    }
}
