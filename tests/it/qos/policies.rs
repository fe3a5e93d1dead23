//! Ports whose policies are replaced while servers have them: placement follows at once, or nothing changes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, ledger, policy, ports, server_with, settled};
use crate::stage::{Stage, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 0 };
const FASTER: Minimum = Minimum { egress: 3000, ingress: 1000, packets: 5 };

async fn server(stage: &Stage) -> (Uuid, String) {
    server_with(stage, FAST).await
}

/// Gives the server's port another policy, or none.
async fn set_policy(stage: &Stage, server: Uuid, policy: Value) {
    let port = ports(stage, server).await[0].id;
    stage.member.put(&format!("/network/v2.0/ports/{port}"), json!({"port": {"qos_policy_id": policy}})).await.expect(200);
}

#[test]
fn a_policy_that_is_gone_leaves_nothing_after_a_move() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        set_policy(&stage, server, Value::Null).await;
        assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {source}: nothing")]);
        stage.cross(server).await;
        stage.confirm(server).await;
        let target = stage.host_of(server).await;
        assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {target}: nothing")]);
    });
}

#[test]
fn a_larger_policy_is_charged_at_once_and_by_the_next_move() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let faster = policy(&stage, FASTER).await;
        set_policy(&stage, server, json!(faster)).await;
        expect(&stage, server, None, &settled(&source)).await;
        stage.cross(server).await;
        stage.confirm(server).await;
        expect(&stage, server, None, &settled(&stage.host_of(server).await)).await;
    });
}

#[test]
fn a_revert_after_a_larger_policy_can_be_healed() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        stage.cross(server).await;
        let faster = policy(&stage, FASTER).await;
        set_policy(&stage, server, json!(faster)).await;
        stage.revert(server).await;
        assert_eq!(stage.host_of(server).await, source);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
    });
}

#[test]
fn a_policy_removed_in_mid_move_leaves_nothing_at_either_end() {
    play_default(|stage| async move {
        for end in ["confirm", "revert"] {
            let (server, source) = server(&stage).await;
            stage.cross(server).await;
            let target = stage.host_of(server).await;
            set_policy(&stage, server, Value::Null).await;
            let answer = if end == "confirm" { stage.member.confirm(server).await } else { stage.member.revert(server).await };
            assert!([202, 204].contains(&answer.status), "{}", answer.text);
            stage.at_rest(server, "ACTIVE").await;
            if end == "revert" {
                // A healing gives up the share of the source.
                stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
                stage.at_rest(server, "ACTIVE").await;
            }
            let host = if end == "confirm" { &target } else { &source };
            assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {host}: nothing")], "{end}");
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn what_a_deleted_port_leaves_is_healed_or_gone_with_a_move() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let port = ports(&stage, server).await[0].id;
        stage.admin.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
        assert_eq!(ledger(&stage, server, None).await, Vec::<String>::new());
    });
}

async fn puts(stage: &Stage, port: Uuid, policy: &str, status: u16) -> Value {
    let change = json!({"port": {"qos_policy_id": policy, "name": "renamed"}});
    stage.member.put(&format!("/network/v2.0/ports/{port}"), change).await.expect(status).body
}

async fn shown(stage: &Stage, port: Uuid) -> Value {
    stage.admin.get(&format!("/network/v2.0/ports/{port}")).await.expect(200).body["port"].clone()
}

#[test]
fn a_policy_without_room_on_the_host_changes_nothing() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let port = ports(&stage, server).await[0].id;
        let (before, too_much) = (shown(&stage, port).await, Minimum { egress: 10_000_001, ..Minimum::default() });
        let too_much = policy(&stage, too_much).await;
        let refused = puts(&stage, port, &too_much, 409).await;
        assert!(refused["NeutronError"]["message"].as_str().is_some_and(|why| why.contains("has no room")), "{refused:#}");
        assert_eq!(shown(&stage, port).await, before);
        expect(&stage, server, None, &settled(&source)).await;
        // All of the bridge fits: the port's own share counts as free.
        let all = policy(&stage, Minimum { egress: 10_000_000, ..Minimum::default() }).await;
        puts(&stage, port, &all, 200).await;
        expect(&stage, server, None, &settled(&source)).await;
    });
}

#[test]
fn two_replacements_at_once_share_what_there_is() {
    play_default(|stage| async move {
        let (first, host) = server(&stage).await;
        let small = policy(&stage, FAST).await;
        let beside = super::networks::port_of(&stage.admin, json!({"qos_policy_id": small})).await;
        let new = stage.server().with("networks", json!([{"port": beside}])).on_host(&host);
        let second = stage.create_by(&stage.admin, new).await;
        let most = policy(&stage, Minimum { egress: 6_000_000, ingress: 1000, packets: 0 }).await;
        let ports = [ports(&stage, first).await[0].id, beside];
        let put = |port: Uuid| {
            let (admin, most) = (stage.admin.clone(), most.clone());
            async move { admin.put(&format!("/network/v2.0/ports/{port}"), json!({"port": {"qos_policy_id": most}})).await.status }
        };
        let mut statuses = <[u16; 2]>::from(futures::join!(put(ports[0]), put(ports[1])));
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        let report = cellshift::chaos::audit::audit(stage.world()).await.expect("an audit");
        assert!(report.violations.is_empty(), "{report:#?}");
        stage.admin.delete(&format!("/servers/{second}")).await.expect(204);
        stage.gone(second).await;
    });
}

#[test]
fn a_port_of_a_physical_function_keeps_its_device() {
    play_default(|stage| async move {
        let small = policy(&stage, FAST).await;
        let port = super::networks::port(&stage, json!({"qos_policy_id": small, "binding:vnic_type": "direct"})).await;
        let server = stage.create(stage.server().with("networks", json!([{"port": port}]))).await;
        let (host, before) = (stage.host_of(server).await, shown(&stage, port).await);
        // Its own device would have to give more than it has, and the other device is not the one of its function.
        let most = policy(&stage, Minimum { egress: 10_000_001, ..Minimum::default() }).await;
        puts(&stage, port, &most, 409).await;
        let faster = policy(&stage, Minimum { egress: 9_000_000, ..Minimum::default() }).await;
        puts(&stage, port, &faster, 200).await;
        let after = shown(&stage, port).await;
        assert_eq!(after["binding:profile"]["pci_slot"], before["binding:profile"]["pci_slot"]);
        expect(&stage, server, None, &settled(&host)).await;
    });
}

#[test]
fn a_networks_policy_is_replaced_for_all_its_ports_or_none() {
    play_default(|stage| async move {
        let (small, more) = (policy(&stage, FAST).await, policy(&stage, FASTER).await);
        let network = json!({"network": {
            "name": "fast", "shared": true, "qos_policy_id": small, "provider:network_type": "vlan",
            "provider:physical_network": "physnet0", "provider:segmentation_id": 7,
        }});
        let network = stage.admin.post("/network/v2.0/networks", network).await.expect(201).body["network"]["id"].clone();
        let subnet = json!({"subnet": {"network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4}});
        stage.admin.post("/network/v2.0/subnets", subnet).await.expect(201);
        let mut servers = Vec::new();
        for further in [json!({}), json!({}), json!({"qos_policy_id": small})] {
            let mut body = json!({"port": {"network_id": network}});
            body["port"].as_object_mut().expect("a port").extend(further.as_object().expect("attributes").clone());
            let port = stage.admin.post("/network/v2.0/ports", body).await.expect(201).body["port"]["id"].clone();
            let new = stage.server().flavor("m1.tiny").with("networks", json!([{"port": port}])).on_host("cell1-host1");
            servers.push(stage.create_by(&stage.admin, new).await);
        }
        let path = format!("/network/v2.0/networks/{}", network.as_str().expect("an id"));
        let sum = async || {
            let providers = stage.world().placement.providers().await.expect("providers");
            let bridge = providers.into_iter().find(|provider| provider.name == "cell1-host1:Open vSwitch agent:br-physnet0");
            bridge.expect("a bridge").usages["NET_BW_EGR_KILOBIT_PER_SEC"]
        };
        assert_eq!(sum().await, 3000);
        // A single port of both would fit.
        let most = policy(&stage, Minimum { egress: 6_000_000, ..Minimum::default() }).await;
        stage.admin.put(&path, json!({"network": {"qos_policy_id": most}})).await.expect(409);
        assert_eq!(sum().await, 3000);
        assert_eq!(stage.admin.get(&path).await.expect(200).body["network"]["qos_policy_id"], json!(small));
        stage.admin.put(&path, json!({"network": {"qos_policy_id": more}})).await.expect(200);
        assert_eq!(sum().await, 7000, "the port with a policy of its own stays");
        stage.admin.put(&path, json!({"network": {"qos_policy_id": null}})).await.expect(200);
        assert_eq!(sum().await, 1000);
        let report = cellshift::chaos::audit::audit(stage.world()).await.expect("an audit");
        assert!(report.violations.is_empty(), "{report:#?}");
        for server in servers {
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}
