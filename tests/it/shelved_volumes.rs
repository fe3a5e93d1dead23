//! Volumes that come and go while their server is shelved.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::shelve::{assert_on_no_host, shelve};
use crate::stage::{Stage, play, play_default};

async fn shown(stage: &Stage, volume: Uuid) -> Value {
    stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone()
}

async fn status_of(stage: &Stage, volume: Uuid) -> Value {
    shown(stage, volume).await["status"].clone()
}

#[test]
fn an_offloaded_server_gets_its_volume_when_it_runs_again() {
    play_default(|stage| async move {
        let member = stage.member.speaking("2.96");
        let server = stage.create(stage.server()).await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        let (kept, dropped) = (member.make_volume().await, member.make_volume().await);
        for volume in [kept, dropped] {
            member.attach(server, volume).await.expect(200);
            stage.ended(server).await;
            let shown = shown(&stage, volume).await;
            assert_eq!((&shown["status"], &shown["attachments"][0]["server_id"]), (&json!("in-use"), &json!(server)));
            assert_eq!(shown["attachments"][0]["host_name"], Value::Null);
            assert_on_no_host(&stage, server).await;
        }
        let attach = member.action(server, "attach_volume").await;
        assert_eq!((&attach["events"][0]["event"], &attach["events"][0]["result"]), (&json!("api_attach_volume"), &json!("Success")));
        member.detach(server, dropped).await.expect(202);
        stage.ended(server).await;
        assert_eq!(status_of(&stage, dropped).await, "available");

        member.act(server, json!({"unshelve": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let host = stage.host_of(server).await;
        assert_eq!(stage.guest(&host, server).await.expect("a guest").volumes, [kept]);
        assert_eq!(status_of(&stage, kept).await, "in-use");
        assert_eq!(shown(&stage, kept).await["attachments"].as_array().map(Vec::len), Some(1));

        // An offload reserves what was connected, as Nova's does.
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        let reserved = shown(&stage, kept).await;
        assert_eq!((&reserved["status"], &reserved["attachments"]), (&json!("reserved"), &json!([])));
    });
}

#[test]
fn a_volume_comes_to_a_shelved_server_on_its_host() {
    play(
        |config: &mut Config| config.compute.shelved_offload_time = -1,
        |stage| async move {
            let member = stage.member.speaking("2.96");
            let (server, host) = stage.create_on_a_host(stage.server()).await;
            shelve(&stage, server, "SHELVED").await;
            let volume = member.make_volume().await;
            stage.member.speaking("2.19").attach(server, volume).await.expect(409);
            member.attach(server, volume).await.expect(200);
            stage.ended(server).await;
            assert_eq!(stage.guest(&host, server).await.expect("a guest").volumes, [volume]);
            stage.admin.act(server, json!({"shelveOffload": null})).await.expect(202);
            stage.at_rest(server, "SHELVED_OFFLOADED").await;
            assert_on_no_host(&stage, server).await;
            stage.member.speaking("2.19").detach(server, volume).await.expect(409);
            member.detach(server, volume).await.expect(202);
            stage.ended(server).await;
            assert_eq!(status_of(&stage, volume).await, "available");
        },
    );
}

#[test]
fn an_offloaded_server_takes_no_tag_and_no_shared_volume() {
    play_default(|stage| async move {
        let member = stage.member.speaking("2.96");
        let server = stage.create(stage.server()).await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        let volume = member.make_volume().await;
        let path = format!("/servers/{server}/os-volume_attachments");
        let tagged = member.post(&path, json!({"volumeAttachment": {"volumeId": volume, "tag": "data"}})).await.expect(400);
        assert_eq!(tagged.message(), "Tagged volume attachment is not supported for shelved-offloaded instances.");
        let types = member.get("/volume/v3/types").await.expect(200).body;
        let shared = types["volume_types"].as_array().expect("types").iter().find(|one| one["extra_specs"]["multiattach"] == "<is> True");
        let shared = member.make_volume_with(json!({"size": 1, "volume_type": shared.expect("a shared type")["name"]})).await;
        let refused = member.attach(server, shared).await.expect(400);
        assert_eq!(refused.message(), "Attaching multiattach volumes is not supported for shelved-offloaded instances.");
        assert!(stage.attachments(server).await.is_empty());
    });
}
