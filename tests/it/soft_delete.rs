//! Soft delete and restore, in clouds with a `reclaim_instance_interval`: a deleted server is kept off for a while, and comes back with its
//! disk, addresses and volumes, or goes for good.

use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::User;
use crate::stage::{Stage, hosts, play};

fn kept(config: &mut Config) {
    config.compute.reclaim_instance_interval = Seconds::whole(3600);
}

async fn delete(stage: &Stage, server: Uuid) {
    stage.member.delete(&format!("/servers/{server}")).await.expect(204);
}

/// Returns the ids in a list of servers.
async fn listed(client: &User, query: &str) -> Vec<Value> {
    let list = client.get(&format!("/servers{query}")).await.expect(200).body;
    list["servers"].as_array().expect("servers").iter().map(|server| server["id"].clone()).collect()
}

async fn used(stage: &Stage) -> Value {
    stage.member.get("/compute/v2.1/limits").await.expect(200).body["limits"]["absolute"]["totalInstancesUsed"].clone()
}

#[test]
fn a_soft_deleted_server_comes_back_as_it_was() {
    play(kept, |stage| async move {
        let server = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host("cell1-host1")).await;
        let volume = stage.admin.make_volume().await;
        stage.admin.attach(server, volume).await.expect(200);
        let before = stage.at_rest(server, "ACTIVE").await;
        stage.guest_writes("cell1-host1", server, b"what the user keeps").await;
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        let shown = stage.at_rest(server, "SOFT_DELETED").await;
        assert_eq!((&shown["OS-EXT-STS:vm_state"], &shown["OS-EXT-STS:power_state"]), (&json!("soft-delete"), &json!(4)));
        assert_eq!(stage.runs_on(server).await, hosts(&[]));
        assert_eq!(listed(&stage.admin, "").await, Vec::<Value>::new());
        assert_eq!(listed(&stage.admin, "?deleted=true").await, [json!(server)]);
        assert_eq!(listed(&stage.admin, "?soft_deleted=true").await, [json!(server)]);
        for refused in
            [json!({"os-start": null}), json!({"resize": {"flavorRef": "gen2.small"}}), json!({"os-resetState": {"state": "active"}})]
        {
            stage.admin.act(server, refused).await.expect(409);
        }
        // Once more keeps it for as long again.
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.at_rest(server, "SOFT_DELETED").await;
        stage.admin.act(server, json!({"restore": null})).await.expect(202);
        let after = stage.at_rest(server, "ACTIVE").await;
        for same in ["addresses", "os-extended-volumes:volumes_attached", "OS-EXT-SRV-ATTR:host", "flavor"] {
            assert_eq!(after[same], before[same]);
        }
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
        let root = stage.disks("cell1-host1", server).await.remove("disk").expect("a root disk");
        assert!(String::from_utf8_lossy(&root).contains("what the user keeps"));
        assert_eq!(listed(&stage.admin, "").await, [json!(server)]);
        stage.admin.act(server, json!({"restore": null})).await.expect(409);
        let notified = stage.notified(server).await;
        for event in ["instance.soft_delete.start", "instance.soft_delete.end", "instance.restore.start", "instance.restore.end"] {
            assert!(notified.iter().any(|name| name == event), "{event}: {notified:?}");
        }
        assert!(stage.admin.action(server, "restore").await["events"][0]["result"] == "Success");
    });
}

#[test]
fn a_forced_delete_deletes_for_good() {
    play(kept, |stage| async move {
        let (one, other) = (stage.create(stage.server()).await, stage.create(stage.server()).await);
        delete(&stage, one).await;
        stage.at_rest(one, "SOFT_DELETED").await;
        for server in [one, other] {
            stage.member.act(server, json!({"forceDelete": null})).await.expect(202);
            stage.gone(server).await;
        }
        assert_eq!(listed(&stage.admin, "?all_tenants=1&soft_deleted=true").await, Vec::<Value>::new());
    });
}

#[test]
fn a_server_that_waits_for_confirm_is_confirmed_and_kept() {
    play(kept, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        delete(&stage, server).await;
        stage.at_rest(server, "SOFT_DELETED").await;
        stage.member.act(server, json!({"restore": null})).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["flavor"]["original_name"], "gen2.small");
        stage.member.confirm(server).await.expect(409);
    });
}

#[test]
fn servers_that_no_restore_could_bring_back_go_at_once() {
    play(kept, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        delete(&stage, server).await;
        stage.gone(server).await;
    });
}

#[test]
fn a_restore_needs_room_in_the_quota() {
    play(
        |config: &mut Config| {
            kept(config);
            config.quota.instances = 1;
        },
        |stage| async move {
            let first = stage.create(stage.server()).await;
            delete(&stage, first).await;
            stage.at_rest(first, "SOFT_DELETED").await;
            assert_eq!(used(&stage).await, json!(0));
            let second = stage.create(stage.server()).await;
            let refused = stage.member.act(first, json!({"restore": null})).await.expect(403);
            assert!(refused.text.contains("Quota exceeded"), "{}", refused.text);
            stage.member.act(second, json!({"forceDelete": null})).await.expect(202);
            stage.gone(second).await;
            stage.member.act(first, json!({"restore": null})).await.expect(202);
            stage.at_rest(first, "ACTIVE").await;
            assert_eq!(used(&stage).await, json!(1));
        },
    );
}

#[test]
fn a_soft_deleted_server_goes_when_its_time_has_come() {
    play(
        |config: &mut Config| config.compute.reclaim_instance_interval = Seconds::whole(1),
        |stage| async move {
            let server = stage.create(stage.server()).await;
            let path = &format!("/servers/{server}");
            delete(&stage, server).await;
            stage.until("it is deleted for good", || async { stage.admin.get(path).await.status == 404 }).await;
            let events: Vec<String> = stage.notified(server).await.into_iter().filter(|event| event.ends_with("delete.end")).collect();
            assert_eq!(events, ["instance.soft_delete.end", "instance.delete.end"]);
        },
    );
}
