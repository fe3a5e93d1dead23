//! Wrong and impossible wishes for guaranteed bandwidth: a clear answer, and nothing half-written.

use serde_json::{Value, json};

use super::networks::{Minimum, expect, policy, port, settled};
use crate::client::id_of;
use crate::stage::{Stage, play_default};

const POLICIES: &str = "/network/v2.0/qos/policies";
const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 0 };

async fn shown(stage: &Stage, what: &str) -> Value {
    stage.admin.get(&format!("/network/v2.0/{what}")).await.expect(200).body
}

#[test]
fn rules_that_cannot_be_leave_the_policy_as_it_was() {
    play_default(|stage| async move {
        let policy = policy(&stage, Minimum { packets: 3, ..FAST }).await;
        let before = shown(&stage, &format!("qos/policies/{policy}")).await;
        for (kind, rule, status, part) in [
            ("minimum_bandwidth_rule", json!({"min_kbps": 2_147_483_648_i64, "direction": "egress"}), 400, "2147483648"),
            ("minimum_bandwidth_rule", json!({"min_kbps": -1}), 400, "-1"),
            ("minimum_bandwidth_rule", json!({"min_kbps": 5, "direction": "any"}), 400, "any"),
            ("minimum_bandwidth_rule", json!({"min_kbps": 5, "direction": "egress"}), 409, "already exists"),
            ("minimum_packet_rate_rule", json!({"min_kpps": 5, "direction": "egress"}), 409, "any"),
        ] {
            let refused = stage.admin.post(&format!("{POLICIES}/{policy}/{kind}s"), json!({kind: rule})).await.expect(status);
            assert!(refused.text.contains(part), "{kind}: {}", refused.text);
        }
        assert_eq!(shown(&stage, &format!("qos/policies/{policy}")).await, before);
    });
}

#[test]
fn a_policy_in_use_stays() {
    play_default(|stage| async move {
        let policy = policy(&stage, FAST).await;
        let port = port(&stage, json!({"qos_policy_id": policy})).await;
        let path = format!("{POLICIES}/{policy}");
        let refused = stage.admin.delete(&path).await.expect(409);
        assert!(refused.text.contains(&policy) && refused.text.contains("is used by a port"), "{}", refused.text);
        assert_eq!(shown(&stage, &format!("qos/policies/{policy}")).await["policy"]["rules"].as_array().map(Vec::len), Some(2));
        stage.member.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
        stage.admin.delete(&path).await.expect(204);
        stage.admin.get(&path).await.expect(404);
    });
}

#[test]
fn a_port_without_a_physical_network_finds_no_host() {
    play_default(|stage| async move {
        let policy = policy(&stage, FAST).await;
        let network = stage.member.post("/network/v2.0/networks", json!({"network": {"name": "tunnel"}})).await.expect(201).body;
        let network = network["network"]["id"].clone();
        let subnet = json!({"subnet": {"network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4}});
        stage.member.post("/network/v2.0/subnets", subnet).await.expect(201);
        let body = json!({"port": {"network_id": network, "qos_policy_id": policy}});
        let port = stage.member.post("/network/v2.0/ports", body).await.expect(201).body["port"]["id"].clone();
        let answer = stage.server().with("networks", json!([{"port": port}])).ask(&stage.member).await.expect(202);
        let server = id_of(&answer.body["server"]);
        let failed = stage.at_rest(server, "ERROR").await;
        assert!(failed["fault"]["message"].as_str().is_some_and(|why| why.starts_with("No valid host was found.")), "{failed:#}");
        expect(&stage, server, None, &[]).await;
        let left = shown(&stage, &format!("ports/{}", port.as_str().expect("an id"))).await["port"].clone();
        assert_eq!((&left["device_id"], &left["binding:host_id"], &left["binding:profile"]), (&json!(""), &json!(""), &json!({})));
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}

#[test]
fn a_port_is_bound_to_one_server_and_once_to_a_host() {
    play_default(|stage| async move {
        let policy = policy(&stage, FAST).await;
        let port = port(&stage, json!({"qos_policy_id": policy})).await;
        let networks = json!([{"port": port}]);
        let (server, host) = stage.create_on_a_host(stage.server().with("networks", networks.clone())).await;
        let before = shown(&stage, &format!("ports/{port}")).await;
        let again = json!({"binding": {"host": host}});
        stage.admin.post(&format!("/network/v2.0/ports/{port}/bindings"), again).await.expect(409);
        let second = stage.server().with("networks", networks).ask(&stage.member).await;
        assert!([400, 409].contains(&second.status) && second.message().contains("in use"), "{}", second.text);
        assert_eq!(shown(&stage, &format!("ports/{port}")).await, before);
        expect(&stage, server, None, &settled(&host)).await;
    });
}
