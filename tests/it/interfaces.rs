//! Network interfaces that come and go while their server has a host.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User};
use crate::qos::networks::{Minimum, expect, give_bridges, policy, port, settled};
use crate::routers::{external, internal};
use crate::stage::{Stage, play_default};

/// Makes a free port of the member's.
pub async fn spare_port(stage: &Stage) -> Uuid {
    port(stage, json!({})).await
}

async fn plug(user: &User, server: Uuid, request: Value) -> Answer {
    user.post(&format!("/servers/{server}/os-interface"), json!({"interfaceAttachment": request})).await
}

async fn unplug(stage: &Stage, server: Uuid, port: Uuid) {
    stage.member.delete(&format!("/servers/{server}/os-interface/{port}")).await.expect(202);
    stage.ended(server).await;
}

async fn interfaces(stage: &Stage, server: Uuid) -> Vec<Value> {
    let listed = stage.member.speaking("2.70").get(&format!("/servers/{server}/os-interface")).await.expect(200).body;
    listed["interfaceAttachments"].as_array().expect("a list").clone()
}

async fn network_port(stage: &Stage, port: Uuid) -> Answer {
    stage.admin.get(&format!("/network/v2.0/ports/{port}")).await
}

async fn guest_ports(stage: &Stage, server: Uuid) -> Vec<Uuid> {
    let host = stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
    stage.guest(&host, server).await.expect("a guest").ports
}

fn id(attached: &Value) -> Uuid {
    attached["port_id"].as_str().expect("an id").parse().expect("a uuid")
}

#[test]
fn a_given_port_comes_and_goes_as_it_was() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let before = network_port(&stage, spare_port(&stage).await).await.expect(200).body;
        let port: Uuid = before["port"]["id"].as_str().expect("an id").parse().expect("a uuid");
        let member = stage.member.speaking("2.70");
        let attached = plug(&member, server, json!({"port_id": port, "tag": "blue"})).await.expect(200).body;
        let shown = &attached["interfaceAttachment"];
        assert_eq!((&shown["port_id"], &shown["tag"], &shown["port_state"]), (&json!(port), &json!("blue"), &json!("ACTIVE")));
        assert_eq!(shown["fixed_ips"], before["port"]["fixed_ips"]);
        assert_eq!(interfaces(&stage, server).await.len(), 2);
        assert!(guest_ports(&stage, server).await.contains(&port));
        let addresses = stage.member.show(server).await["addresses"].to_string();
        assert!(addresses.contains(shown["fixed_ips"][0]["ip_address"].as_str().expect("an address")), "{addresses}");
        unplug(&stage, server, port).await;
        assert_eq!(interfaces(&stage, server).await.len(), 1);
        assert!(!guest_ports(&stage, server).await.contains(&port));
        let mut after = network_port(&stage, port).await.expect(200).body;
        for changing in ["updated_at", "revision_number"] {
            after["port"][changing] = before["port"][changing].clone();
        }
        assert_eq!(after, before);
    });
}

#[test]
fn a_port_made_for_an_attach_is_deleted_when_it_leaves() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let network = interfaces(&stage, server).await[0]["net_id"].clone();
        let owner = json!({"net_id": network});
        let made = plug(&stage.member.speaking("2.69"), server, owner.clone()).await.expect(200).body;
        let port = id(&made["interfaceAttachment"]);
        assert!(made["interfaceAttachment"].get("tag").is_none(), "{made}");
        unplug(&stage, server, port).await;
        network_port(&stage, port).await.expect(404);
        for status in ["SHUTOFF", "PAUSED"] {
            let (away, back) = if status == "PAUSED" { ("pause", "unpause") } else { ("os-stop", "os-start") };
            stage.member.act(server, json!({away: null})).await.expect(202);
            stage.at_rest(server, status).await;
            let port = id(&plug(&stage.member, server, owner.clone()).await.expect(200).body["interfaceAttachment"]);
            stage.member.act(server, json!({back: null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert!(guest_ports(&stage, server).await.contains(&port), "{status}");
        }
        let kept = interfaces(&stage, server).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        for port in &kept {
            network_port(&stage, id(port)).await.expect(404);
        }
    });
}

#[test]
fn interfaces_move_to_another_cell_with_their_server() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let port = spare_port(&stage).await;
        plug(&stage.member.speaking("2.49"), server, json!({"port_id": port, "tag": "blue"})).await.expect(200);
        let before = interfaces(&stage, server).await;
        stage.cross(server).await;
        stage.confirm(server).await;
        assert_eq!(interfaces(&stage, server).await, before);
        assert_eq!(guest_ports(&stage, server).await.len(), 2);
        unplug(&stage, server, port).await;
        assert_eq!(interfaces(&stage, server).await.len(), 1);
    });
}

#[test]
fn an_interface_takes_and_returns_guaranteed_bandwidth() {
    play_default(|stage| async move {
        give_bridges(&stage).await;
        let policy = policy(&stage, Minimum { egress: 1000, ingress: 2000, packets: 3 }).await;
        let asking = port(&stage, json!({"qos_policy_id": policy})).await;
        let server = stage.create(stage.server().with("networks", json!([{"port": port(&stage, json!({})).await}]))).await;
        let host = stage.host_of(server).await;
        let holds = stage.allocations(server).await;
        plug(&stage.member, server, json!({"port_id": asking})).await.expect(200);
        expect(&stage, server, None, &settled(&host)).await;
        assert!(stage.allocations(server).await.len() > holds.len());
        unplug(&stage, server, asking).await;
        assert_eq!(stage.allocations(server).await, holds);
        let demanding = crate::qos::networks::policy(&stage, Minimum { egress: 99_000_000, ..Minimum::default() }).await;
        let too_much = port(&stage, json!({"qos_policy_id": demanding})).await;
        let refused = plug(&stage.member, server, json!({"port_id": too_much})).await.expect(400);
        assert!(refused.message().starts_with("Failed to allocate additional resources"), "{}", refused.message());
        assert_eq!((stage.allocations(server).await, interfaces(&stage, server).await.len()), (holds, 1));
    });
}

#[test]
fn an_attach_that_fails_leaves_the_server_untouched() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let (free, network) = (spare_port(&stage).await, interfaces(&stage, server).await[0]["net_id"].clone());
        for step in ["take_port", "claim_shares", "plug_interface"] {
            stage.arm(move |point| match (point.side, point.moment) {
                ("act", Moment::AfterEffect) if point.step == step => StepFault::Refuse,
                _ => StepFault::None,
            });
            for request in [json!({"port_id": free}), json!({"net_id": network})] {
                plug(&stage.member, server, request).await.expect(500);
                assert_eq!(interfaces(&stage, server).await.len(), 1, "{step}");
                assert_eq!(guest_ports(&stage, server).await.len(), 1, "{step}");
            }
            stage.disarm();
            let left = stage.member.get("/network/v2.0/ports").await.expect(200).body;
            assert_eq!(left["ports"].as_array().map(Vec::len), Some(2), "{step}: {left}");
            assert_eq!(left["ports"][1]["device_id"].as_str().map(str::is_empty), Some(true), "{step}: {left}");
        }
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn wrong_requests_for_interfaces_are_refused() {
    play_default(|stage| async move {
        let (server, other) = (stage.create(stage.server()).await, stage.create(stage.server()).await);
        let network = interfaces(&stage, server).await[0]["net_id"].clone();
        let (bound, free, nobody) =
            (interfaces(&stage, other).await[0]["port_id"].clone(), spare_port(&stage).await, stage.world().env.uuid());
        let address = interfaces(&stage, other).await[0]["fixed_ips"][0]["ip_address"].clone();
        for (request, status) in [
            (json!({"net_id": network, "port_id": free}), 400),
            (json!({"port_id": free, "fixed_ips": [{"ip_address": "10.0.0.9"}]}), 400),
            (json!({"fixed_ips": [{"ip_address": "10.0.0.9"}]}), 400),
            (json!({"net_id": network, "fixed_ips": []}), 400),
            (json!({"net_id": "no id"}), 400),
            (json!({"port_id": nobody}), 404),
            (json!({"net_id": nobody}), 404),
            (json!({"port_id": bound}), 409),
            (json!({"net_id": network, "fixed_ips": [{"ip_address": address}]}), 409),
        ] {
            let answer = plug(&stage.admin, server, request.clone()).await;
            assert_eq!(answer.status, status, "{request}: {}", answer.body);
        }
        plug(&stage.member.speaking("2.48"), server, json!({"port_id": free, "tag": "blue"})).await.expect(400);
        let direct = json!({"port": {"network_id": network, "binding:vnic_type": "direct"}});
        let direct = stage.member.post("/network/v2.0/ports", direct).await.expect(201).body["port"]["id"].clone();
        let refused = plug(&stage.member, server, json!({"port_id": direct})).await.expect(400);
        assert!(refused.message().contains("direct"), "{}", refused.text);
        stage.member.get(&format!("/servers/{server}/os-interface/{free}")).await.expect(404);
        stage.member.delete(&format!("/servers/{server}/os-interface/{free}")).await.expect(404);
        stage.member.act(server, json!({"suspend": null})).await.expect(202);
        stage.at_rest(server, "SUSPENDED").await;
        let refused = plug(&stage.member, server, json!({"port_id": free})).await.expect(409);
        assert_eq!(refused.message(), format!("Cannot 'attach_interface' instance {server} while it is in vm_state suspended"));
        stage.member.act(other, json!({"lock": null})).await.expect(202);
        plug(&stage.member, other, json!({"port_id": free})).await.expect(409);
        stage.member.delete(&format!("/servers/{other}/os-interface/{}", bound.as_str().expect("an id"))).await.expect(409);
    });
}

#[test]
fn only_administrators_attach_networks_of_others() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let (apart, _) = internal(&stage.admin, "10.77.0.0/24").await;
        let outside = external(&stage).await;
        let on = |network: Uuid| stage.server().with("networks", json!([{"uuid": network}]));
        plug(&stage.member, server, json!({"net_id": apart})).await.expect(404);
        on(apart).ask(&stage.member).await.expect(400);
        let refused = format!("It is not allowed to create an interface on external network {outside}");
        assert_eq!(plug(&stage.member, server, json!({"net_id": outside})).await.expect(403).message(), refused);
        assert_eq!(on(outside).ask(&stage.member).await.expect(403).message(), refused);
        assert_eq!(interfaces(&stage, server).await.len(), 1);
        for network in [apart, outside] {
            let attached = plug(&stage.admin, server, json!({"net_id": network})).await.expect(200).body;
            let port = stage.member.get(&format!("/network/v2.0/ports/{}", id(&attached["interfaceAttachment"]))).await.expect(200).body;
            assert_eq!((&port["port"]["network_id"], &port["port"]["device_id"]), (&json!(network), &json!(server)));
        }
        stage.create_by(&stage.admin, on(outside)).await;
    });
}

#[test]
fn two_attaches_of_one_port_give_it_to_one_server() {
    play_default(|stage| async move {
        let (one, two) = (stage.create(stage.server()).await, stage.create(stage.server()).await);
        let free = spare_port(&stage).await;
        let request = json!({"port_id": free});
        let (first, second) = futures::join!(plug(&stage.member, one, request.clone()), plug(&stage.member, two, request));
        let mut answers = [first.status, second.status];
        answers.sort_unstable();
        assert_eq!(answers, [200, 409]);
        let all = [interfaces(&stage, one).await.len(), interfaces(&stage, two).await.len()];
        assert_eq!(all.iter().sum::<usize>(), 3, "{all:?}");
    });
}
