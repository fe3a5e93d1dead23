//! Images and volumes of rebuilt servers, and images beside a volume from which a server boots.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, id_of};
use crate::stage::{Stage, play_default};

/// Makes another image of the member's with bytes.
async fn another_image(stage: &Stage) -> Uuid {
    let new = json!({"name": "another", "disk_format": "raw", "container_format": "bare"});
    let image = id_of(&stage.member.post("/image/v2/images", new).await.expect(201).body);
    stage.member.upload(image, b"another system".to_vec()).await.expect(204);
    image
}

fn rebuild(image: Uuid) -> Value {
    json!({"rebuild": {"imageRef": image}})
}

/// Returns the request for a server that boots from this volume.
fn on_volume(stage: &Stage, volume: Uuid) -> NewServer {
    let root = json!({"source_type": "volume", "destination_type": "volume", "uuid": volume, "boot_index": 0});
    NewServer::of_volume(stage.image).with("block_device_mapping_v2", json!([root]))
}

#[test]
fn the_answer_to_a_rebuild_shows_the_new_image() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let image = another_image(&stage).await;
        let answer = stage.member.act(server, rebuild(image)).await.expect(202).body;
        assert_eq!(answer["server"]["image"]["id"], json!(image), "{answer:#}");
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["image"]["id"], json!(image));
        let host = stage.host_of(server).await;
        assert!(stage.disks(&host, server).await["disk"].starts_with(b"another system"), "of the new image's bytes");
    });
}

/// Returns the server's metadata as its guest read them at its last first boot.
async fn metadata_in_guest(stage: &Stage, server: Uuid) -> Value {
    let host = stage.host_of(server).await;
    let disk = String::from_utf8_lossy(&stage.disks(&host, server).await["disk"]).into_owned();
    let line = disk.lines().rev().find_map(|line| line.strip_prefix("config-drive ")).expect("a first boot").to_owned();
    serde_json::from_str::<Value>(&line).expect("JSON")["meta"].clone()
}

#[test]
fn preserve_ephemeral_is_refused_before_anything_is_touched() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        let before = stage.disks(&host, server).await;
        for keep in [json!(true), json!("True")] {
            let refused = stage.member.act(server, json!({"rebuild": {"imageRef": stage.image, "preserve_ephemeral": keep}})).await;
            assert!(refused.expect(400).message().contains("preserve_ephemeral is not supported"));
        }
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.disks(&host, server).await, before, "nothing was touched");
        assert!(stage.admin.actions(server).await.iter().all(|action| action["action"] != "rebuild"));
        let may_go = json!({"rebuild": {"imageRef": stage.image, "preserve_ephemeral": false}});
        stage.member.act(server, may_go).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_guest_reads_its_metadata_after_a_rebuild_too() {
    play_default(|stage| async move {
        let server = stage.create(stage.server().with("metadata", json!({"role": "db"}))).await;
        assert_eq!(metadata_in_guest(&stage, server).await, json!({"role": "db"}));
        stage.member.act(server, rebuild(stage.image)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(metadata_in_guest(&stage, server).await, json!({"role": "db"}));
        let changed = json!({"rebuild": {"imageRef": stage.image, "metadata": {"role": "web"}}});
        stage.member.act(server, changed).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(metadata_in_guest(&stage, server).await, json!({"role": "web"}));
    });
}

#[test]
fn a_server_on_a_volume_of_its_owner_is_rebuilt_with_its_image() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": stage.image})).await;
        let server = stage.create(on_volume(&stage, volume)).await;
        let other = another_image(&stage).await;
        let member = stage.member.speaking("2.92");
        let refused = member.act(server, rebuild(other)).await.expect(400);
        assert!(refused.message().contains("different image for a volume-backed server"), "{}", refused.message());
        let answer = member.act(server, rebuild(stage.image)).await.expect(202).body;
        assert_eq!(answer["server"]["image"], "", "a server on a volume shows no image");
        stage.at_rest(server, "ACTIVE").await;
    });
}

/// Returns the bytes of a volume.
async fn bytes_of(stage: &Stage, volume: Uuid) -> Vec<u8> {
    let stored = stage.world().volumes.stored_bytes().await.expect("volumes");
    let path = &stored.iter().find(|file| file.id == volume).expect("the volume").path;
    let mut head = vec![0; 64 << 10];
    let read = std::io::Read::read(&mut std::fs::File::open(path).expect("its file"), &mut head).expect("its bytes");
    head.truncate(read);
    head
}

#[test]
fn from_2_93_a_rebuild_fills_the_root_volume_anew() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": stage.image})).await;
        let server = stage.create(on_volume(&stage, volume)).await;
        let image = another_image(&stage).await;
        let answer = stage.member.speaking("2.93").act(server, rebuild(image)).await.expect(202).body;
        assert_eq!(answer["server"]["image"], "", "a server on a volume shows no image");
        stage.at_rest(server, "ACTIVE").await;
        assert!(bytes_of(&stage, volume).await.starts_with(b"another system"), "of the new image's bytes");
        let shown = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body;
        assert_eq!(shown["volume"]["volume_image_metadata"]["image_id"], json!(image), "{shown:#}");
        assert_eq!((&shown["volume"]["status"], &shown["volume"]["bootable"]), (&json!("in-use"), &json!("true")));
        let attachments = shown["volume"]["attachments"].as_array().expect("attachments").clone();
        assert_eq!((attachments.len(), &attachments[0]["server_id"]), (1, &json!(server)), "it is held as before");
        assert!(!stage.runs_on(server).await.is_empty(), "the guest runs again");
        // A rebuild with the same image discards what the guest wrote since.
        stage.member.speaking("2.93").act(server, rebuild(image)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_root_volume_too_small_for_the_image_is_left_alone() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": stage.image})).await;
        let server = stage.create(on_volume(&stage, volume)).await;
        let new = json!({"name": "large", "disk_format": "raw", "container_format": "bare", "min_disk": 2});
        let large = id_of(&stage.member.post("/image/v2/images", new).await.expect(201).body);
        stage.member.upload(large, b"large system".to_vec()).await.expect(204);
        let refused = stage.member.speaking("2.93").act(server, rebuild(large)).await.expect(400);
        assert!(refused.message().contains("Volume is too small for requested image"), "{}", refused.message());
        stage.at_rest(server, "ACTIVE").await;
        assert!(!bytes_of(&stage, volume).await.starts_with(b"large"));
    });
}

#[test]
fn an_image_beside_a_root_volume_without_a_system_is_accepted() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume().await;
        let refused = on_volume(&stage, volume).ask(&stage.member).await.expect(400);
        assert!(refused.message().contains("not bootable"), "{}", refused.message());
        let server = stage.create(on_volume(&stage, volume).with("imageRef", json!(stage.image))).await;
        assert_eq!(stage.member.show(server).await["image"], "", "it boots from the volume");
    });
}
