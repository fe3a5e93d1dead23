//! Evacuation: a host dies, and its servers are built anew on another one; the host comes back and finds its guests fenced.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, id_of};
use crate::resize_confirm::events;
use crate::stage::{Stage, hosts, play, play_default};

/// Makes a server on cell1-host1, and has that host die.
pub async fn stranded(stage: &Stage) -> Uuid {
    let server = stage.create_by(&stage.admin, stage.server().on_host("cell1-host1")).await;
    stage.power("cell1-host1", false).await;
    server
}

#[test]
fn a_locked_server_stays_where_a_member_may_evacuate() {
    let for_members = |config: &mut Config| {
        std::fs::write(config.policy_file(), "\"os_compute_api:os-evacuate\": \"rule:project_member_or_admin\"\n").expect("a policy");
    };
    play(for_members, |stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.admin.act(server, json!({"lock": null})).await.expect(202);
        stage.power(&source, false).await;
        let evacuate = async || stage.member.act(server, json!({"evacuate": {}})).await;
        let refused = evacuate().await.expect(409);
        assert!(refused.message().contains("locked"), "{}", refused.message());
        assert!(stage.admin.actions(server).await.iter().all(|action| action["action"] != "evacuate"));
        stage.admin.act(server, json!({"unlock": null})).await.expect(202);
        evacuate().await.expect(200);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_ne!(shown["OS-EXT-SRV-ATTR:host"], json!(source));
        stage.power(&source, true).await;
        stage.paid(server).await;
    });
}

/// Asks for an evacuation at this microversion.
pub async fn evacuate(stage: &Stage, version: &str, server: Uuid, body: Value) -> Answer {
    stage.admin.speaking(version).act(server, json!({ "evacuate": body })).await
}

/// Evacuates the server to any host.
pub async fn evacuate_anywhere(stage: &Stage, server: Uuid) {
    evacuate(stage, "2.90", server, json!({})).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
}

/// Has the source come back, and checks that nothing of the server is left there.
async fn source_is_cleaned(stage: &Stage, server: Uuid, target: &str) {
    stage.power("cell1-host1", true).await;
    stage.paid(server).await;
    assert!(stage.guest("cell1-host1", server).await.is_none());
    assert!(stage.report("cell1", "cell1-host1").await.claims.is_empty());
    assert_eq!(stage.runs_on(server).await, hosts(&[target]));
    assert_eq!(stage.holds(server).await, hosts(&[target]));
    let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
    assert_eq!(migration.status.to_string(), "completed");
    assert!(stage.holds(migration.uuid).await.is_empty());
}

#[test]
fn a_host_that_comes_back_finds_its_guest_fenced() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        let spec = stage.world().api.request_spec(server).await.expect("a spec");
        let answer = evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        assert_eq!(answer.text, "");
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
        assert_eq!((migration.migration_type.to_string(), migration.status.to_string()), ("evacuation".into(), "done".into()));
        assert_eq!(migration.dest_compute.as_deref(), Some("cell1-host2"));
        assert_eq!(stage.holds(migration.uuid).await, hosts(&["cell1-host1"]), "the source is charged until it is cleaned up");
        assert_eq!(stage.bindings(server).await[0], [("cell1-host2".to_owned(), "ACTIVE".to_owned())].into());
        source_is_cleaned(&stage, server, "cell1-host2").await;
        assert_eq!(stage.world().api.request_spec(server).await.expect("a spec"), spec, "no later move is tied to anything");
        let action = stage.admin.action(server, "evacuate").await;
        assert_eq!(
            events(&action),
            [("compute_rebuild_instance".to_owned(), "Success".to_owned()), ("rebuild_server".to_owned(), "Success".to_owned())]
        );
        let types = stage.notified(server).await;
        for event in ["instance.evacuate", "instance.rebuild_scheduled", "instance.rebuild.start", "instance.rebuild.end"] {
            assert!(types.iter().any(|name| name == event), "{event} in {types:?}");
        }
        stage.admin.migrate(server, Some("cell1-host1")).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}

#[test]
fn a_host_that_was_forced_down_but_lives_is_fenced() {
    play_default(|stage| async move {
        let server = stage.create_by(&stage.admin, stage.server().on_host("cell1-host1")).await;
        stage.force_down("cell1-host1", true).await;
        evacuate_anywhere(&stage, server).await;
        source_is_cleaned(&stage, server, "cell1-host2").await;
        stage.force_down("cell1-host1", false).await;
    });
}

#[test]
fn a_host_is_not_forced_up_before_it_is_cleaned_up() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        stage.force_down("cell1-host1", true).await;
        evacuate_anywhere(&stage, server).await;
        let body = json!({"host": "cell1-host1", "binary": "nova-compute", "forced_down": false});
        let answer = stage.admin.speaking("2.11").put("/os-services/force-down", body).await.expect(400);
        assert!(answer.message().contains("cannot be forced up"), "{}", answer.text);
        source_is_cleaned(&stage, server, "cell1-host2").await;
        stage.force_down("cell1-host1", false).await;
    });
}

#[test]
fn of_six_evacuations_one_is_accepted() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        let requests = (0..6).map(|_| evacuate(&stage, "2.90", server, json!({})));
        let mut answers: Vec<u16> = futures::future::join_all(requests).await.into_iter().map(|answer| answer.status).collect();
        answers.sort_unstable();
        // A request may come when the first has ended, and the new host is up.
        assert_eq!(answers[0], 200);
        assert!(answers[1..].iter().all(|status| [400, 409].contains(status)), "{answers:?}");
        stage.at_rest(server, "ACTIVE").await;
        source_is_cleaned(&stage, server, "cell1-host2").await;
    });
}

#[test]
fn a_stopped_server_stays_off_and_2_95_starts_none() {
    play_default(|stage| async move {
        let new = || stage.server().on_host("cell1-host1");
        let stopped = stage.create_by(&stage.admin, new().named("stopped")).await;
        let active = stage.create_by(&stage.admin, new().named("active")).await;
        stage.stop(&stage.admin, stopped).await;
        stage.power("cell1-host1", false).await;
        for (server, version) in [(stopped, "2.90"), (active, "2.95")] {
            evacuate(&stage, version, server, json!({})).await.expect(200);
            let shown = stage.at_rest(server, "SHUTOFF").await;
            assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
            assert!(stage.runs_on(server).await.is_empty());
        }
        stage.power("cell1-host1", true).await;
        stage.paid(stopped).await;
        stage.paid(active).await;
    });
}

#[test]
fn a_server_on_a_volume_keeps_its_bytes() {
    play_default(|stage| async move {
        let server = stage.create_by(&stage.admin, stage.volume_server().on_host("cell1-host1")).await;
        let volume = *stage.attachments(server).await.keys().next().expect("a volume");
        stage.power("cell1-host1", false).await;
        evacuate_anywhere(&stage, server).await;
        assert_eq!(stage.attachments(server).await[&volume], [Some("cell1-host2".to_owned())].into());
        source_is_cleaned(&stage, server, "cell1-host2").await;
    });
}

#[test]
fn an_evacuated_server_is_deleted_while_its_source_is_down() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        evacuate_anywhere(&stage, server).await;
        let migration = stage.migrations("cell1", server).await.pop().expect("a migration").uuid;
        stage.member.delete(&format!("/servers/{server}")).await;
        stage.admin.delete(&format!("/servers/{server}")).await;
        stage.gone(server).await;
        stage.power("cell1-host1", true).await;
        stage.paid(server).await;
        assert!(stage.guest("cell1-host1", server).await.is_none());
        assert!(stage.holds(migration).await.is_empty());
        assert_eq!(stage.migration_status("cell1", server).await, "completed");
    });
}

/// The record of the evacuation has gone along to the other cell.
#[test]
fn a_server_that_moved_on_and_is_deleted_leaves_no_open_move() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.power(&source, false).await;
        evacuate_anywhere(&stage, server).await;
        stage.cross(server).await;
        stage.confirm(server).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        stage.power(&source, true).await;
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        let moves = stage.migrations("cell2", server).await;
        let ends: Vec<String> = moves.iter().map(|migration| format!("{} {}", migration.migration_type, migration.status)).collect();
        assert_eq!(ends, ["evacuation completed", "resize confirmed"]);
    });
}

/// The record of the evacuation stays in the cell that the server has left, until the move is confirmed or reverted.
#[test]
fn a_move_that_waits_shows_no_open_evacuation_in_either_cell() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.power(&source, false).await;
        evacuate_anywhere(&stage, server).await;
        stage.cross(server).await;
        stage.confirm(server).await;
        stage.member.resize(server, "gen1.large").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.power(&source, true).await;
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        for cell in ["cell1", "cell2"] {
            let moves = stage.migrations(cell, server).await;
            let evacuation = moves.iter().find(|migration| migration.migration_type.as_str() == "evacuation").expect("it went along");
            assert_eq!(evacuation.status.as_str(), "completed", "in {cell}");
        }
    });
}

#[test]
fn a_service_stays_until_its_host_is_cleaned_up() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        evacuate_anywhere(&stage, server).await;
        let services = stage.admin.get("/os-services?host=cell1-host1&binary=nova-compute").await.expect(200).body;
        let service = services["services"][0]["id"].as_str().expect("a service").to_owned();
        let answer = stage.admin.delete(&format!("/os-services/{service}")).await.expect(409);
        assert!(answer.message().contains("in-progress migrations"), "{}", answer.text);
        source_is_cleaned(&stage, server, "cell1-host2").await;
    });
}

#[test]
fn evacuations_at_once_keep_an_anti_affinity_group_apart() {
    play_default(|stage| async move {
        let body = json!({"server_group": {"name": "apart", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}});
        let group = id_of(&stage.admin.post("/os-server-groups", body).await.expect(200).body["server_group"]);
        let mut servers = Vec::new();
        for (name, host) in [("one", "cell1-host1"), ("two", "cell1-host1"), ("three", "cell1-host2")] {
            servers.push(stage.create_by(&stage.admin, stage.server().named(name).on_host(host).in_group(group)).await);
        }
        stage.power("cell1-host1", false).await;
        let (one, two) = futures::join!(evacuate(&stage, "2.90", servers[0], json!({})), evacuate(&stage, "2.90", servers[1], json!({})));
        assert_eq!((one.status, two.status), (200, 200));
        let mut places = Vec::new();
        for server in &servers[..2] {
            let shown = stage.at_rest(*server, "ACTIVE").await;
            places.push(shown["OS-EXT-SRV-ATTR:host"].as_str().unwrap_or_default().to_owned());
        }
        places.sort();
        assert_eq!(places, ["cell1-host1", "cell1-host2"], "one has room there, the other stays where it was");
        stage.power("cell1-host1", true).await;
        for server in servers {
            stage.paid(server).await;
            stage.until("its guest runs", async || !stage.runs_on(server).await.is_empty()).await;
        }
    });
}
