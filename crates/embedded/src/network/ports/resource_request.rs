//! The resources that a port's QoS policy asks of the host's network, in the forms of Neutron's two extensions.

use std::collections::BTreeMap;

use cellshift_domain::host_network::{EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, PACKET_RATE, physnet_trait, vnic_trait};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::network::records::{QosRule, QosRuleKind};

/// The trait of providers of networks between hosts, which have no physical network. No host of this control plane has it.
const TUNNEL: &str = "CUSTOM_NETWORK_TUNNEL_PROVIDER";

/// Returns the resource request of a port with these rules: one group for bandwidth and one for packet rates, each with an id derived from
/// the port and the rules. None if no rule guarantees a minimum.
pub(in crate::network) fn in_groups(port: Uuid, vnic_type: &str, physical_network: Option<&str>, rules: &[QosRule]) -> Option<Value> {
    let vnic = vnic_trait(vnic_type);
    let mut groups = Vec::new();
    for kind in [QosRuleKind::MinimumBandwidth, QosRuleKind::MinimumPacketRate] {
        let of_kind: Vec<&QosRule> = rules.iter().filter(|rule| rule.kind == kind && rule.amount > 0).collect();
        if of_kind.is_empty() {
            continue;
        }
        let names: Vec<String> = of_kind.iter().map(|rule| rule.id.to_string()).collect();
        let resources: BTreeMap<&str, i64> = of_kind.iter().map(|rule| (resource_class(kind, &rule.direction), rule.amount)).collect();
        let network = (kind == QosRuleKind::MinimumBandwidth).then(|| physical_network.map_or(TUNNEL.to_owned(), physnet_trait));
        let required: Vec<String> = network.into_iter().chain([vnic.clone()]).collect();
        groups.push(json!({"id": Uuid::new_v5(&port, names.join(":").as_bytes()), "resources": resources, "required": required}));
    }
    if groups.is_empty() {
        return None;
    }
    let same_subtree: Vec<Value> = groups.iter().map(|group| group["id"].clone()).collect();
    Some(json!({"request_groups": groups, "same_subtree": same_subtree}))
}

/// Returns a request of groups in the older form, which knows bandwidth alone. None if no bandwidth is asked for.
pub(in crate::network) fn in_old_form(request: &Value) -> Option<Value> {
    let asks_for_bandwidth =
        |group: &&Value| [EGRESS_BANDWIDTH, INGRESS_BANDWIDTH].iter().any(|class| group["resources"].get(class).is_some());
    let group = request["request_groups"].as_array()?.iter().find(asks_for_bandwidth)?;
    Some(json!({"resources": group["resources"], "required": group["required"]}))
}

fn resource_class(kind: QosRuleKind, direction: &str) -> &'static str {
    match (kind, direction) {
        (QosRuleKind::MinimumPacketRate, "egress") => "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        (QosRuleKind::MinimumPacketRate, "ingress") => "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
        (QosRuleKind::MinimumPacketRate, _) => PACKET_RATE,
        (_, "ingress") => INGRESS_BANDWIDTH,
        _ => EGRESS_BANDWIDTH,
    }
}
