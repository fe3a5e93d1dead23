//! Local disks beside the root disk, and injected files, move with the server, or the move is refused (NOVA-DIFFERENCES L18).

use serde_json::{Value, json};
use uuid::Uuid;

use crate::resize_confirm::contains;
use crate::stage::{Stage, play_default};

/// A flavor with an ephemeral disk and swap that fits any host.
async fn flavor(stage: &Stage, name: &str, ephemeral_gb: i32, swap_mb: i32) {
    let body = json!({"flavor": {
        "name": name, "id": name, "vcpus": 1, "ram": 512, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": ephemeral_gb, "swap": swap_mb,
    }});
    stage.admin.post("/flavors", body).await.expect(200);
}

async fn move_and_compare(stage: &Stage, server: Uuid, names: &[&str]) {
    stage.guest_writes("cell1-host1", server, b"dear data").await;
    assert_eq!(stage.disks("cell1-host1", server).await.into_keys().collect::<Vec<_>>(), names);
    stage.admin.migrate(server, Some("cell2-host1")).await.expect(202);
    stage.at_rest(server, "VERIFY_RESIZE").await;
    let there = stage.disks("cell2-host1", server).await;
    assert_eq!(there.keys().map(String::as_str).collect::<Vec<_>>(), names);
    for (name, bytes) in &there {
        assert!(contains(bytes, b"dear data"), "{name} has what was written to it");
    }
    stage.admin.confirm(server).await.expect(204);
    stage.at_rest(server, "ACTIVE").await;
}

#[test]
fn ephemeral_and_swap_disks_are_carried_across() {
    play_default(|stage| async move {
        flavor(&stage, "roomy", 1, 64).await;
        let server = stage.create_by(&stage.admin, stage.server().flavor("roomy").on_host("cell1-host1")).await;
        move_and_compare(&stage, server, &["disk", "disk.eph0", "disk.swap"]).await;
    });
}

#[test]
fn a_server_on_a_volume_takes_its_local_disks_along() {
    play_default(|stage| async move {
        flavor(&stage, "roomy", 1, 64).await;
        let server = stage.create_by(&stage.admin, stage.volume_server().flavor("roomy").on_host("cell1-host1")).await;
        move_and_compare(&stage, server, &["disk.eph0", "disk.swap"]).await;
    });
}

#[test]
fn a_smaller_ephemeral_disk_is_refused_at_once() {
    play_default(|stage| async move {
        flavor(&stage, "roomy", 2, 64).await;
        flavor(&stage, "tight", 1, 64).await;
        flavor(&stage, "without swap", 2, 0).await;
        let server = stage.create_by(&stage.admin, stage.server().flavor("roomy").on_host("cell1-host1")).await;
        let refused = stage.admin.resize(server, "tight").await.expect(400);
        assert!(refused.message().contains("ephemeral disk is too small"), "{}", refused.text);
        assert_eq!(stage.admin.status(server).await, "ACTIVE");
        assert!(stage.migrations("cell1", server).await.is_empty());
        // Swap has no data that must be kept.
        stage.admin.resize(server, "without swap").await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host");
        assert_eq!(stage.disks(target, server).await.into_keys().collect::<Vec<_>>(), ["disk", "disk.eph0"]);
        stage.admin.revert(server).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.disks("cell1-host1", server).await.into_keys().collect::<Vec<_>>(), ["disk", "disk.eph0", "disk.swap"]);
    });
}

#[test]
fn injected_files_stay_on_the_disk() {
    play_default(|stage| async move {
        let file: Value = json!([{"path": "/etc/motd", "contents": "d2VsY29tZSBob21l"}]);
        let old = stage.admin.speaking("2.56");
        let new = stage.server().with("networks", json!([{"uuid": network(&stage).await}]));
        let made = new.flavor("m1.tiny").with("availability_zone", json!("cell1")).with("personality", file).ask(&old).await.expect(202);
        let server = crate::client::id_of(&made.body["server"]);
        stage.at_rest(server, "ACTIVE").await;
        stage.admin.migrate(server, None).await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        let host = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        assert!(contains(&stage.disks(&host, server).await["disk"], b"d2VsY29tZSBob21l"));
        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
    });
}

async fn network(stage: &Stage) -> Value {
    let answer = stage.admin.get("/network/v2.0/networks?name=private").await.expect(200);
    answer.body["networks"][0]["id"].clone()
}
