//! `addFixedIp` and `removeFixedIp`: the server shows the addresses that its ports have, whatever fails in between.

use std::sync::atomic::{AtomicBool, Ordering};

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::routers::{external, internal, link};
use crate::stage::{Stage, play_default};

/// Returns the fixed addresses that the server shows, which must be those of its ports.
async fn shown(stage: &Stage, server: Uuid) -> Vec<String> {
    let addresses = stage.member.show(server).await["addresses"].clone();
    let entries = addresses.as_object().expect("networks").values().flat_map(|entries| entries.as_array().cloned().unwrap_or_default());
    let fixed = entries.filter(|entry| entry["OS-EXT-IPS:type"] == "fixed");
    let mut ips: Vec<String> = fixed.filter_map(|entry| entry["addr"].as_str().map(str::to_owned)).collect();
    ips.sort();
    let ports = stage.world().network.ports_of(server).await.expect("ports");
    let mut held: Vec<String> = ports.into_iter().flat_map(|port| port.fixed_ips).map(|fixed| fixed.ip_address).collect();
    held.sort();
    assert_eq!(ips, held);
    ips
}

/// Asks for one more address of the server's first port, and returns it.
async fn add(stage: &Stage, server: Uuid) -> String {
    let before = shown(stage, server).await;
    let network = stage.world().network.ports_of(server).await.expect("ports").remove(0).network_id;
    stage.member.speaking("2.43").act(server, json!({"addFixedIp": {"networkId": network}})).await.expect(202);
    stage.ended(server).await;
    let mut more: Vec<String> = shown(stage, server).await.into_iter().filter(|address| !before.contains(address)).collect();
    assert_eq!(more.len(), 1, "{more:?}");
    more.remove(0)
}

async fn remove(stage: &Stage, server: Uuid, address: &str) {
    stage.member.speaking("2.43").act(server, json!({"removeFixedIp": {"address": address}})).await.expect(202);
    stage.ended(server).await;
}

#[test]
fn a_port_gets_one_more_address_and_gives_it_up() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let first = shown(&stage, server).await;
        let added = add(&stage, server).await;
        let action = stage.member.action(server, "add_fixed_ip").await;
        assert_eq!((&action["message"], &action["events"][0]["event"]), (&Value::Null, &json!("compute_add_fixed_ip_to_instance")));
        let body = json!({"removeFixedIp": {"address": added}});
        stage.member.speaking("2.44").act(server, body.clone()).await.expect(404);
        remove(&stage, server, &added).await;
        assert_eq!(shown(&stage, server).await, first);
        let old = stage.member.speaking("2.43");
        old.act(server, body).await.expect(400);
        old.act(server, json!({"removeFixedIp": {"address": "here"}})).await.expect(400);
        old.act(server, json!({"addFixedIp": {"networkId": Uuid::from_u128(7)}})).await.expect(404);
        let network = stage.world().network.ports_of(server).await.expect("ports").remove(0).network_id;
        let more = json!({"addFixedIp": {"networkId": network}});
        stage.member.speaking("2.44").act(server, more.clone()).await.expect(404);
        for _ in 0..4 {
            add(&stage, server).await;
        }
        let full = old.act(server, more).await.expect(400);
        assert!(full.message().contains("maximum amount of fixed ips"), "{}", full.text);
        assert_eq!(shown(&stage, server).await.len(), 5);
    });
}

#[test]
fn addresses_change_between_moves_and_on_the_shelf() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let added = add(&stage, server).await;
        stage.revert(server).await;
        assert!(shown(&stage, server).await.contains(&added), "it comes along to where the server was");
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        remove(&stage, server, &added).await;
        let kept = add(&stage, server).await;
        stage.member.act(server, json!({"unshelve": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let now = shown(&stage, server).await;
        assert!(now.contains(&kept) && !now.contains(&added), "{now:?}");
    });
}

#[test]
fn a_conductor_that_dies_takes_no_second_address() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (step, moment) in [("take_address", Moment::AfterEffect), ("record_address", Moment::BeforeEffect)] {
            let dead = AtomicBool::new(false);
            stage.arm(move |point| {
                let is_there = point.step == step && point.side == "act" && point.moment == moment;
                if is_there && !dead.swap(true, Ordering::SeqCst) { StepFault::KillActor } else { StepFault::None }
            });
            let added = add(&stage, server).await;
            remove(&stage, server, &added).await;
            stage.disarm();
        }
        assert_eq!(shown(&stage, server).await.len(), 1);
    });
}

#[test]
fn an_address_with_a_floating_ip_stays() {
    play_default(|stage| async move {
        let (outside, (network, subnet)) = (external(&stage).await, internal(&stage.member, "10.9.0.0/24").await);
        let router = json!({"router": {"name": "r", "external_gateway_info": {"network_id": outside}}});
        let router = stage.member.post("/network/v2.0/routers", router).await.expect(201);
        link(&stage.member, crate::client::id_of(&router.body["router"]), subnet).await;
        let server = stage.create(stage.server().with("networks", json!([{"uuid": network}]))).await;
        let port = stage.world().network.ports_of(server).await.expect("ports").remove(0);
        let address = shown(&stage, server).await.remove(0);
        let floating = json!({"floatingip": {"floating_network_id": outside, "port_id": port.id}});
        stage.member.post("/network/v2.0/floatingips", floating).await.expect(201);
        remove(&stage, server, &address).await;
        assert_eq!(shown(&stage, server).await, [address]);
        let action = stage.member.action(server, "remove_fixed_ip").await;
        assert_eq!(action["message"], "Error");
    });
}
