//! Volumes that one project offers and another takes.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

const TRANSFERS: &str = "/volume/v3/os-volume-transfer";

async fn status(user: &User, volume: Uuid) -> Value {
    user.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"]["status"].clone()
}

async fn volume(stage: &Stage) -> Uuid {
    let request = json!({"volume": {"size": 1, "name": "data"}});
    let id = id_of(&stage.member.post("/volume/v3/volumes", request).await.expect(202).body["volume"]);
    stage.until("the volume is available", || async { status(&stage.member, id).await == "available" }).await;
    id
}

/// Offers a volume. Returns the offer.
async fn offer(stage: &Stage, volume: Uuid) -> Value {
    let request = json!({"transfer": {"volume_id": volume, "name": "gift"}});
    stage.member.post(TRANSFERS, request).await.expect(202).body["transfer"].clone()
}

#[test]
fn a_volume_goes_to_whoever_knows_the_key() {
    play_default(|stage| async move {
        let volume = volume(&stage).await;
        let request = json!({"snapshot": {"volume_id": volume}});
        let snapshot = id_of(&stage.member.post("/volume/v3/snapshots", request).await.expect(202).body["snapshot"]);
        let is_available =
            || async { stage.member.get(&format!("/volume/v3/snapshots/{snapshot}")).await.body["snapshot"]["status"] == "available" };
        stage.until("the snapshot is taken", is_available).await;
        let made = offer(&stage, volume).await;
        let (id, key) = (id_of(&made), made["auth_key"].as_str().expect("a key").to_owned());
        assert_eq!(status(&stage.member, volume).await, "awaiting-transfer");
        let shown = stage.member.get(&format!("{TRANSFERS}/{id}")).await.expect(200).body["transfer"].clone();
        assert_eq!((&shown["name"], &shown["volume_id"], &shown["auth_key"]), (&json!("gift"), &json!(volume), &Value::Null));
        let listed = stage.member.get(&format!("{TRANSFERS}?name=gift")).await.expect(200).body["transfers"].clone();
        assert_eq!((&listed[0]["id"], listed.as_array().map(Vec::len)), (&json!(id), Some(1)));

        let eve = stage.user("eve", "elsewhere", "member").await;
        eve.get(&format!("{TRANSFERS}/{id}")).await.expect(404);
        let accept = format!("{TRANSFERS}/{id}/accept");
        let wrong = eve.post(&accept, json!({"accept": {"auth_key": "0000000000000000"}})).await.expect(400);
        assert!(wrong.message().contains("invalid auth key"), "{}", wrong.text);
        let server = stage.create(stage.server()).await;
        let attach = json!({"volumeAttachment": {"volumeId": volume}});
        stage.member.post(&format!("/servers/{server}/os-volume_attachments"), attach).await.expect(400);
        stage.member.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(400);

        let accepted = eve.post(&accept, json!({"accept": {"auth_key": key}})).await.expect(202).body["transfer"].clone();
        assert_eq!(accepted["volume_id"], json!(volume));
        assert_eq!(status(&eve, volume).await, "available");
        eve.get(&format!("/volume/v3/snapshots/{snapshot}")).await.expect(200);
        stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(404);
        stage.member.get(&format!("/volume/v3/snapshots/{snapshot}")).await.expect(404);
        stage.member.get(&format!("{TRANSFERS}/{id}")).await.expect(404);
        eve.post(&accept, json!({"accept": {"auth_key": key}})).await.expect(404);
        eve.delete(&format!("/volume/v3/volumes/{volume}?cascade=true")).await.expect(202);
    });
}

#[test]
fn an_offer_can_be_withdrawn_and_the_quota_holds() {
    play_default(|stage| async move {
        let volume = volume(&stage).await;
        let made = offer(&stage, volume).await;
        let twice = stage.member.post(TRANSFERS, json!({"transfer": {"volume_id": volume}})).await.expect(400);
        assert!(twice.message().contains("awaiting-transfer"), "{}", twice.text);
        let id = id_of(&made);
        stage.member.delete(&format!("{TRANSFERS}/{id}")).await.expect(202);
        assert_eq!(status(&stage.member, volume).await, "available");
        stage.member.delete(&format!("{TRANSFERS}/{id}")).await.expect(404);

        let made = offer(&stage, volume).await;
        let eve = stage.user("eve", "elsewhere", "member").await;
        let project = stage.running.cloud.services.identity.ensure_project("elsewhere").await.expect("a project").id;
        let quota = format!("/volume/v3/os-quota-sets/{project}");
        stage.admin.put(&quota, json!({"quota_set": {"volumes": 0}})).await.expect(200);
        let accept = json!({"accept": {"auth_key": made["auth_key"]}});
        eve.post(&format!("{TRANSFERS}/{}/accept", id_of(&made)), accept.clone()).await.expect(413);
        assert_eq!(status(&stage.member, volume).await, "awaiting-transfer", "a refusal changes nothing");
        stage.admin.put(&quota, json!({"quota_set": {"volumes": 1}})).await.expect(200);
        eve.post(&format!("{TRANSFERS}/{}/accept", id_of(&made)), accept).await.expect(202);

        for body in [json!({}), json!({"transfer": {}}), json!({"transfer": {"volume_id": 7}}), json!({"transfer": {"volume_id": "none"}})]
        {
            stage.member.post(TRANSFERS, body).await.expect(400);
        }
        let missing = json!({"transfer": {"volume_id": Uuid::from_u128(1)}});
        stage.member.post(TRANSFERS, missing).await.expect(404);
        stage.member.get("/volume/v3/volume-transfers").await.expect(404);
    });
}
