//! Tests of the rules of QoS policies, and of the forms in which ports show what they ask for.

use cellshift_embedded::MIGRATIONS;
use cellshift_embedded::ServiceError;
use cellshift_embedded::network::limits::{Limits, RequestFormat};
use cellshift_embedded::network::records::QosRuleKind;
use cellshift_embedded::network::{EmbeddedNetwork, NetworkService, NewPort};
use cellshift_embedded::transaction::Transactions;
use cellshift_env::Env;
use cellshift_store::Db;
use cellshift_store::fixture::{fresh_postgres, run_up};
use serde_json::json;
use uuid::Uuid;

use crate::network::ports::{admin, attributes, fence, inline, network_with, new_port};

const BANDWIDTH: QosRuleKind = QosRuleKind::MinimumBandwidth;
const PACKETS: QosRuleKind = QosRuleKind::MinimumPacketRate;

async fn policy(network: &EmbeddedNetwork) -> Uuid {
    network.create_qos_policy(admin(), attributes(json!({"name": "gold", "shared": true}))).await.unwrap().id
}

async fn rule(network: &EmbeddedNetwork, policy: Uuid, kind: QosRuleKind, body: serde_json::Value) -> Result<Uuid, ServiceError> {
    network.create_qos_rule(admin(), policy, kind, attributes(body)).await.map(|rule| rule.id)
}

#[tokio::test]
async fn packet_rates_are_egress_by_default_and_are_not_mixed() {
    let network = inline();
    let policy = policy(&network).await;
    let first = rule(&network, policy, PACKETS, json!({"min_kpps": 7})).await.unwrap();
    assert_eq!(network.qos_policy(admin(), policy).await.unwrap().rules[0].direction, "egress");
    let mixed = rule(&network, policy, PACKETS, json!({"min_kpps": 7, "direction": "any"})).await;
    assert!(
        matches!(&mixed, Err(ServiceError::Conflict(why)) if why.for_users().contains("any") && why.for_users().contains("egress")),
        "{mixed:?}"
    );
    let second = rule(&network, policy, PACKETS, json!({"min_kpps": 3, "direction": "ingress"})).await.unwrap();
    for direction in ["any", "egress"] {
        let changed = network.update_qos_rule(admin(), policy, second, attributes(json!({"direction": direction}))).await;
        assert!(matches!(changed, Err(ServiceError::Conflict(_))), "{changed:?}");
    }
    network.delete_qos_rule(admin(), policy, second).await.unwrap();
    network.update_qos_rule(admin(), policy, first, attributes(json!({"direction": "any"}))).await.unwrap();
    assert_eq!(network.qos_policy(admin(), policy).await.unwrap().rules[0].direction, "any");
}

#[tokio::test]
async fn an_amount_out_of_range_or_above_the_limit_is_refused() {
    let network = inline();
    let policy = policy(&network).await;
    for amount in [json!(2_147_483_648_i64), json!(-1), json!("many"), json!(null)] {
        for (kind, name) in [(BANDWIDTH, "min_kbps"), (PACKETS, "min_kpps")] {
            let refused = rule(&network, policy, kind, json!({name: amount})).await;
            assert!(matches!(refused, Err(ServiceError::Invalid(_))), "{refused:?}");
        }
    }
    rule(&network, policy, QosRuleKind::BandwidthLimit, json!({"max_kbps": 100})).await.unwrap();
    let above = rule(&network, policy, BANDWIDTH, json!({"min_kbps": 101})).await;
    assert!(matches!(&above, Err(ServiceError::Conflict(why)) if why.for_users().contains("101")), "{above:?}");
    rule(&network, policy, BANDWIDTH, json!({"min_kbps": 2_147_483_647, "direction": "ingress"})).await.unwrap();
    assert_eq!(network.qos_policy(admin(), policy).await.unwrap().rules.len(), 2);
}

#[tokio::test]
async fn a_minimum_does_not_change_while_a_server_has_a_port_with_it() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let (own, of_network) = (policy(&network).await, policy(&network).await);
    let (first, second) = (rule(&network, own, BANDWIDTH, json!({"min_kbps": 5})).await.unwrap(), of_network);
    let port = attributes(json!({"network_id": on, "qos_policy_id": own}));
    let port = network.add_port(admin(), port).await.unwrap().port.id;
    network.update_qos_rule(admin(), own, first, attributes(json!({"min_kbps": 6}))).await.unwrap();
    let server = network.new_id();
    network.claim_port(fence(server, 1), port).await.unwrap();
    let refused = |outcome: Result<(), ServiceError>| {
        assert!(
            matches!(&outcome, Err(ServiceError::NotImplemented(why)) if why.to_string().contains("tracked in Placement")),
            "{outcome:?}"
        );
    };
    refused(network.update_qos_rule(admin(), own, first, attributes(json!({"min_kbps": 7}))).await.map(drop));
    refused(network.delete_qos_rule(admin(), own, first).await);
    refused(rule(&network, own, PACKETS, json!({"min_kpps": 1})).await.map(drop));
    let limit = rule(&network, own, QosRuleKind::BandwidthLimit, json!({"max_kbps": 100})).await.unwrap();
    network.delete_qos_rule(admin(), own, limit).await.unwrap();
    // The network's policy applies to ports without their own.
    network.update_network(admin(), on, attributes(json!({"qos_policy_id": second}))).await.unwrap();
    rule(&network, second, BANDWIDTH, json!({"min_kbps": 5})).await.unwrap();
    let plain: NewPort = new_port(&network, on);
    network.create_port(fence(server, 2), plain).await.unwrap();
    refused(rule(&network, second, PACKETS, json!({"min_kpps": 1})).await.map(drop));
    network.release_port(fence(server, 3), port).await.unwrap();
    network.delete_qos_rule(admin(), own, first).await.unwrap();
}

#[tokio::test]
async fn the_old_form_has_bandwidth_alone() {
    let limits = Limits { resource_request_format: RequestFormat::Port, ..Limits::default() };
    let network = inline().with_limits(limits);
    let on = attributes(json!({"provider:physical_network": "physnet0"}));
    let on = network.create_network(admin(), on).await.unwrap().id;
    let policy = policy(&network).await;
    rule(&network, policy, PACKETS, json!({"min_kpps": 7})).await.unwrap();
    let fields = attributes(json!({"network_id": on, "qos_policy_id": policy}));
    let port = network.add_port(admin(), fields).await.unwrap().port;
    assert_eq!(port.resource_request, None);
    rule(&network, policy, BANDWIDTH, json!({"min_kbps": 9})).await.unwrap();
    let expected = json!({
        "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 9},
        "required": ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"],
    });
    assert_eq!(network.port(port.id).await.unwrap().resource_request, Some(expected.clone()));
    assert_eq!(network.port_record(admin(), port.id).await.unwrap().port.resource_request, Some(expected));
}

#[tokio::test]
async fn a_port_of_no_physical_network_asks_for_a_tunnel() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let policy = policy(&network).await;
    rule(&network, policy, BANDWIDTH, json!({"min_kbps": 9})).await.unwrap();
    let port = network.add_port(admin(), attributes(json!({"network_id": on, "qos_policy_id": policy}))).await.unwrap().port;
    let required = port.resource_request.unwrap()["request_groups"][0]["required"].clone();
    assert_eq!(required, json!(["CUSTOM_NETWORK_TUNNEL_PROVIDER", "CUSTOM_VNIC_TYPE_NORMAL"]));
}

#[tokio::test]
async fn a_mark_is_one_that_is_defined_and_has_no_direction() {
    let network = inline();
    let policy = policy(&network).await;
    for wrong in [json!({"dscp_mark": 1}), json!({"dscp_mark": 64}), json!({}), json!({"dscp_mark": 8, "direction": "egress"})] {
        let refused = rule(&network, policy, QosRuleKind::DscpMarking, wrong).await;
        assert!(matches!(refused, Err(ServiceError::Invalid(_))), "{refused:?}");
    }
    let made = rule(&network, policy, QosRuleKind::DscpMarking, json!({"dscp_mark": 26})).await.unwrap();
    let second = rule(&network, policy, QosRuleKind::DscpMarking, json!({"dscp_mark": 0})).await;
    assert!(matches!(second, Err(ServiceError::Conflict(_))), "{second:?}");
    network.update_qos_rule(admin(), policy, made, attributes(json!({"dscp_mark": 46}))).await.unwrap();
    assert_eq!(network.qos_policy(admin(), policy).await.unwrap().rules[0].amount, 46);
}

#[tokio::test]
async fn a_project_has_one_default_policy_for_its_new_networks() {
    let network = inline();
    let make = |default: bool| network.create_qos_policy(admin(), attributes(json!({"is_default": default})));
    let (first, second) = (make(true).await.unwrap().id, make(false).await.unwrap().id);
    let refused = |outcome: Result<_, ServiceError>| {
        assert!(
            matches!(&outcome, Err(ServiceError::Conflict(why)) if why.for_users().contains("default QoS policy exists")),
            "{outcome:?}"
        );
    };
    refused(make(true).await.map(drop));
    let change = |id, default: bool| network.update_qos_policy(admin(), id, attributes(json!({"is_default": default})));
    refused(change(second, true).await.map(drop));
    change(first, true).await.unwrap();
    let of = async |fields| network.create_network(admin(), attributes(fields)).await.unwrap().qos_policy_id;
    assert_eq!((of(json!({})).await, of(json!({"qos_policy_id": second})).await), (Some(first), Some(second)));
    change(first, false).await.unwrap();
    assert_eq!(of(json!({})).await, None);
    change(second, true).await.unwrap();
}

#[tokio::test]
async fn an_older_sample_network_gets_its_physical_network() {
    let on_postgres = fresh_postgres().map(|url| EmbeddedNetwork::new(Db::open("services", &url, MIGRATIONS, &Env::system()).unwrap()));
    for network in std::iter::once(inline()).chain(on_postgres) {
        let make = async |name: &str, subnet: &str| {
            let made = network.create_network(admin(), attributes(json!({"name": name, "shared": true}))).await.unwrap().id;
            let subnet = json!({"network_id": made, "name": subnet, "cidr": "10.1.0.0/20"});
            network.create_subnet(admin(), attributes(subnet)).await.unwrap();
            made
        };
        let (sample, own) = (make("private", "private-subnet").await, make("private", "mine").await);
        network.database().write(|conn| run_up(conn, MIGRATIONS, "2026-11-25-000022_sample_network")).await.unwrap();
        let physical = async |id| network.network_record(admin(), id).await.unwrap().physical_network;
        assert_eq!((physical(sample).await.as_deref(), physical(own).await), (Some("physnet0"), None));
    }
}
