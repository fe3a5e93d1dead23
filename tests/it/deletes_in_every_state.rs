//! Deletes of servers in every state: operations in flight make room, and the delete follows by itself.

use cellshift::config::Config;
use cellshift::virt::hypervisor::Operation;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::databases;
use crate::killed::batch::{config_file, configure};
use crate::service::{self, Service};
use crate::stage::{Stage, play};

/// Gives hosts latencies, so that a delete finds an operation in flight.
fn slow(config: &mut Config) {
    for (operation, ms) in [(Operation::Define, 40), (Operation::Start, 40), (Operation::CopyDisks, 80), (Operation::Volume, 40)] {
        config.compute.latency_ms.insert(operation, ms);
    }
}

fn path(server: Uuid) -> String {
    format!("/servers/{server}")
}

/// Deletes the server twice, and checks that it goes without leftovers.
async fn deleted_at_once(stage: &Stage, server: Uuid, what: &str) {
    let first = stage.member.delete(&path(server)).await;
    assert_eq!(first.status, 204, "{what}: {}", first.text);
    let again = stage.member.delete(&path(server)).await;
    assert!(matches!(again.status, 204 | 404), "{what}: {}", again.text);
    let shown = stage.member.get(&path(server)).await;
    assert!(shown.status == 404 || shown.body["server"]["OS-EXT-STS:task_state"] == "deleting", "{what}: {}", shown.text);
    stage.gone(server).await;
    for cell in ["cell0", "cell1", "cell2"] {
        assert!(stage.record(cell, server).await.is_none(), "{what}: {cell}");
    }
    assert!(stage.runs_on(server).await.is_empty() && stage.holds(server).await.is_empty(), "{what}");
    assert!(stage.bindings(server).await.is_empty() && stage.attachments(server).await.is_empty(), "{what}");
}

#[test]
fn a_server_is_deleted_directly_after_any_request() {
    play(slow, |stage| async move {
        let building = id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
        deleted_at_once(&stage, building, "create").await;
        let image = stage.image;
        let requests = [
            ("soft reboot", json!({"reboot": {"type": "SOFT"}})),
            ("hard reboot", json!({"reboot": {"type": "HARD"}})),
            ("stop", json!({"os-stop": null})),
            ("rebuild", json!({"rebuild": {"imageRef": image}})),
            ("resize within the cell", json!({"resize": {"flavorRef": "gen1.large"}})),
            ("resize to another cell", json!({"resize": {"flavorRef": "gen2.small"}})),
        ];
        for (what, action) in requests {
            let server = stage.create(stage.server()).await;
            stage.member.act(server, action).await.expect(202);
            deleted_at_once(&stage, server, what).await;
        }
        for (what, status) in [("confirm", 204), ("revert", 202)] {
            let server = stage.create(stage.server()).await;
            stage.cross(server).await;
            let answer = if what == "confirm" { stage.member.confirm(server).await } else { stage.member.revert(server).await };
            answer.expect(status);
            deleted_at_once(&stage, server, what).await;
        }
        let (server, volume) = (stage.create(stage.server()).await, stage.member.make_volume().await);
        stage.member.attach(server, volume).await.expect(200);
        deleted_at_once(&stage, server, "attach").await;
        let (server, volume) = (stage.create(stage.server()).await, stage.member.make_volume().await);
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        stage.member.detach(server, volume).await.expect(202);
        deleted_at_once(&stage, server, "detach").await;
        let used = stage.member.get("/compute/v2.1/limits").await.expect(200).body["limits"]["absolute"]["totalInstancesUsed"].clone();
        assert_eq!(used, json!(0), "and its quota is free again");
    });
}

#[test]
fn of_two_deletes_at_once_both_are_accepted() {
    play(slow, |stage| async move {
        for during_a_rebuild in [false, true] {
            let server = stage.create(stage.server()).await;
            if during_a_rebuild {
                stage.member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202);
            }
            let path = path(server);
            let (one, two) = futures::join!(stage.member.delete(&path), stage.member.delete(&path));
            assert_eq!((one.status, two.status), (204, 204), "{} {}", one.text, two.text);
            stage.gone(server).await;
            let deletes = stage.admin.actions(server).await.into_iter().filter(|action| action["action"] == "delete").count();
            assert_eq!(deletes, 1);
        }
    });
}

async fn listed(user: &User) -> Vec<Value> {
    user.get("/servers/detail").await.expect(200).body["servers"].as_array().expect("servers").clone()
}

#[test]
fn a_server_is_shown_as_deleting_until_it_is_gone() {
    let slower = |config: &mut Config| {
        config.compute.latency_ms.insert(Operation::CopyDisks, 5000);
    };
    play(slower, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        let copying = || async { stage.member.show(server).await["OS-EXT-STS:task_state"] == "resize_migrating" };
        stage.until("the source copies", copying).await;
        let first = stage.member.delete(&path(server)).await.expect(204);

        let shown = stage.member.show(server).await;
        assert_eq!((&shown["OS-EXT-STS:task_state"], &shown["status"]), (&json!("deleting"), &json!("ACTIVE")), "{shown}");
        let list = listed(&stage.member).await;
        assert_eq!((list.len(), &list[0]["OS-EXT-STS:task_state"]), (1, &json!("deleting")), "{list:?}");
        stage.member.delete(&path(server)).await.expect(204);
        stage.member.act(server, json!({"forceDelete": null})).await.expect(202);
        for action in [json!({"reboot": {"type": "HARD"}}), json!({"os-stop": null}), json!({"revertResize": null})] {
            stage.member.act(server, action).await.expect(409);
        }
        stage.member.put(&format!("/servers/{server}"), json!({"server": {"name": "renamed"}})).await.expect(200);
        stage.member.act(server, json!({"lock": null})).await.expect(202);

        stage.gone(server).await;
        assert_eq!(listed(&stage.member).await, Vec::<Value>::new());
        let (resize, delete) = (stage.admin.action(server, "resize").await, stage.admin.action(server, "delete").await);
        assert_eq!((&resize["message"], &delete["message"]), (&json!("Error"), &Value::Null), "{resize} {delete}");
        let failed = |event: &Value| event["result"] == "Error";
        assert!(resize["events"].as_array().expect("events").iter().any(failed), "{resize}");
        assert_eq!(delete["request_id"].as_str(), first.headers["x-openstack-request-id"].to_str().ok(), "of the first that asked");
    });
}

#[test]
fn a_wish_survives_the_kill_of_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = configure(dir.path(), |config| {
        slow(config);
        databases::place(config);
    });
    actix_rt::System::new().block_on(async {
        let start = || Service::start(dir.path(), &["--config", &config_file(dir.path())]);
        let mut service = start();
        let mut doomed = Vec::new();
        for round in 0..3 {
            let user = service.user(dir.path(), "cellshift").await;
            let image = user.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0].clone();
            let new = || crate::client::NewServer::of_image(id_of(&image)).named(&format!("round {round}"));
            let server = id_of(&new().ask(&user).await.expect(202).body["server"]);
            service.user(dir.path(), "cellshift-admin").await.settled(server).await;
            let action =
                [json!({"resize": {"flavorRef": "gen2.small"}}), json!({"rebuild": {"imageRef": image["id"]}}), json!({"os-stop": null})];
            user.act(server, action[round].clone()).await.expect(202);
            let building = id_of(&new().ask(&user).await.expect(202).body["server"]);
            for server in [server, building] {
                user.delete(&path(server)).await.expect(204);
                doomed.push(server);
            }
            service.signal("-KILL");
            service.death();
            service = start();
            let user = service.user(dir.path(), "cellshift").await;
            for server in &doomed {
                let again = user.delete(&path(*server)).await;
                assert!(matches!(again.status, 204 | 404), "{}", again.text);
            }
        }
        let user = service.user(dir.path(), "cellshift").await;
        let gone = async { while !listed(&user).await.is_empty() {} };
        tokio::time::timeout(crate::client::PATIENCE, gone).await.expect("each of them is gone");
        let admin = service.user(dir.path(), "cellshift-admin").await;
        for server in doomed {
            let actions = admin.actions(server).await;
            assert_eq!(actions.iter().filter(|action| action["action"] == "delete").count(), 1, "{actions:?}");
        }
        service.stop();
        let audit = service::run(&["audit", "--deep", "--config", &config_file(dir.path())]);
        assert_eq!(audit.code, Some(0), "{}{}", audit.stdout, audit.stderr);
    });
    databases::remove(&config);
}
