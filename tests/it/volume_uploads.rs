//! Images that are made from volumes.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, User, id_of};
use crate::stage::{Stage, play_default};

async fn volume(stage: &Stage, fields: Value) -> Uuid {
    let id = id_of(&stage.member.post("/volume/v3/volumes", json!({"volume": fields})).await.expect(202).body["volume"]);
    available(stage, id).await;
    id
}

async fn available(stage: &Stage, volume: Uuid) {
    let shown = || async { stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"]["status"].clone() };
    stage.until("the volume is available", || async { shown().await == "available" }).await;
}

async fn upload(user: &User, volume: Uuid, request: Value, status: u16) -> Value {
    let path = format!("/volume/v3/volumes/{volume}/action");
    user.post(&path, json!({"os-volume_upload_image": request})).await.expect(status).body["os-volume_upload_image"].clone()
}

#[test]
fn a_volume_becomes_an_image_that_boots() {
    play_default(|stage| async move {
        let source = stage.image;
        let volume = volume(&stage, json!({"size": 1, "imageRef": source, "name": "root"})).await;
        let begun = upload(&stage.member, volume, json!({"image_name": "of a volume"}), 202).await;
        assert_eq!(
            (&begun["status"], &begun["image_name"], &begun["disk_format"]),
            (&json!("uploading"), &json!("of a volume"), &json!("raw"))
        );
        let id: Uuid = begun["image_id"].as_str().expect("an id").parse().expect("a uuid");
        let shown = || async { stage.member.get(&format!("/image/v2/images/{id}")).await.expect(200).body };
        stage.until("the image is active", || async { shown().await["status"] == "active" }).await;
        available(&stage, volume).await;
        let image = shown().await;
        assert_eq!((&image["min_disk"], &image["name"], &image["container_format"]), (&json!(1), &json!("of a volume"), &json!("bare")));
        let original = stage.member.get(&format!("/image/v2/images/{source}")).await.expect(200).body;
        assert_eq!((&image["size"], &image["os_hash_value"]), (&original["size"], &original["os_hash_value"]), "the same bytes");
        stage.create(NewServer::of_image(id)).await;
    });
}

#[test]
fn uploads_that_cannot_be_are_refused() {
    play_default(|stage| async move {
        let volume = volume(&stage, json!({"size": 1})).await;
        for request in [
            json!({}),
            json!({"image_name": ""}),
            json!({"image_name": 7}),
            json!({"image_name": "x".repeat(256)}),
            json!({"image_name": "new", "disk_format": "qcow2"}),
            json!({"image_name": "new", "container_format": "box"}),
            json!({"image_name": "new", "force": "perhaps"}),
            json!({"image_name": "new", "visibility": "private"}),
            Value::Null,
        ] {
            upload(&stage.member, volume, request, 400).await;
        }
        available(&stage, volume).await;
        let eve = stage.user("eve", "elsewhere", "member").await;
        upload(&eve, volume, json!({"image_name": "new"}), 404).await;
        let server = stage.create(stage.server()).await;
        stage.member.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        upload(&stage.member, volume, json!({"image_name": "new", "force": true}), 400).await;
        let named = stage.member.get("/image/v2/images?name=new").await.expect(200).body;
        assert_eq!(named["images"], json!([]), "a refusal leaves no image");
    });
}
