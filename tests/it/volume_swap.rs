//! A swap of volumes: only Cinder may ask for one, for its own migration of a volume between stores. Each request has its refusal.

use serde_json::json;
use uuid::Uuid;

use crate::stage::play_default;

#[test]
fn a_swap_names_the_volume_that_does_not_exist() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let (held, other) = (stage.member.make_volume().await, stage.member.make_volume().await);
        stage.member.attach(server, held).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        let unknown = Uuid::from_u128(9);
        for (old, new, status) in [(unknown, other, 404), (held, unknown, 400), (held, other, 409), (other, held, 404)] {
            for version in ["2.1", "2.84", "2.85"] {
                let path = format!("/servers/{server}/os-volume_attachments/{old}");
                let body = json!({"volumeAttachment": {"volumeId": new}});
                let answer = stage.admin.speaking(version).put(&path, body.clone()).await.expect(status);
                assert!(answer.message().contains(&if new == unknown { new } else { old }.to_string()), "{}", answer.text);
                stage.member.speaking(version).put(&path, body).await.expect(403);
            }
        }
        // Before 2.85 every request asks for a swap.
        let body = json!({"volumeAttachment": {"volumeId": held}});
        stage.admin.speaking("2.84").put(&format!("/servers/{server}/os-volume_attachments/{held}"), body).await.expect(409);
        assert!(stage.attachments(server).await.contains_key(&held));
    });
}
