//! Images and volumes of servers that are rebuilt, and images beside a volume that a server boots from.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, id_of};
use crate::stage::{Stage, play_default};

/// Another image of the member's, with bytes.
async fn another_image(stage: &Stage) -> Uuid {
    let new = json!({"name": "another", "disk_format": "raw", "container_format": "bare"});
    let image = id_of(&stage.member.post("/image/v2/images", new).await.expect(201).body);
    stage.member.upload(image, b"another system".to_vec()).await.expect(204);
    image
}

fn rebuild(image: Uuid) -> Value {
    json!({"rebuild": {"imageRef": image}})
}

/// A request for a server that boots from this volume.
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
        let host = stage.runs_on(server).await.pop_first().expect("a host");
        assert!(stage.disks(&host, server)["disk"].starts_with(b"another system"), "of the new image's bytes");
    });
}

#[test]
fn a_server_on_a_volume_of_its_owner_is_rebuilt_with_its_image() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": stage.image})).await;
        let server = stage.create(on_volume(&stage, volume)).await;
        let other = another_image(&stage).await;
        let refused = stage.member.act(server, rebuild(other)).await.expect(400);
        assert!(refused.message().contains("different image for a volume-backed server"), "{}", refused.message());
        let answer = stage.member.act(server, rebuild(stage.image)).await.expect(202).body;
        assert_eq!(answer["server"]["image"], "", "a server on a volume shows no image");
        stage.at_rest(server, "ACTIVE").await;
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
