//! A server is resized into another cell and comes back (NOVA-DIFFERENCES L23, L24).

use serde_json::json;
use uuid::Uuid;

use crate::resize_confirm::{assert_waits_in_cell2, contains, events};
use crate::stage::{Stage, hosts, play_default};

/// Checks a server that came back to its host in cell1.
async fn assert_is_back(stage: &Stage, server: Uuid, source: &str, ran: bool) {
    let shown = stage.at_rest(server, if ran { "ACTIVE" } else { "SHUTOFF" }).await;
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(source));
    assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell1");
    assert_eq!(shown["flavor"]["original_name"], "gen1.small");
    assert_eq!(shown["OS-EXT-STS:power_state"], json!(if ran { 1 } else { 4 }));
    let record = stage.record("cell1", server).await.expect("live");
    assert!(!record.hidden && record.old_flavor.is_none() && record.new_flavor.is_none() && record.old_vm_state.is_none());
    assert!(stage.cell("cell1").migration_context(server).await.expect("a context").is_none());
    assert!(stage.record("cell2", server).await.is_none());
    assert!(stage.migrations("cell2", server).await.is_empty());
    let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
    assert_eq!(migration.status.to_string(), "reverted");
    assert_eq!(stage.holds(server).await, hosts(&[source]));
    assert!(stage.holds(migration.uuid).await.is_empty());
    assert_eq!(stage.runs_on(server).await, if ran { hosts(&[source]) } else { hosts(&[]) });
    let target = migration.dest_compute.expect("a target");
    assert!(stage.guest(&target, server).await.is_none());
    assert!(stage.report("cell2", &target).await.claims.is_empty());
    for port in stage.bindings(server).await {
        assert_eq!(port, [(source.to_owned(), "ACTIVE".to_owned())].into_iter().collect());
    }
    for (volume, attachments) in stage.attachments(server).await {
        assert_eq!(attachments, [Some(source.to_owned())].into_iter().collect(), "volume {volume}");
    }
    assert_eq!(stage.world().api.request_spec(server).await.expect("a spec").flavor.name, "gen1.small");
}

#[test]
fn a_revert_keeps_volumes_attached_since_the_move() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.volume_server()).await;
        stage.cross(server).await;
        assert_waits_in_cell2(&stage, server, true).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.member.revert(server).await.expect(202);
        assert_is_back(&stage, server, &source, true).await;
        assert!(stage.attachments(server).await.contains_key(&volume));
        let guest = stage.guest(&source, server).await.expect("a guest");
        assert!(guest.volumes.contains(&volume), "the guest has it too");
        let listed = stage.member.get(&format!("/servers/{server}/os-volume_attachments")).await.expect(200);
        assert_eq!(listed.body["volumeAttachments"].as_array().map(Vec::len), Some(2));
        let action = stage.admin.action(server, "revertResize").await;
        let names = [
            "compute_finish_revert_snapshot_based_resize_at_source",
            "compute_revert_snapshot_based_resize_at_dest",
            "conductor_revert_snapshot_based_resize",
        ];
        assert_eq!(events(&action), names.map(|event| (event.to_owned(), "Success".to_owned())));
        let host_of = |name: &str| {
            let events = action["events"].as_array().expect("events");
            events.iter().find(|event| event["event"] == name).map(|event| event["host"].as_str().unwrap_or_default().to_owned())
        };
        assert_eq!(host_of(names[0]).as_deref(), Some(source.as_str()));
        assert!(host_of(names[1]).is_some_and(|host| host.starts_with("cell2-")));
        let types: Vec<String> = stage.notified(server).await;
        let types: Vec<&str> = types.iter().map(String::as_str).filter(|e| e.contains("revert") || e.ends_with("exists")).collect();
        assert_eq!(types, ["instance.resize_revert.start", "instance.exists", "instance.resize_revert.end"]);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        assert!(stage.attachments(server).await.is_empty());
    });
}

#[test]
fn a_volume_that_was_detached_meanwhile_stays_detached() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        stage.cross(server).await;
        assert_waits_in_cell2(&stage, server, true).await;
        stage.member.detach(server, volume).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert!(stage.attachments(server).await.is_empty(), "the source's reservation goes too (L24)");
        let shown = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200);
        assert_eq!(shown.body["volume"]["status"], "available");
        stage.member.revert(server).await.expect(202);
        assert_is_back(&stage, server, &source, true).await;
        assert!(stage.attachments(server).await.is_empty());
        assert!(stage.guest(&source, server).await.expect("a guest").volumes.is_empty());
    });
}

#[test]
fn a_stopped_server_comes_back_stopped_and_can_go_again() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.stop(&stage.member, server).await;
        stage.cross(server).await;
        assert_waits_in_cell2(&stage, server, false).await;
        stage.member.revert(server).await.expect(202);
        assert_is_back(&stage, server, &source, false).await;
        stage.cross(server).await;
        assert_waits_in_cell2(&stage, server, false).await;
    });
}

#[test]
fn the_disk_is_as_it_was_before_the_move() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.guest_writes(&source, server, b"before the move").await;
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        stage.guest_writes(&target, server, b"lost with the target").await;
        stage.member.revert(server).await.expect(202);
        assert_is_back(&stage, server, &source, true).await;
        let disk = &stage.disks(&source, server).await["disk"];
        assert!(contains(disk, b"before the move") && !contains(disk, b"lost with the target"));
    });
}

#[test]
fn changes_by_users_meanwhile_are_kept() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server().with("tags", json!(["blue"]))).await;
        stage.cross(server).await;
        let path = format!("/servers/{server}");
        stage.member.put(&path, json!({"server": {"name": "two", "description": "renamed"}})).await.expect(200);
        // Tags and metadata cannot be changed now.
        stage.member.put(&format!("{path}/tags/red"), json!(null)).await.expect(409);
        stage.member.post(&format!("{path}/metadata"), json!({"metadata": {"a": "b"}})).await.expect(409);
        stage.admin.act(server, json!({"lock": {"locked_reason": "mine"}})).await.expect(202);
        stage.member.revert(server).await.expect(409);
        stage.admin.revert(server).await.expect(202);
        assert_is_back(&stage, server, &source, true).await;
        let shown = stage.member.show(server).await;
        assert_eq!((&shown["name"], &shown["description"]), (&json!("two"), &json!("renamed")));
        assert_eq!((&shown["locked"], &shown["locked_reason"]), (&json!(true), &json!("mine")));
        assert_eq!(shown["tags"], json!(["blue"]));
        stage.admin.act(server, json!({"unlock": null})).await.expect(202);
    });
}
