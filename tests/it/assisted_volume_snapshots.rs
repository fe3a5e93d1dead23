//! Snapshots of attached volumes that a volume driver has Nova assist with.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::stage::{Stage, play_default};

const PATH: &str = "/os-assisted-volume-snapshots";

async fn create(stage: &Stage, volume: Uuid, info: Value) -> Answer {
    stage.admin.post(PATH, json!({"snapshot": {"volume_id": volume, "create_info": info}})).await
}

async fn delete(stage: &Stage, snapshot: &str, info: &Value) -> Answer {
    stage.admin.delete(&format!("{PATH}/{snapshot}?delete_info={}", info.to_string().replace('"', "%22"))).await
}

fn info() -> Value {
    json!({"snapshot_id": Uuid::from_u128(7), "type": "qcow2", "new_file": "new"})
}

#[test]
fn an_attached_volumes_snapshot_is_answered_as_in_nova() {
    play_default(|stage| async move {
        let (server, volume) = (stage.create(stage.server()).await, stage.member.make_volume().await);
        let refused = create(&stage, volume, info()).await.expect(400);
        assert_eq!(refused.message(), format!("No volume Block Device Mapping with id {volume}."));
        delete(&stage, "None", &json!({"volume_id": volume})).await.expect(400);
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        let before = stage.attachments(server).await;

        let answer = create(&stage, volume, info()).await.expect(200);
        assert_eq!(answer.body, json!({"snapshot": {"id": null, "volumeId": volume}}));
        let mut named = info();
        named["id"] = json!("521752a6-acf6-4b2d-bc7a-119f9148cd8c");
        assert_eq!(create(&stage, volume, named.clone()).await.expect(200).body["snapshot"]["id"], named["id"]);
        for (key, wrong) in [("type", json!("raw")), ("new_file", json!("")), ("snapshot_id", json!(null)), ("more", json!(1))] {
            let mut body = info();
            body[key] = wrong;
            create(&stage, volume, body).await.expect(400);
        }
        // Tempest deletes the snapshot whose id it was told.
        delete(&stage, "None", &json!({"volume_id": volume})).await.expect(204);
        for wrong in [json!({}), json!({"volume_id": "none"}), json!({"volume_id": Uuid::nil()}), json!("text"), json!(null)] {
            delete(&stage, "None", &wrong).await.expect(400);
        }
        stage.admin.delete(&format!("{PATH}/None")).await.expect(400);
        stage.admin.delete(&format!("{PATH}/None?delete_info=x")).await.expect(400);
        assert_eq!(stage.attachments(server).await, before);

        let merge = json!({"volume_id": volume, "merge_target_file": "old"});
        delete(&stage, "None", &merge).await.expect(204);
        stage.stop(&stage.member, server).await;
        delete(&stage, "None", &merge).await.expect(400);
        delete(&stage, "None", &json!({"volume_id": volume})).await.expect(204);
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        let refused = create(&stage, volume, info()).await.expect(400);
        assert_eq!(refused.message(), format!("Instance {server} is not ready"));
    });
}

#[test]
fn a_volume_of_several_servers_has_no_assisted_snapshot() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume_with(json!({"size": 1, "volume_type": "local-multiattach"})).await;
        for name in ["one", "two"] {
            let server = stage.create(stage.server().named(name)).await;
            stage.member.speaking("2.60").attach(server, volume).await.expect(200);
            stage.at_rest(server, "ACTIVE").await;
        }
        let refused = create(&stage, volume, info()).await.expect(400);
        assert!(refused.message().contains("is a multi-attach volume"), "{}", refused.text);
    });
}

#[test]
fn a_server_at_work_has_no_assisted_snapshot() {
    play_default(|stage| async move {
        let (server, volume) = (stage.create(stage.server()).await, stage.member.make_volume().await);
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        let held = crate::held::Held::at(&stage, "stop_guest", cellshift::chaos::point::Moment::BeforeEffect);
        stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        held.met().await;
        let refused = create(&stage, volume, info()).await.expect(400);
        assert!(refused.message().contains("in task_state") && refused.message().contains("volume_snapshot_create"), "{}", refused.text);
        delete(&stage, "None", &json!({"volume_id": volume})).await.expect(400);
        held.release();
        stage.at_rest(server, "ACTIVE").await;
    });
}
