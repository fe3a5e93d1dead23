//! Images of volume-backed servers: they name snapshots of the volumes, and new servers boot from these.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, NewServer, id_of};
use crate::resize_confirm::contains;
use crate::stage::{Stage, play_default};
use crate::volume_snapshots::{root_volume, written_last};

/// Makes a server on a root volume with a second volume.
async fn with_two_volumes(stage: &Stage) -> (Uuid, Uuid) {
    let server = stage.create(stage.volume_server()).await;
    let second = stage.member.make_volume().await;
    stage.member.attach(server, second).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
    (server, second)
}

/// Asks for an image, and returns it once the operation is over.
async fn image_of(stage: &Stage, server: Uuid) -> Value {
    let answer = stage.member.speaking("2.45").act(server, json!({"createImage": {"name": "keepsake"}})).await.expect(202);
    let id = answer.body["image_id"].as_str().expect("an id").to_owned();
    stage.ended(server).await;
    stage.member.get(&format!("/image/v2/images/{id}")).await.expect(200).body
}

async fn snapshots(stage: &Stage) -> Vec<Value> {
    let listed = stage.member.get("/volume/v3/snapshots/detail").await.expect(200).body;
    listed["snapshots"].as_array().expect("a list").clone()
}

/// Asks for an image that has these block devices.
async fn image_with(stage: &Stage, mapping: &str) -> Value {
    let request = json!({
        "name": "own", "disk_format": "raw", "container_format": "bare", "bdm_v2": "True", "block_device_mapping": mapping,
    });
    let made = stage.member.post("/image/v2/images", request).await.expect(201).body;
    stage.member.upload(id_of(&made), Vec::new()).await.expect(204);
    made
}

fn of_image(image: &Value) -> NewServer {
    NewServer::of_image(id_of(image))
}

#[test]
fn a_second_root_beside_the_images_own_is_refused() {
    play_default(|stage| async move {
        let local = json!({"boot_index": 0, "uuid": stage.image, "source_type": "image", "destination_type": "local"});
        let volume = json!({"boot_index": 0, "uuid": stage.image, "source_type": "image", "destination_type": "volume", "volume_size": 1});
        for devices in [json!([local, volume]), json!([volume, local]), json!([local, local]), json!([volume, volume])] {
            let new = json!({"server": {
                "name": "two roots", "flavorRef": "m1.tiny", "imageRef": stage.image, "networks": "none", "block_device_mapping_v2": devices,
            }});
            let refused = stage.member.speaking("2.37").post("/servers", new).await.expect(400);
            assert!(refused.message().contains("Boot sequence"), "{devices}: {}", refused.text);
        }
        assert_eq!(stage.member.get("/servers").await.expect(200).body["servers"], json!([]));
        assert_eq!(stage.member.get("/volume/v3/volumes").await.expect(200).body["volumes"], json!([]));
    });
}

#[test]
fn a_server_is_made_from_anothers_image_with_its_volumes() {
    play_default(|stage| async move {
        let (server, second) = with_two_volumes(&stage).await;
        let host = stage.host_of(server).await;
        stage.guest_writes(&host, server, b"dear data").await;
        let image = image_of(&stage, server).await;
        assert_eq!((&image["status"], &image["size"], &image["bdm_v2"]), (&json!("active"), &json!(0), &json!("True")));
        let mapping: Value = serde_json::from_str(image["block_device_mapping"].as_str().expect("a text")).expect("JSON");
        let sources: Vec<_> = mapping.as_array().expect("a list").iter().map(|device| device["source_type"].clone()).collect();
        assert_eq!(sources, ["snapshot", "snapshot"]);
        assert_eq!((&mapping[0]["boot_index"], &mapping[0]["device_name"]), (&json!(0), &json!("/dev/vda")));
        let list = snapshots(&stage).await;
        assert!(list.iter().all(|one| one["status"] == "available" && one["name"] == "snapshot for keepsake"), "{list:?}");
        assert!(list.iter().any(|one| one["volume_id"] == json!(second)) && list.len() == 2, "{list:?}");
        stage.guest_writes(&host, server, b"after the image").await;
        let copy = stage.create(of_image(&image)).await;
        assert_eq!(stage.at_rest(copy, "ACTIVE").await["image"], "");
        let volumes = stage.attachments(copy).await;
        assert_eq!(volumes.len(), 2);
        for volume in volumes.keys() {
            let bytes = written_last(&stage, *volume).await;
            assert!(contains(&bytes, b"dear data") && !contains(&bytes, b"after the image"));
        }
        stage.cross(copy).await;
        stage.confirm(copy).await;
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-STS:power_state"], 1);
    });
}

#[test]
fn snapshots_that_fail_leave_neither_image_nor_snapshot() {
    play_default(|stage| async move {
        let (server, _) = with_two_volumes(&stage).await;
        for step in ["create_snapshots", "create_image", "take_snapshots", "activate_image"] {
            stage.arm(move |point| match (point.step == step, point.side, point.moment) {
                (true, "act", Moment::AfterEffect) => StepFault::Refuse,
                _ => StepFault::None,
            });
            let body = json!({"createImage": {"name": "keepsake"}});
            stage.member.act(server, body).await.expect(202);
            stage.ended(server).await;
            stage.disarm();
            assert_eq!(snapshots(&stage).await, Vec::<Value>::new(), "{step}");
            let images = stage.member.get("/image/v2/images?name=keepsake").await.expect(200).body;
            assert_eq!(images["images"], json!([]), "{step}");
            assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-STS:task_state"], Value::Null);
        }
    });
}

#[test]
fn a_quota_without_room_for_the_snapshots_refuses_the_image() {
    play_default(|stage| async move {
        let (server, _) = with_two_volumes(&stage).await;
        let limits = json!({"quota_set": {"snapshots": 1}});
        let project = stage.member.get(&format!("/servers/{server}")).await.expect(200).body["server"]["tenant_id"].clone();
        let path = format!("/volume/v3/os-quota-sets/{}", project.as_str().expect("an id"));
        stage.admin.put(&path, limits).await.expect(200);
        let refused = stage.member.speaking("2.45").act(server, json!({"createImage": {"name": "keepsake"}})).await.expect(403);
        assert!(refused.message().contains("snapshots"), "{}", refused.text);
        assert_eq!(snapshots(&stage).await, Vec::<Value>::new());
    });
}

#[test]
fn only_a_new_server_can_use_an_image_without_bytes() {
    play_default(|stage| async move {
        let server = stage.create(stage.volume_server()).await;
        let image = image_of(&stage, server).await;
        let plain = stage.create(stage.server()).await;
        let id = &image["id"];
        let refused = |answer: Answer| assert!(answer.expect(400).message().contains("has no bytes"));
        refused(stage.member.act(plain, json!({"rebuild": {"imageRef": id}})).await);
        refused(stage.member.act(plain, json!({"rescue": {"rescue_image_ref": id}})).await);
        refused(NewServer::of_volume(id_of(&image)).ask(&stage.member).await);
        let snapshot = snapshots(&stage).await[0]["id"].clone();
        stage.member.delete(&format!("/image/v2/images/{}", id_of(&image))).await.expect(204);
        // The server's volume was to go with it, but stays while it has a snapshot.
        let volume = root_volume(&stage, server).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        let kept = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body;
        assert_eq!(kept["volume"]["status"], "available");
        let path = format!("/volume/v3/snapshots/{}", snapshot.as_str().expect("an id"));
        stage.member.get(&path).await.expect(200);
        stage.member.delete(&path).await.expect(202);
    });
}

#[test]
fn a_device_of_the_request_replaces_that_of_the_image() {
    play_default(|stage| async move {
        let (server, _) = with_two_volumes(&stage).await;
        let image = image_of(&stage, server).await;
        // Clients send the image again as a local root disk, which gives way to the image's own root.
        let devices = json!([
            {"source_type": "image", "destination_type": "local", "uuid": image["id"], "boot_index": 0},
            {"source_type": "blank", "destination_type": "volume", "volume_size": 2, "device_name": "vdb", "delete_on_termination": true},
        ]);
        let copy = stage.create(of_image(&image).with("block_device_mapping_v2", devices)).await;
        let volumes = stage.attachments(copy).await;
        assert_eq!(volumes.len(), 2);
        let root = root_of(&stage, copy).await;
        let mut sizes = Vec::new();
        for volume in volumes.keys().filter(|volume| **volume != root) {
            sizes.push(stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"]["size"].clone());
        }
        assert_eq!(sizes, [json!(2)]);
    });
}

async fn root_of(stage: &Stage, server: Uuid) -> Uuid {
    let shown = stage.member.get(&format!("/servers/{server}/os-volume_attachments")).await.expect(200).body;
    let attached = shown["volumeAttachments"].as_array().expect("a list");
    let root = attached.iter().find(|one| one["device"] == "/dev/vda").expect("a root");
    root["volumeId"].as_str().expect("an id").parse().expect("a uuid")
}

#[test]
fn devices_that_a_user_writes_into_an_image_are_checked() {
    play_default(|stage| async move {
        let foreign = stage.create_by(&stage.admin, stage.volume_server()).await;
        let foreign = root_volume(&stage, foreign).await;
        let snapshot = json!({"snapshot": {"volume_id": foreign, "force": true}});
        let snapshot = id_of(&stage.admin.post("/volume/v3/snapshots", snapshot).await.expect(202).body["snapshot"]);
        let root = |id: Value| json!([{"boot_index": 0, "source_type": "snapshot", "destination_type": "volume", "snapshot_id": id}]);
        let blank = json!([{"boot_index": 1, "source_type": "blank", "destination_type": "volume", "volume_size": -4}]);
        for (mapping, words) in [
            ("none".to_owned(), "is no JSON"),
            ("{}".to_owned(), "is not of type"),
            (json!([7]).to_string(), "is not of type"),
            (root(json!(5)).to_string(), "snapshot_id"),
            (root(json!(Uuid::from_u128(5))).to_string(), "failed to get snapshot"),
            (root(json!(snapshot)).to_string(), "failed to get snapshot"),
            (blank.to_string(), "volume_size"),
            (json!(vec![json!({"no_device": true}); 1000]).to_string(), "is too long"),
        ] {
            let image = image_with(&stage, &mapping).await;
            let refused = of_image(&image).ask(&stage.member).await.expect(400);
            assert!(refused.message().contains(words), "{mapping}: {}", refused.text);
        }
    });
}
