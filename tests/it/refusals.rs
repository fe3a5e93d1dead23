//! Refused requests with their codes and messages; none of them changes anything.

use serde_json::json;
use uuid::Uuid;

use crate::stage::{hosts, play, play_default};

#[test]
fn bodies_that_make_no_sense_are_400() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/servers/{server}/action");
        for text in ["", "{", "[]", "null", "\"resize\"", "{\"resize\": {\"flavorRef\": }}"] {
            let answer = stage.member.post_text(&path, text).await.expect(400);
            assert_eq!(answer.body["badRequest"]["code"], 400, "{text}: {}", answer.text);
        }
        let bodies = [
            json!({}),
            json!({"resize": null}),
            json!({"resize": {}}),
            json!({"resize": {"flavorRef": null}}),
            json!({"resize": {"flavorRef": ["gen2.small"]}}),
            json!({"resize": {"flavorRef": {"id": "gen2.small"}}}),
            json!({"resize": {"flavorRef": "gen2.small", "host": "cell2-host1"}}),
            json!({"resize": {"flavorRef": "gen2.small", "OS-DCF:diskConfig": "SOMETIMES"}}),
            json!({"resize": {"flavorRef": "gen2.small"}, "confirmResize": null}),
            json!({"grow": {"flavorRef": "gen2.small"}}),
            json!({"reboot": {"type": "WARM"}}),
        ];
        for body in bodies {
            let answer = stage.member.act(server, body.clone()).await.expect(400);
            assert!(!answer.message().is_empty(), "{body}: {}", answer.text);
        }
        for body in [json!({"migrate": {"host": 7}}), json!({"migrate": {"node": "x"}}), json!({"migrate": {"host": ""}})] {
            stage.admin.act(server, body).await.expect(400);
        }
        assert!(stage.member.actions(server).await.iter().all(|action| action["action"] == "create"), "nothing was begun");
        assert_eq!(stage.member.status(server).await, "ACTIVE");
    });
}

#[test]
fn what_does_not_exist_is_404_and_what_cannot_be_is_400() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for id in [Uuid::nil().to_string(), "no-uuid".to_owned()] {
            let answer = stage.member.post(&format!("/servers/{id}/action"), json!({"resize": {"flavorRef": "gen2.small"}})).await;
            assert_eq!(answer.expect(404).body["itemNotFound"]["code"], 404);
            stage.member.get(&format!("/servers/{id}")).await.expect(404);
            stage.member.delete(&format!("/servers/{id}")).await.expect(404);
        }
        stage.member.resize(server, "no such flavor").await.expect(400);
        let same = stage.member.resize(server, "gen1.small").await.expect(400);
        assert_eq!(same.message(), "When resizing, instances must change flavor!");
        stage.make_flavor("diskless", 1, 1024, 0).await;
        stage.member.resize(server, "diskless").await.expect(400);
        for action in ["confirmResize", "revertResize"] {
            let answer = stage.member.act(server, json!({action: null})).await.expect(409);
            assert!(answer.message().contains("vm_state active"), "{}", answer.text);
        }
        let unknown = stage.admin.migrate(server, Some("nowhere")).await.expect(400);
        assert_eq!(unknown.message(), "Compute host nowhere could not be found.");
        let here = stage.host_of(server).await;
        stage.admin.migrate(server, Some(&here)).await.expect(400);
        stage.member.get("/servers?marker=00000000-0000-0000-0000-000000000000").await.expect(400);
        let refused = stage.member.get("/servers?marker=e2f57395f28743fe884cc30aa721bc6a").await.expect(400);
        assert_eq!(refused.message(), "marker [e2f57395f28743fe884cc30aa721bc6a] not found", "as it was written");
    });
}

#[test]
fn a_caller_without_the_right_reads_why() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let reader = stage.user("rhea", "demo", "reader").await;
        reader.show(server).await;
        reader.resize(server, "gen2.small").await.expect(403);
        reader.delete(&format!("/servers/{server}")).await.expect(403);
        let stranger = stage.user("sam", "elsewhere", "member").await;
        stranger.get(&format!("/servers/{server}")).await.expect(404);
        stranger.resize(server, "gen2.small").await.expect(404);
        stage.member.migrate(server, None).await.expect(403);
        stage.admin.act(server, json!({"lock": null})).await.expect(202);
        stage.member.resize(server, "gen2.small").await.expect(409);
        stage.member.delete(&format!("/servers/{server}")).await.expect(409);
        stage.admin.act(server, json!({"unlock": null})).await.expect(202);
        stage.cross(server).await;
        reader.confirm(server).await.expect(403);
        stranger.revert(server).await.expect(404);
    });
}

#[test]
fn what_a_server_in_verify_resize_refuses() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let refused = [
            json!({"os-start": null}),
            json!({"os-stop": null}),
            json!({"reboot": {"type": "SOFT"}}),
            json!({"reboot": {"type": "HARD"}}),
            json!({"rebuild": {"imageRef": stage.image}}),
            json!({"resize": {"flavorRef": "gen1.large"}}),
        ];
        for body in refused {
            let answer = stage.member.act(server, body.clone()).await.expect(409);
            assert!(answer.message().contains("vm_state resized"), "{body}: {}", answer.text);
        }
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}

/// The default policy: no move leaves its cell, and hosts elsewhere do not count.
#[test]
fn without_the_policy_a_cell_is_the_world() {
    let closed = |config: &mut cellshift::config::Config| std::fs::write(config.policy_file(), "{}\n").expect("a policy");
    play(closed, |stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let unknown = stage.admin.migrate(server, Some("cell2-host1")).await.expect(400);
        assert_eq!(unknown.message(), "Compute host cell2-host1 could not be found.");
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "error");
        assert_eq!(stage.holds(server).await, hosts(&[&source]));
        // Within the cell the move is allowed.
        stage.member.resize(server, "gen1.large").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.confirm(server).await;
    });
}

#[test]
fn no_body_of_an_action_makes_the_service_fail() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let actions = [
            "os-start",
            "os-stop",
            "reboot",
            "pause",
            "unpause",
            "suspend",
            "resume",
            "createImage",
            "createBackup",
            "rebuild",
            "resize",
            "confirmResize",
            "revertResize",
            "migrate",
            "lock",
            "unlock",
            "os-resetState",
            "os-getConsoleOutput",
            "addSecurityGroup",
            "removeSecurityGroup",
            "addFloatingIp",
            "removeFloatingIp",
            "",
        ];
        let values = [
            json!(7),
            json!(true),
            json!("\u{0}"),
            json!([null]),
            json!({"flavorRef": []}),
            json!({"imageRef": {}, "name": " "}),
            json!({"host": [1]}),
            json!({"type": 1e300}),
            json!({"state": null}),
            json!({"length": -1}),
            json!({"name": "\u{0}"}),
            json!({"locked_reason": "x".repeat(300)}),
        ];
        for (action, value) in actions.iter().flat_map(|action| values.iter().map(move |value| (*action, value))) {
            // Actions without an argument ignore the value that they are given.
            let answer = stage.admin.act(server, json!({action: value})).await;
            let refused = matches!(answer.status, 400 | 404 | 409 | 501) && !answer.message().is_empty();
            assert!(refused || matches!(answer.status, 200 | 202 | 204), "{action} {value}: {} {}", answer.status, answer.text);
            stage.running.tree.conductor.until_at_rest(server).await.expect("the journal answers");
        }
        for text in ["", "{", "null", "[]", "{\"resize\": {\"flavorRef\": \"a\"", "{\"lock\": null, \"unlock\": null}"] {
            let answer = stage.admin.post_text(&format!("/servers/{server}/action"), text).await.expect(400);
            assert!(!answer.message().is_empty(), "{text:?}: {}", answer.text);
        }
        stage.admin.act(server, json!({"unlock": null})).await.expect(202);
    });
}

#[test]
fn a_members_address_and_ports_keep_to_the_networks_rules() {
    play(
        |config| config.network.quota_port = 2,
        |stage| async move {
            let networks = stage.member.get("/network/v2.0/networks").await.expect(200).body;
            let network = networks["networks"][0]["id"].clone();
            let eve = stage.user("eve", "elsewhere", "member").await;
            let choice = json!([{"uuid": network, "fixed_ip": "10.1.0.99"}]);
            let refused = stage.server().with("networks", choice.clone()).ask(&eve).await.expect(403);
            assert!(refused.message().contains("create_port:fixed_ips:ip_address"), "{}", refused.text);
            let server = stage.create_by(&stage.admin, stage.server().with("networks", choice)).await;
            assert_eq!(stage.bindings(server).await.len(), 1, "the network's owner chooses");

            let three = json!([{"uuid": network}, {"uuid": network}, {"uuid": network}]);
            let refused = stage.server().with("networks", three).ask(&eve).await.expect(403);
            assert_eq!(refused.message(), "Maximum number of ports exceeded");
            let port = json!({"port": {"network_id": network}});
            let foreign = eve.post("/network/v2.0/ports", port).await.expect(201).body["port"]["id"].clone();
            let refused = stage.server().with("networks", json!([{"port": foreign}])).ask(&stage.admin).await.expect(400);
            assert!(refused.message().contains("not usable"), "{}", refused.text);
        },
    );
}
