//! Events that other services send about a server's parts.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::stage::{Stage, play_default};

async fn tell(stage: &Stage, version: &str, events: Value) -> Answer {
    stage.admin.speaking(version).post("/os-server-external-events", json!({"events": events})).await
}

/// Returns the codes and statuses of the answer's events.
fn codes(answer: &Answer) -> Vec<(u64, String)> {
    let events = answer.body["events"].as_array().expect("events");
    events.iter().map(|event| (event["code"].as_u64().expect("a code"), event["status"].as_str().expect("a status").to_owned())).collect()
}

#[test]
fn each_event_has_a_code_of_its_own() {
    play_default(|stage| async move {
        let (server, nobody) = (stage.create(stage.server()).await, stage.world().env.uuid());
        let plugged = |id: Uuid| json!({"name": "network-vif-plugged", "server_uuid": id, "tag": "x", "status": "in-progress"});
        let answer = tell(&stage, "2.1", json!([plugged(server)])).await.expect(200);
        assert_eq!(codes(&answer), [(200, "completed".to_owned())]);
        assert_eq!(answer.body["events"][0]["tag"], "x");
        let extended = json!({"name": "volume-extended", "server_uuid": server});
        let answer = tell(&stage, "2.51", json!([plugged(server), plugged(nobody), extended])).await.expect(207);
        assert_eq!(codes(&answer).into_iter().map(|(code, _)| code).collect::<Vec<_>>(), [200, 404, 400]);
        let answer = tell(&stage, "2.51", json!([plugged(nobody)])).await.expect(207);
        assert_eq!(codes(&answer), [(404, "failed".to_owned())]);
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        let answer = tell(&stage, "2.51", json!([plugged(server)])).await.expect(207);
        assert_eq!(codes(&answer), [(422, "failed".to_owned())]);
    });
}

#[test]
fn names_of_events_belong_to_their_versions() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (name, since, before) in [
            ("volume-extended", "2.51", "2.50"),
            ("power-update", "2.76", "2.75"),
            ("accelerator-request-bound", "2.82", "2.81"),
            ("volume-reimaged", "2.93", "2.92"),
        ] {
            let event = json!([{"name": name, "server_uuid": server, "tag": "none"}]);
            tell(&stage, before, event.clone()).await.expect(400);
            tell(&stage, since, event).await.expect(200);
        }
        for wrong in [
            json!([]),
            json!([{"name": "network-changed"}]),
            json!([{"name": "network-changed", "server_uuid": "no id"}]),
            json!([{"name": "network-changed", "server_uuid": server, "status": "perhaps"}]),
            json!(vec![json!({"name": "network-changed", "server_uuid": server}); 129]),
        ] {
            tell(&stage, "2.96", wrong).await.expect(400);
        }
    });
}

#[test]
fn a_power_update_stops_and_starts_the_server() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (tag, status) in [("POWER_OFF", "SHUTOFF"), ("POWER_OFF", "SHUTOFF"), ("POWER_ON", "ACTIVE")] {
            tell(&stage, "2.76", json!([{"name": "power-update", "server_uuid": server, "tag": tag}])).await.expect(200);
            stage.at_rest(server, status).await;
        }
        let history: Vec<Value> = stage.member.actions(server).await.iter().map(|action| action["action"].clone()).collect();
        assert_eq!(history, ["start", "stop", "create"]);
    });
}

#[test]
fn a_deleted_port_leaves_its_server() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let listed = stage.member.get(&format!("/servers/{server}/os-interface")).await.expect(200).body;
        let port = listed["interfaceAttachments"][0]["port_id"].as_str().expect("a port").to_owned();
        stage.member.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
        let deleted = json!([{"name": "network-vif-deleted", "server_uuid": server, "tag": port}]);
        tell(&stage, "2.1", deleted.clone()).await.expect(200);
        stage.ended(server).await;
        assert_eq!(stage.member.show(server).await["addresses"], json!({}));
        let host = stage.host_of(server).await;
        assert!(stage.guest(&host, server).await.expect("a guest").ports.is_empty());
        tell(&stage, "2.1", deleted).await.expect(200);
    });
}

#[test]
fn addresses_and_sizes_are_read_anew() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let listed = stage.member.get(&format!("/servers/{server}/os-interface")).await.expect(200).body;
        let port = &listed["interfaceAttachments"][0];
        let (id, subnet) = (port["port_id"].as_str().expect("a port"), port["fixed_ips"][0]["subnet_id"].clone());
        let old = port["fixed_ips"][0]["ip_address"].as_str().expect("an address");
        let (net, _) = old.rsplit_once('.').expect("an IPv4 address");
        let moved = json!({"port": {"fixed_ips": [{"subnet_id": subnet, "ip_address": format!("{net}.199")}]}});
        stage.admin.put(&format!("/network/v2.0/ports/{id}"), moved).await.expect(200);
        tell(&stage, "2.1", json!([{"name": "network-changed", "server_uuid": server, "tag": id}])).await.expect(200);
        let shown = stage.member.show(server).await["addresses"].to_string();
        assert!(shown.contains(&format!("{net}.199")) && !shown.contains(&format!("\"{old}\"")), "{shown}");

        let volume = stage.attach_a_volume(server).await;
        tell(&stage, "2.51", json!([{"name": "volume-extended", "server_uuid": server, "tag": volume}])).await.expect(200);
        let action = stage.member.action(server, "extend_volume").await;
        assert_eq!(action["message"], Value::Null);
    });
}
