//! Volumes whose status an administrator has reset to `available` while a server has them: nobody else gets them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

async fn act(user: &User, volume: Uuid, action: Value, status: u16) -> String {
    user.post(&format!("/volume/v3/volumes/{volume}/action"), action).await.expect(status).text
}

async fn shown(stage: &Stage, volume: Uuid) -> Value {
    stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone()
}

async fn reset(stage: &Stage, volume: Uuid) {
    act(&stage.admin, volume, json!({"os-reset_status": {"status": "available"}}), 202).await;
    assert_eq!(shown(stage, volume).await["status"], "available");
}

/// Makes a bootable volume, attaches it to a new server, and resets its status.
async fn reset_under_a_server(stage: &Stage) -> (Uuid, Uuid) {
    let image = stage.member.get("/image/v2/images").await.expect(200).body["images"][0]["id"].clone();
    let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": image})).await;
    let server = stage.create(stage.server()).await;
    stage.member.attach(server, volume).await.expect(200);
    stage.ended(server).await;
    reset(stage, volume).await;
    (server, volume)
}

#[test]
fn no_second_server_gets_a_volume_that_was_reset() {
    play_default(|stage| async move {
        let (server, volume) = reset_under_a_server(&stage).await;
        let second = stage.create(stage.server().named("two")).await;
        let why = format!("Invalid volume: volume {volume} is already attached to instances: {server}");
        assert_eq!(stage.member.attach(second, volume).await.expect(400).message(), why);
        let device =
            |boot_index: i32| json!([{"source_type": "volume", "destination_type": "volume", "uuid": volume, "boot_index": boot_index}]);
        let root = stage.server().with("imageRef", json!("")).with("block_device_mapping_v2", device(0));
        assert_eq!(root.ask(&stage.member).await.expect(400).message(), why);
        let data = stage.server().with("block_device_mapping_v2", device(-1));
        assert_eq!(data.ask(&stage.member).await.expect(400).message(), why);
        let servers = stage.member.get("/servers").await.expect(200).body;
        assert_eq!(servers["servers"].as_array().map(Vec::len), Some(2), "{servers}");
        assert_eq!(stage.attachments(server).await.keys().copied().collect::<Vec<_>>(), [volume]);

        stage.member.detach(server, volume).await.expect(202);
        stage.ended(server).await;
        let free = shown(&stage, volume).await;
        assert_eq!((&free["status"], &free["attachments"]), (&json!("available"), &json!([])));
        stage.member.attach(second, volume).await.expect(200);
        stage.ended(second).await;
    });
}

#[test]
fn nothing_of_the_volume_api_takes_a_volume_that_was_reset() {
    play_default(|stage| async move {
        let (member, (server, volume)) = (&stage.member, reset_under_a_server(&stage).await);
        let spare = member.make_volume().await;
        let backup = json!({"backup": {"volume_id": spare}});
        let backup = id_of(&member.post("/volume/v3/backups", backup).await.expect(202).body["backup"]);
        let path = format!("/volume/v3/backups/{backup}");
        stage.until("the backup is made", || async { member.get(&path).await.body["backup"]["status"] == "available" }).await;
        let before = shown(&stage, volume).await;

        let still = format!("volume {volume} is still attached.");
        for action in [json!({"os-reserve": null}), json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}})] {
            let refused = act(member, volume, action, 400).await;
            assert!(refused.contains(&still), "{refused}");
        }
        for (path, body) in [
            ("/volume/v3/volume-transfers".to_owned(), json!({"transfer": {"volume_id": volume}})),
            (format!("{path}/restore"), json!({"restore": {"volume_id": volume}})),
            ("/volume/v3/attachments".to_owned(), json!({"attachment": {"volume_uuid": volume, "instance_uuid": Uuid::from_u128(7)}})),
        ] {
            let refused = member.speaking("volume 3.60").post(&path, body).await.expect(400);
            assert!(refused.text.contains(&still), "{path}: {}", refused.text);
        }
        member.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(400);
        assert_eq!(shown(&stage, volume).await, before);
        assert_eq!(stage.attachments(server).await.len(), 1);
    });
}

#[test]
fn a_reset_volume_of_a_users_attachment_goes_to_no_server() {
    play_default(|stage| async move {
        let (volume, server) = (stage.member.make_volume().await, stage.create(stage.server()).await);
        let attach = json!({"os-attach": {"instance_uuid": Uuid::from_u128(7), "mountpoint": "/dev/vdb"}});
        act(&stage.member, volume, attach, 202).await;
        reset(&stage, volume).await;
        let refused = stage.member.attach(server, volume).await.expect(400);
        assert!(refused.message().contains("is already attached to instances: 00000000"), "{}", refused.text);
        assert_eq!(stage.attachments(server).await.len(), 0);
    });
}

#[test]
fn a_shared_volume_that_was_reset_goes_to_a_second_server() {
    play_default(|stage| async move {
        let member = stage.member.speaking("2.60");
        let types = member.get("/volume/v3/types").await.expect(200).body;
        let shared = types["volume_types"].as_array().expect("types").iter().find(|one| one["extra_specs"]["multiattach"] == "<is> True");
        let volume = member.make_volume_with(json!({"size": 1, "volume_type": shared.expect("a shared type")["id"]})).await;
        let (one, two) = (stage.create(stage.server()).await, stage.create(stage.server().named("two")).await);
        member.attach(one, volume).await.expect(200);
        stage.ended(one).await;
        reset(&stage, volume).await;
        member.attach(two, volume).await.expect(200);
        stage.ended(two).await;
        assert_eq!(shown(&stage, volume).await["attachments"].as_array().map(Vec::len), Some(2));
    });
}
