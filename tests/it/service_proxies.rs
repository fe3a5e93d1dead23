//! Older clients see images, volumes and snapshots by the compute API, below microversion 2.36.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

fn ids(body: &Value, collection: &str) -> Vec<Uuid> {
    body[collection].as_array().unwrap_or_else(|| panic!("{body}")).iter().map(id_of).collect()
}

/// Makes an image without bytes.
async fn image(user: &User, name: &str, extra: Value) -> Uuid {
    let mut body = json!({"name": name, "disk_format": "raw", "container_format": "bare"});
    body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    id_of(&user.post("/image/v2/images", body).await.expect(201).body)
}

/// Waits until a volume or a snapshot has its bytes.
async fn available(stage: &Stage, user: &User, path: &str, kind: &str) -> Value {
    stage.until("it is available", || async { user.get(path).await.expect(200).body[kind]["status"] == "available" }).await;
    user.get(path).await.expect(200).body[kind].clone()
}

#[test]
fn images_are_listed_filtered_shown_and_deleted() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.act(server, json!({"createImage": {"name": "kept"}})).await.expect(202);
        let user = stage.member.speaking("2.35");
        let images = "/compute/v2.1/images";
        stage
            .until("the snapshot is an image", || async {
                user.get(&format!("{images}?name=kept&status=ACTIVE")).await.expect(200).body["images"]
                    .as_array()
                    .is_some_and(|it| it.len() == 1)
            })
            .await;
        let plain = image(&user, "plain", json!({"min_ram": 64, "min_disk": 2, "colour": "blue"})).await;

        let kept = ids(&user.get(&format!("{images}?type=snapshot")).await.expect(200).body, "images")[0];
        for by_server in
            [format!("server={server}"), format!("server=http://cloud/servers/{server}"), "property-image_type=snapshot".into()]
        {
            assert_eq!(ids(&user.get(&format!("{images}/detail?{by_server}")).await.expect(200).body, "images"), [kept], "{by_server}");
        }
        for filter in ["minRam=64", "minDisk=2", "property-colour=blue", "status=QUEUED", "name=plain"] {
            assert_eq!(ids(&user.get(&format!("{images}?{filter}")).await.expect(200).body, "images"), [plain], "{filter}");
        }
        let first = user.get(&format!("{images}?limit=1")).await.expect(200).body;
        assert_eq!(ids(&first, "images"), [plain], "the newest is first");
        assert!(first["images_links"][0]["href"].as_str().is_some_and(|next| next.contains(&format!("marker={plain}"))), "{first}");
        let rest = ids(&user.get(&format!("{images}?marker={plain}")).await.expect(200).body, "images");
        assert_eq!(rest[0], kept);
        for bad in ["minRam=many", "changes-since=yesterday", "limit=x", "marker=none"] {
            user.get(&format!("{images}?{bad}")).await.expect(400);
        }
        let since = user.get(&format!("{images}/{plain}")).await.expect(200).body["image"]["updated"].clone();
        let since = since.as_str().expect("a time");
        assert!(ids(&user.get(&format!("{images}?changes-since={since}")).await.expect(200).body, "images").contains(&plain));
        assert_eq!(user.get(&format!("{images}?changes-since=2099-01-01T00:00:00Z")).await.expect(200).body, json!({"images": []}));

        let shown = user.get(&format!("{images}/{kept}")).await.expect(200).body["image"].clone();
        assert_eq!((&shown["status"], &shown["progress"]), (&json!("ACTIVE"), &json!(100)));
        assert_eq!((&shown["server"]["id"], &shown["metadata"]["image_type"]), (&json!(server), &json!("snapshot")));
        assert!(shown["OS-EXT-IMG-SIZE:size"].as_i64().is_some_and(|size| size > 0), "{shown}");
        let shown = user.get(&format!("{images}/{plain}")).await.expect(200).body["image"].clone();
        let states = (&shown["status"], &shown["progress"], &shown["minRam"], &shown["minDisk"], &shown["server"]);
        assert_eq!(states, (&json!("SAVING"), &json!(25), &json!(64), &json!(2), &Value::Null));

        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.35");
        eve.get(&format!("{images}/{plain}")).await.expect(404);
        eve.delete(&format!("{images}/{plain}")).await.expect(404);
        let public = id_of(&user.get(&format!("{images}?name=tiny")).await.expect(200).body["images"][0]);
        let refused = user.delete(&format!("{images}/{public}")).await.expect(403);
        assert_eq!(refused.message(), "You are not allowed to delete the image.");
        user.delete(&format!("{images}/{plain}")).await.expect(204);
        assert_eq!(user.get(&format!("{images}/{plain}")).await.expect(404).message(), "Image not found.");
        stage.member.speaking("2.36").get(images).await.expect(404);
    });
}

#[test]
fn properties_of_images_are_metadata() {
    play_default(|stage| async move {
        let user = stage.member.speaking("2.38");
        let id = image(&user, "plain", json!({"colour": "blue", "shape": "round"})).await;
        let all = format!("/compute/v2.1/images/{id}/metadata");
        assert_eq!(user.get(&all).await.expect(200).body, json!({"metadata": {"colour": "blue", "shape": "round"}}));
        let merged = user.post(&all, json!({"metadata": {"colour": "green", "taste": "sweet"}})).await.expect(200).body;
        assert_eq!(merged, json!({"metadata": {"colour": "green", "shape": "round", "taste": "sweet"}}));
        assert_eq!(user.get(&format!("{all}/taste")).await.expect(200).body, json!({"meta": {"taste": "sweet"}}));
        let put = user.put(&format!("{all}/taste"), json!({"meta": {"taste": "sour"}})).await.expect(200).body;
        assert_eq!(put, json!({"meta": {"taste": "sour"}}));
        user.put(&format!("{all}/taste"), json!({"meta": {"colour": "red"}})).await.expect(400);
        user.put(&format!("{all}/taste"), json!({"meta": {}})).await.expect(400);
        user.delete(&format!("{all}/taste")).await.expect(204);
        user.delete(&format!("{all}/taste")).await.expect(404);
        user.get(&format!("{all}/taste")).await.expect(404);
        let replaced = user.put(&all, json!({"metadata": {"one": "1"}})).await.expect(200).body;
        assert_eq!(replaced, json!({"metadata": {"one": "1"}}));
        assert_eq!(user.get(&format!("/image/v2/images/{id}")).await.expect(200).body["one"], json!("1"));

        // A property of an attribute's name would hide the attribute.
        for name in ["status", "owner", "name"] {
            user.post(&all, json!({"metadata": {name: "other"}})).await.expect(403);
        }
        let many: serde_json::Map<String, Value> = (0..129).map(|index| (format!("key{index}"), json!("value"))).collect();
        user.put(&all, json!({"metadata": many})).await.expect(403);
        for body in [json!({}), json!({"metadata": 7}), json!({"metadata": {"key": 7}}), json!({"metadata": {}, "more": 1})] {
            user.post(&all, body).await.expect(400);
        }
        assert_eq!(user.get(&all).await.expect(200).body, json!({"metadata": {"one": "1"}}));
        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.38");
        eve.get(&all).await.expect(404);
        let tiny = id_of(&stage.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        eve.post(&format!("/compute/v2.1/images/{tiny}/metadata"), json!({"metadata": {"mine": "1"}})).await.expect(403);
        stage.member.speaking("2.39").get(&all).await.expect(404);
    });
}

#[test]
fn volumes_and_snapshots_are_made_and_deleted() {
    play_default(|stage| async move {
        let user = stage.member.speaking("2.35");
        let request = json!({"volume": {"size": "1", "display_name": "data", "display_description": "of mine", "metadata": {"a": "b"}}});
        let made = user.post("/os-volumes", request).await.expect(200).body["volume"].clone();
        let volume = id_of(&made);
        let shown = available(&stage, &user, &format!("/os-volumes/{volume}"), "volume").await;
        let parts = (&shown["displayName"], &shown["displayDescription"], &shown["size"], &shown["metadata"], &shown["attachments"]);
        assert_eq!(parts, (&json!("data"), &json!("of mine"), &json!(1), &json!({"a": "b"}), &json!([{}])));
        assert_eq!(ids(&user.get("/os-volumes").await.expect(200).body, "volumes"), [volume]);

        let request = json!({"snapshot": {"volume_id": volume, "display_name": "before"}});
        let snapshot = id_of(&user.post("/os-snapshots", request).await.expect(200).body["snapshot"]);
        let shown = available(&stage, &user, &format!("/os-snapshots/{snapshot}"), "snapshot").await;
        assert_eq!((&shown["volumeId"], &shown["displayName"], &shown["size"]), (&json!(volume), &json!("before"), &json!(1)));
        assert_eq!(ids(&user.get("/os-snapshots/detail").await.expect(200).body, "snapshots"), [snapshot]);
        let copy = json!({"volume": {"size": 1, "snapshot_id": snapshot}});
        let copy = id_of(&user.post("/os-volumes", copy).await.expect(200).body["volume"]);
        let shown = available(&stage, &user, &format!("/os-volumes/{copy}"), "volume").await;
        assert_eq!(shown["snapshotId"], json!(snapshot));
        assert_eq!(ids(&user.get("/os-volumes/detail?limit=1").await.expect(200).body, "volumes").len(), 1);
        assert_eq!(ids(&user.get("/os-volumes?offset=1").await.expect(200).body, "volumes").len(), 1);

        let server = stage.create(stage.server()).await;
        stage.member.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        let attached = user.get(&format!("/os-volumes/{volume}")).await.expect(200).body["volume"]["attachments"][0].clone();
        assert_eq!((&attached["serverId"], &attached["volumeId"]), (&json!(server), &json!(volume)));
        user.delete(&format!("/os-volumes/{volume}")).await.expect(400);
        recorded(&stage, copy, server).await;
        let in_use = json!({"snapshot": {"volume_id": volume, "display_name": "live"}});
        user.post("/os-snapshots", in_use.clone()).await.expect(400);
        let mut forced = in_use;
        forced["snapshot"]["force"] = json!("True");
        let live = id_of(&user.post("/os-snapshots", forced).await.expect(200).body["snapshot"]);
        available(&stage, &user, &format!("/os-snapshots/{live}"), "snapshot").await;

        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.35");
        eve.get(&format!("/os-volumes/{copy}")).await.expect(404);
        eve.get(&format!("/os-snapshots/{snapshot}")).await.expect(404);
        eve.post("/os-snapshots", json!({"snapshot": {"volume_id": copy}})).await.expect(404);
        eve.post("/os-volumes", json!({"volume": {"size": 1, "snapshot_id": snapshot}})).await.expect(404);
        assert_eq!(eve.get("/os-volumes").await.expect(200).body, json!({"volumes": []}));
        for bad in [
            json!({"size": 0}),
            json!({"size": "x"}),
            json!({"display_name": "no size"}),
            json!({"size": 1, "more": 1}),
            json!({"size": 1, "availability_zone": "elsewhere"}),
        ] {
            user.post("/os-volumes", json!({"volume": bad})).await.expect(400);
        }
        user.get("/os-volumes/none").await.expect(404);
        user.delete(&format!("/os-snapshots/{snapshot}")).await.expect(202);
        user.delete(&format!("/os-volumes/{copy}")).await.expect(202);
        stage.until("the copy is gone", || async { user.get(&format!("/os-volumes/{copy}")).await.status == 404 }).await;
        stage.member.speaking("2.36").get("/os-volumes").await.expect(404);
        stage.member.speaking("2.36").get("/os-snapshots").await.expect(404);
    });
}

/// A user records an attachment of this volume, and makes it read-only: both are shown, and in the metadata the flag and the mode.
async fn recorded(stage: &Stage, volume: Uuid, server: Uuid) {
    let user = stage.member.speaking("2.35");
    let path = format!("/os-volumes/{volume}");
    let action = format!("/volume/v3/volumes/{volume}/action");
    let shown = || async { user.get(&path).await.expect(200).body["volume"].clone() };
    assert_eq!(shown().await["metadata"], json!({}));
    stage.member.post(&action, json!({"os-update_readonly_flag": {"readonly": true}})).await.expect(202);
    assert_eq!(shown().await["metadata"], json!({"readonly": "True"}));
    let attach = json!({"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdz", "mode": "ro"}});
    stage.member.post(&action, attach).await.expect(202);
    let attached = json!([{"id": volume, "volumeId": volume, "serverId": server, "device": "/dev/vdz"}]);
    let seen = shown().await;
    assert_eq!((&seen["attachments"], &seen["metadata"]), (&attached, &json!({"readonly": "True", "attached_mode": "ro"})));
    let listed = user.get("/os-volumes/detail").await.expect(200).body["volumes"].as_array().expect("volumes").clone();
    assert_eq!(listed.iter().find(|one| id_of(one) == volume).expect("the volume")["attachments"], attached);
    stage.member.post(&action, json!({"os-detach": {}})).await.expect(202);
    let seen = shown().await;
    assert_eq!((&seen["attachments"], &seen["metadata"]), (&json!([{}]), &json!({"readonly": "True"})));
    stage.member.post(&action, json!({"os-update_readonly_flag": {"readonly": false}})).await.expect(202);
    assert_eq!(shown().await["metadata"], json!({"readonly": "False"}));
}
