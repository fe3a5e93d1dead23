//! Backups of volumes: a server's data come back on a new volume after the first one is gone.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, play_default};

async fn status(stage: &Stage, path: &str, kind: &str) -> Value {
    stage.member.get(&format!("/volume/v3/{path}")).await.expect(200).body[kind]["status"].clone()
}

#[test]
fn a_servers_data_come_back_on_a_restored_volume() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.attach_a_volume(server).await;
        let host = stage.host_of(server).await;
        stage.guest_writes(&host, server, b"worth keeping").await;
        let request = |force: bool| json!({"backup": {"volume_id": volume, "name": "nightly", "force": force}});
        stage.member.post("/volume/v3/backups", request(false)).await.expect(400);
        let backup = id_of(&stage.member.post("/volume/v3/backups", request(true)).await.expect(202).body["backup"]);
        let path = format!("backups/{backup}");
        stage.until("the backup is made", || async { status(&stage, &path, "backup").await == "available" }).await;
        stage.member.delete(&format!("/servers/{server}/os-volume_attachments/{volume}")).await.expect(202);
        stage.ended(server).await;
        stage.member.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(202);
        let restored = stage.member.post(&format!("/volume/v3/{path}/restore"), json!({"restore": {}})).await.expect(202).body;
        let new: Uuid = restored["restore"]["volume_id"].as_str().and_then(|id| id.parse().ok()).expect("a volume");
        let of_new = format!("volumes/{new}");
        stage.until("the volume is restored", || async { status(&stage, &of_new, "volume").await == "available" }).await;
        let bytes = std::fs::read(stage.running.cloud.config.data_dir.join("volumes").join(new.to_string())).expect("its file");
        assert!(bytes.windows(13).any(|window| window == b"worth keeping"), "the guest's bytes are on it");
        stage.member.attach(server, new).await.expect(200);
        stage.ended(server).await;
        stage.until("the backup is free", || async { status(&stage, &path, "backup").await == "available" }).await;
        stage.member.delete(&format!("/volume/v3/{path}")).await.expect(202);
        stage.member.get(&format!("/volume/v3/{path}")).await.expect(404);
    });
}
