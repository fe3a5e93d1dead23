//! Deletes of servers that cannot be reached: accepted, hidden from their users at once, and carried out when that is possible (DOWN-CELLS
//! A-14; Nova answers 500).

use std::sync::Arc;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::{Config, Seconds};
use cellshift::virt::hypervisor::Operation;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::cloud::Cloud;
use crate::stage::{Stage, play};

/// Probes a cell that is down frequently.
fn probed_often(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
}

/// Also limits the wait for a cell that hangs, to longer than a commit on a busy disk.
fn impatient(config: &mut Config) {
    probed_often(config);
    config.cells.timeout = Seconds::whole(2);
}

fn down(stage: &Stage, cell: &str) {
    stage.cell(cell).db().set_outage(Outage::Refuses);
}

async fn back(stage: &Stage, cell: &str) {
    stage.cell(cell).db().set_outage(Outage::None);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    stage.until("the cell answers again", || async { health.is_up() }).await;
}

async fn delete(user: &User, server: Uuid) -> crate::client::Answer {
    user.delete(&format!("/servers/{server}")).await
}

async fn listed(user: &User) -> Vec<Uuid> {
    let listed = user.get("/servers/detail").await.expect(200).body;
    listed["servers"].as_array().expect("servers").iter().map(id_of).collect()
}

/// Returns the delete flag in the API database.
async fn flag(stage: &Stage, server: Uuid) -> Option<bool> {
    stage.world().api.instance_mapping(server).await.expect("a mapping").queued_for_delete
}

async fn carried_out(stage: &Stage) {
    let none = || async { stage.world().api.count_queued_deletes().await.expect("mappings") == 0 };
    stage.until("the delete is carried out", none).await;
}

/// Checks that nobody sees the server, and that nothing of it is left.
async fn nothing_left(stage: &Stage, server: Uuid) {
    stage.gone(server).await;
    for cell in ["cell0", "cell1", "cell2"] {
        assert!(stage.record(cell, server).await.is_none(), "{cell}");
    }
    assert!(stage.runs_on(server).await.is_empty() && stage.holds(server).await.is_empty());
    assert!(stage.bindings(server).await.is_empty() && stage.attachments(server).await.is_empty());
    assert_eq!(flag(stage, server).await, Some(true));
}

async fn instances_used(user: &User) -> Value {
    user.get("/compute/v2.1/limits").await.expect(200).body["limits"]["absolute"]["totalInstancesUsed"].clone()
}

#[test]
fn a_delete_in_a_down_cell_is_executed_when_it_returns() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        let host = stage.runs_on(server).await;
        down(&stage, "cell1");
        assert_eq!(flag(&stage, server).await, Some(false));
        // Only callers with the right may delete it, whether its cell answers or not.
        delete(&stage.user("reader", "demo", "reader").await, server).await.expect(403);
        delete(&stage.user("stranger", "elsewhere", "member").await, server).await.expect(404);
        delete(&stage.member, server).await.expect(204);

        assert_eq!(flag(&stage, server).await, Some(true));
        for _ in 0..2 {
            delete(&stage.member, server).await.expect(404);
            stage.member.get(&format!("/servers/{server}")).await.expect(404);
            stage.admin.act(server, json!({"os-start": null})).await.expect(404);
        }
        assert_eq!((listed(&stage.member).await, instances_used(&stage.member).await), (vec![], json!(0)));
        assert_eq!(stage.runs_on(server).await, host, "nobody has told its host yet");

        back(&stage, "cell1").await;
        delete(&stage.member, server).await.expect(404);
        assert_eq!(listed(&stage.member).await, Vec::<Uuid>::new());
        carried_out(&stage).await;
        nothing_left(&stage, server).await;
        let notified = stage.notified(server).await;
        let ends: Vec<&str> = notified.iter().map(String::as_str).filter(|event| event.contains("delete.end")).collect();
        assert_eq!(ends, ["instance.delete.end", "instance.queued_delete.end"]);
    });
}

#[test]
fn a_cell_that_hangs_keeps_no_delete_in_another_waiting() {
    play(impatient, |stage| async move {
        let far = stage.create(stage.server()).await;
        let near = stage.create(stage.server().flavor("gen2.small")).await;
        stage.cell("cell1").db().set_outage(Outage::Hangs);
        down(&stage, "cell2");
        for server in [far, near] {
            delete(&stage.member, server).await.expect(204);
        }
        back(&stage, "cell2").await;
        let gone = || async { stage.record("cell2", near).await.is_none() };
        stage.until("the server of the cell that is back is deleted", gone).await;
        stage.member.get(&format!("/servers/{far}")).await.expect(404);
        back(&stage, "cell1").await;
        carried_out(&stage).await;
        for server in [far, near] {
            nothing_left(&stage, server).await;
        }
    });
}

#[test]
fn a_queued_delete_survives_the_death_of_the_process() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start().await;
        let server = cloud.ask_for_server().await;
        assert!(cloud.at_rest(server).await);
        let path = format!("/compute/v2.1/servers/{server}");
        cloud.world().cells["cell1"].db.db().set_outage(Outage::Refuses);
        assert_eq!(cloud.send("DELETE", &path, None).await.0, 204);
        cloud.restart();
        assert_eq!(cloud.send("GET", &path, None).await.0, 404, "it is gone for its users in the next life, too");
        let notification = cloud.notification("instance.queued_delete.end", server).await;
        assert!(
            notification["request_id"].as_str().is_some_and(|id| id.starts_with("req-")) && notification["asked_at"].is_string(),
            "{notification}"
        );
        assert!(cloud.at_rest(server).await);
        assert!(cloud.world().cells["cell1"].db.instance(server).await.is_err());
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}

#[test]
fn a_lock_that_could_not_be_seen_holds() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.act(server, json!({"lock": null})).await.expect(202);
        down(&stage, "cell1");
        delete(&stage.member, server).await.expect(204);
        back(&stage, "cell1").await;
        carried_out(&stage).await;
        assert_eq!(stage.at_rest(server, "ACTIVE").await["locked"], true);
        assert_eq!(flag(&stage, server).await, Some(false));
        assert_eq!(stage.admin.action(server, "delete").await["message"], "Error");
        let notified = stage.notified(server).await;
        assert!(notified.contains(&"instance.queued_delete.error".to_owned()), "{notified:?}");
        assert_eq!(instances_used(&stage.member).await, 1);
        // A caller who may ignore a lock may ignore it without seeing it.
        down(&stage, "cell1");
        delete(&stage.admin, server).await.expect(204);
        back(&stage, "cell1").await;
        carried_out(&stage).await;
        nothing_left(&stage, server).await;
    });
}

#[test]
fn a_resized_server_is_deleted_in_both_its_cells() {
    for cell in ["cell1", "cell2"] {
        play(probed_often, |stage| async move {
            let server = stage.create(stage.server()).await;
            stage.cross(server).await;
            // First the server's own cell is down, then also the source cell, for longer.
            down(&stage, "cell2");
            delete(&stage.member, server).await.expect(204);
            down(&stage, cell);
            if cell == "cell1" {
                back(&stage, "cell2").await;
                let looked = || async { stage.member.get(&format!("/servers/{server}")).await.status == 404 };
                stage.until("it stays hidden", looked).await;
                assert!(stage.record("cell2", server).await.is_some(), "it is not begun before it can be ended");
            }
            back(&stage, cell).await;
            carried_out(&stage).await;
            nothing_left(&stage, server).await;
        });
    }
}

#[test]
fn a_resized_server_is_deleted_when_its_source_cell_returns() {
    for outage in [Outage::Refuses, Outage::Hangs] {
        play(impatient, |stage| async move {
            let server = stage.create(stage.server()).await;
            let other = stage.create(stage.server().flavor("gen2.small")).await;
            stage.cross(server).await;
            stage.member.act(server, json!({"lock": null})).await.expect(202);
            stage.cell("cell1").db().set_outage(outage);
            delete(&stage.member, server).await.expect(409);
            stage.member.act(server, json!({"unlock": null})).await.expect(202);

            delete(&stage.member, server).await.expect(204);
            assert_eq!(flag(&stage, server).await, Some(true));
            stage.member.get(&format!("/servers/{server}")).await.expect(404);
            delete(&stage.member, server).await.expect(404);
            assert_eq!(listed(&stage.member).await, [other], "its own cell answers, and it is gone all the same");
            // Meanwhile other servers in its cell can be deleted.
            delete(&stage.member, other).await.expect(204);
            stage.gone(other).await;
            assert!(stage.record("cell2", server).await.is_some(), "it is not begun before it can be ended");
            let waits = || async {
                let waiting = stage.admin.get("/ops/v1/queued-deletes").await.expect(200).body["queued_deletes"][0].clone();
                waiting["last_error"].as_str().is_some_and(|why| why.contains("cell1"))
            };
            stage.until("operators see what it waits for", waits).await;

            back(&stage, "cell1").await;
            carried_out(&stage).await;
            nothing_left(&stage, server).await;
        });
    }
}

#[test]
fn operators_see_which_deletes_wait_for_what_since_when() {
    play(probed_often, |stage| async move {
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(stage.create(stage.server().named("left")).await);
        }
        servers.sort();
        assert_eq!(stage.admin.get("/ops/v1/queued-deletes").await.expect(200).body, json!({"queued_deletes": []}));
        down(&stage, "cell1");
        let mut request_ids = Vec::new();
        for server in &servers {
            let answer = delete(&stage.member, *server).await.expect(204);
            request_ids.push(answer.headers["x-openstack-request-id"].to_str().expect("an id").to_owned());
        }
        let first = stage.admin.get("/ops/v1/queued-deletes?limit=2").await.expect(200).body;
        let next = first["queued_deletes_links"][0]["href"].as_str().expect("a link");
        let second = stage.admin.get(&next[next.find("/ops").expect("a path")..]).await.expect(200).body;
        assert!(second.get("queued_deletes_links").is_none(), "{second}");
        let pages = [&first, &second].map(|page| page["queued_deletes"].as_array().expect("a list").clone()).concat();
        assert_eq!(
            pages.iter().map(|entry| entry["server"].clone()).collect::<Vec<_>>(),
            servers.iter().map(|id| json!(id)).collect::<Vec<_>>()
        );
        assert_eq!(pages.iter().map(|entry| entry["request_id"].clone()).collect::<Vec<_>>(), request_ids);
        let entry = &pages[0];
        assert_eq!(entry["name"], "left", "its create said the name");
        assert_eq!((&entry["cell"], &entry["attempts"], &entry["last_error"]), (&json!("cell1"), &json!(0), &Value::Null));
        assert_eq!((&entry["user_id"], &entry["project_id"]), (&json!(stage.member.user_id), &json!(project(&stage).await)));
        assert!(["down", "probing"].contains(&entry["cell_health"].as_str().unwrap_or_default()), "{entry}");
        assert!(entry["cell_reason"].is_string() && entry["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{entry}");
        stage.member.get("/ops/v1/queued-deletes").await.expect(403);
        stage.admin.get("/ops/v1/queued-deletes?colour=red").await.expect(400);

        back(&stage, "cell1").await;
        carried_out(&stage).await;
        assert_eq!(stage.admin.get("/ops/v1/queued-deletes").await.expect(200).body["queued_deletes"], json!([]));
        for server in servers {
            nothing_left(&stage, server).await;
        }
    });
}

#[test]
fn a_delete_waits_for_the_operation_that_has_the_server() {
    let slow = |config: &mut Config| {
        probed_often(config);
        config.compute.latency_ms.insert(Operation::CopyDisks, 1500);
    };
    play(slow, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        let copying = || async { stage.member.show(server).await["OS-EXT-STS:task_state"] == "resize_migrating" };
        stage.until("the source copies", copying).await;
        down(&stage, "cell1");
        delete(&stage.member, server).await.expect(204);
        stage.member.get(&format!("/servers/{server}")).await.expect(404);
        back(&stage, "cell1").await;
        carried_out(&stage).await;
        nothing_left(&stage, server).await;
    });
}

#[test]
fn a_server_that_is_being_made_is_deleted_as_soon_as_it_is() {
    let slow = |config: &mut Config| {
        config.compute.latency_ms.insert(Operation::Start, 3000);
    };
    play(slow, |stage| async move {
        // The first server gets a host; the second finds none.
        let good = id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
        delete(&stage.member, good).await.expect(204);
        stage.make_flavor("huge", 1, 1 << 30, 1).await;
        stage.admin.put(&format!("/os-quota-sets/{}", project(&stage).await), json!({"quota_set": {"ram": -1}})).await.expect(200);
        let bad = id_of(&stage.server().flavor("huge").ask(&stage.member).await.expect(202).body["server"]);
        let answer = delete(&stage.member, bad).await;
        assert_eq!(answer.status, 204, "{}", answer.text);
        // Until the server is gone it may be deleted again.
        for server in [good, bad] {
            let again = delete(&stage.member, server).await;
            assert!(matches!(again.status, 204 | 404), "{}", again.text);
        }
        carried_out(&stage).await;
        for server in [good, bad] {
            nothing_left(&stage, server).await;
        }
        assert_eq!((listed(&stage.member).await, instances_used(&stage.member).await), (vec![], json!(0)));
    });
}

#[test]
fn the_mapping_says_so_at_every_delete() {
    play(probed_often, |stage| async move {
        // The servers: in a cell, on a host that is off, to be force-deleted, and without a host.
        let plain = stage.create(stage.server()).await;
        let off = stage.create(stage.server()).await;
        let forced = stage.create(stage.server()).await;
        stage.make_flavor("huge", 1, 40_000, 1).await;
        let nowhere = id_of(&stage.server().flavor("huge").ask(&stage.member).await.expect(202).body["server"]);
        stage.at_rest(nowhere, "ERROR").await;
        let host = stage.host_of(off).await;
        let api = &stage.world().api;
        for server in [plain, off, forced, nowhere] {
            let mapping = api.instance_mapping(server).await.expect("a mapping");
            assert_eq!((mapping.queued_for_delete, mapping.user_id), (Some(false), Some(stage.member.user_id.clone())));
        }
        delete(&stage.member, plain).await.expect(204);
        stage.gone(plain).await;
        stage.power(&host, false).await;
        delete(&stage.member, off).await.expect(204);
        stage.gone(off).await;
        delete(&stage.member, nowhere).await.expect(204);
        stage.gone(nowhere).await;
        // No delete is deferred, so nothing can be restored, and a forced delete is an ordinary one.
        let refused = stage.member.act(forced, json!({"restore": null})).await.expect(409);
        assert_eq!(refused.message(), format!("Cannot 'restore' instance {forced} while it is in vm_state active"));
        assert_eq!(flag(&stage, forced).await, Some(false));
        stage.member.act(forced, json!({"forceDelete": null})).await.expect(202);
        stage.gone(forced).await;
        for server in [plain, off, forced, nowhere] {
            assert_eq!(flag(&stage, server).await, Some(true));
        }
        stage.power(&host, true).await;
        stage.until("debts are paid", || async { stage.world().operations.debts(None).await.expect("debts").is_empty() }).await;
    });
}

/// Returns the id of project demo.
async fn project(stage: &Arc<Stage>) -> String {
    let identity = &stage.running.cloud.services.identity;
    identity.ensure_project("demo").await.expect("a project").id
}
