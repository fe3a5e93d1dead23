//! Servers on volumes that are made from snapshots.

use std::io::{Read, Seek, SeekFrom};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, id_of};
use crate::resize_confirm::contains;
use crate::stage::{Stage, play_default};

/// Takes a snapshot of a volume in use, and waits until it is available.
async fn snapshot(stage: &Stage, volume: Uuid) -> Uuid {
    let request = json!({"snapshot": {"volume_id": volume, "force": true}});
    let id = id_of(&stage.member.post("/volume/v3/snapshots", request).await.expect(202).body["snapshot"]);
    let shown = || async { stage.member.get(&format!("/volume/v3/snapshots/{id}")).await.expect(200).body["snapshot"]["status"].clone() };
    stage.until("the snapshot is available", || async { shown().await == "available" }).await;
    id
}

fn on_snapshot(stage: &Stage, snapshot: impl Into<Value>, size_gb: Option<i32>) -> NewServer {
    let mut root = json!({
        "source_type": "snapshot", "destination_type": "volume", "uuid": snapshot.into(), "boot_index": 0, "delete_on_termination": true,
    });
    if let Some(size_gb) = size_gb {
        root["volume_size"] = json!(size_gb);
    }
    NewServer::of_volume(stage.image).with("block_device_mapping_v2", json!([root]))
}

/// Returns the only volume of a server.
pub async fn root_volume(stage: &Stage, server: Uuid) -> Uuid {
    *stage.attachments(server).await.first_key_value().expect("a volume").0
}

/// Returns the last bytes of a volume, where its guests write.
pub async fn written_last(stage: &Stage, volume: Uuid) -> Vec<u8> {
    let stored = stage.world().volumes.stored_bytes().await.expect("volumes");
    let path = &stored.iter().find(|file| file.id == volume).expect("the volume").path;
    let mut file = std::fs::File::open(path).expect("its file");
    file.seek(SeekFrom::End(-(16 << 10))).expect("its end");
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).expect("its bytes");
    tail
}

#[test]
fn a_server_boots_from_a_snapshot_and_moves_with_it() {
    play_default(|stage| async move {
        let (first, host) = stage.create_on_a_host(stage.volume_server()).await;
        stage.guest_writes(&host, first, b"of the first server").await;
        let volume = root_volume(&stage, first).await;
        let snapshot = snapshot(&stage, volume).await;
        stage.guest_writes(&host, first, b"after the snapshot").await;
        let second = stage.create(on_snapshot(&stage, json!(snapshot), None)).await;
        let copy = root_volume(&stage, second).await;
        let bytes = written_last(&stage, copy).await;
        assert!(contains(&bytes, b"of the first server") && !contains(&bytes, b"after the snapshot"));
        let shown = stage.member.get(&format!("/volume/v3/volumes/{copy}")).await.expect(200).body["volume"].clone();
        assert_eq!((&shown["snapshot_id"], &shown["size"], &shown["bootable"]), (&json!(snapshot), &json!(1), &json!("true")));
        stage.cross(second).await;
        stage.confirm(second).await;
        assert!(contains(&written_last(&stage, copy).await, b"of the first server"));
        stage.member.delete(&format!("/servers/{second}")).await.expect(204);
        stage.gone(second).await;
        stage.member.get(&format!("/volume/v3/volumes/{copy}")).await.expect(404);
        stage.member.get(&format!("/volume/v3/snapshots/{snapshot}")).await.expect(200);
    });
}

#[test]
fn a_snapshot_that_no_server_can_boot_from_is_refused() {
    play_default(|stage| async move {
        let blank = stage.member.make_volume().await;
        let not_bootable = snapshot(&stage, blank).await;
        let server = stage.create(stage.volume_server()).await;
        let good = snapshot(&stage, root_volume(&stage, server).await).await;
        for (snapshot, size_gb, words) in [
            (json!(not_bootable), None, "is not bootable"),
            (json!(Uuid::from_u128(5)), None, "failed to get snapshot"),
            (json!("root"), None, "failed to get snapshot"),
            (json!(good), Some(0), ""),
        ] {
            let refused = on_snapshot(&stage, snapshot, size_gb).ask(&stage.member).await.expect(400);
            assert!(refused.message().contains(words), "{}", refused.text);
        }
        let servers = stage.member.get("/servers").await.expect(200).body;
        assert_eq!(servers["servers"].as_array().map(Vec::len), Some(1), "nothing was made");
    });
}

#[test]
fn the_owner_sets_the_progress_of_a_snapshot() {
    play_default(|stage| async move {
        let (demo, volume) = (&stage.member, stage.member.make_volume().await);
        let snapshot = snapshot(&stage, volume).await;
        let (path, action) = (format!("/volume/v3/snapshots/{snapshot}"), format!("/volume/v3/snapshots/{snapshot}/action"));
        let tell = |change: Value| json!({"os-update_snapshot_status": change});
        let refused = demo.post(&action, tell(json!({"status": "error"}))).await.expect(400);
        assert!(refused.message().contains("available not allowed"), "{}", refused.text);
        stage.admin.post(&action, json!({"os-reset_status": {"status": "creating"}})).await.expect(202);
        for wrong in [
            json!({}),
            json!({"status": "error_deleting"}),
            json!({"status": "error", "progress": "80"}),
            json!({"status": "error", "progress": "101%"}),
            json!({"status": "error", "more": 1}),
        ] {
            demo.post(&action, tell(wrong)).await.expect(400);
        }
        let eve = stage.user("eve", "elsewhere", "member").await;
        eve.post(&action, tell(json!({"status": "error"}))).await.expect(404);
        demo.post(&action, tell(json!({"status": "error", "progress": "80%"}))).await.expect(202);
        let shown = demo.get(&path).await.expect(200).body["snapshot"].clone();
        assert_eq!((&shown["status"], &shown["os-extended-snapshot-attributes:progress"]), (&json!("error"), &json!("80%")));
        stage.admin.post(&action, json!({"os-reset_status": {"status": "creating"}})).await.expect(202);
        demo.post(&action, tell(json!({"status": "available", "progress": "100%"}))).await.expect(202);
        assert_eq!(demo.get(&path).await.expect(200).body["snapshot"]["status"], "available", "it has its bytes");
    });
}

#[test]
fn a_snapshot_is_of_a_volume_and_lists_sort_by_known_keys() {
    play_default(|stage| async move {
        let demo = &stage.member;
        demo.post("/volume/v3/snapshots", json!({"snapshot": {"name": "s"}})).await.expect(400);
        demo.post("/volume/v3/snapshots", json!({"snapshot": {"name": "s", "volume_id": null}})).await.expect(404);
        for list in ["volumes", "snapshots", "backups", "os-volume-transfer"] {
            // Empty lists know their keys, too.
            let refused = demo.get(&format!("/volume/v3/{list}?sort_key=invalid")).await.expect(400);
            assert!(refused.message().contains("Invalid sort key"), "{}", refused.text);
            demo.get(&format!("/volume/v3/{list}?sort=id:asc,created_at")).await.expect(200);
        }
    });
}
