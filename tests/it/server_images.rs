//! Snapshots and backups of servers: real bytes that boot, and a server that is as before.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, NewServer};
use crate::resize_confirm::contains;
use crate::stage::{Stage, play_default};

/// Asks for an image, and returns its id.
async fn snapshot(stage: &Stage, server: Uuid, body: Value) -> Uuid {
    let answer = stage.admin.speaking("2.45").act(server, body).await.expect(202);
    answer.body["image_id"].as_str().expect("an id").parse().expect("a uuid")
}

/// Returns the image once the server's operation is over.
async fn image(stage: &Stage, server: Uuid, id: Uuid) -> Answer {
    stage.ended(server).await;
    stage.admin.get(&format!("/image/v2/images/{id}")).await
}

#[test]
fn a_snapshot_of_a_running_server_boots_with_its_data() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.guest_writes("cell1-host1", server, b"dear data").await;
        let id = snapshot(&stage, server, json!({"createImage": {"name": "keepsake", "metadata": {"purpose": "test"}}})).await;
        let shown = image(&stage, server, id).await.body;
        assert_eq!((&shown["status"], &shown["name"], &shown["purpose"]), (&json!("active"), &json!("keepsake"), &json!("test")));
        assert_eq!((&shown["image_type"], &shown["instance_uuid"]), (&json!("snapshot"), &json!(server)));
        let at_rest = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(at_rest["OS-EXT-STS:power_state"], 1);
        let copy = stage.create_by(&stage.admin, NewServer::of_image(id).flavor("m1.tiny").on_host("cell1-host2")).await;
        assert!(contains(&stage.disks("cell1-host2", copy).await["disk"], b"dear data"));
        let notified = stage.notified(server).await;
        for event in ["instance.snapshot.start", "instance.snapshot.end"] {
            assert!(notified.contains(&event.to_owned()), "{notified:?}");
        }
    });
}

#[test]
fn a_snapshot_leaves_a_server_in_its_state() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        for (away, status, back) in [("os-stop", "SHUTOFF", "os-start"), ("pause", "PAUSED", "unpause"), ("suspend", "SUSPENDED", "resume")]
        {
            stage.admin.act(server, json!({away: null})).await.expect(202);
            stage.at_rest(server, status).await;
            let id = snapshot(&stage, server, json!({"createImage": {"name": status}})).await;
            assert_eq!(image(&stage, server, id).await.body["status"], "active");
            stage.at_rest(server, status).await;
            stage.admin.act(server, json!({back: null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
        }
    });
}

#[test]
fn below_2_45_the_answer_names_the_image_in_its_location() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let answer = stage.admin.speaking("2.44").act(server, json!({"createImage": {"name": "keepsake"}})).await.expect(202);
        let place = answer.headers["location"].to_str().expect("a location");
        let id: Uuid = place.rsplit('/').next().expect("an id").parse().expect("a uuid");
        assert!(place.contains("/image/v2/images/"), "{place}");
        assert_eq!(image(&stage, server, id).await.body["status"], "active");
    });
}

#[test]
fn an_upload_that_fails_leaves_no_image_and_a_running_guest() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.arm(|point| match (point.step, point.side, point.moment) {
            ("upload_image", "act", Moment::BeforeEffect) => StepFault::LoseReply,
            _ => StepFault::None,
        });
        let id = snapshot(&stage, server, json!({"createImage": {"name": "keepsake"}})).await;
        image(&stage, server, id).await.expect(404);
        stage.disarm();
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-STS:power_state"], 1);
    });
}

#[test]
fn backups_rotate_and_leave_protected_and_other_images_alone() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let daily = |name: &str, rotation: u64| json!({"createBackup": {"name": name, "backup_type": "daily", "rotation": rotation}});
        let mut made = Vec::new();
        for name in ["one", "two", "three"] {
            made.push(snapshot(&stage, server, daily(name, 2)).await);
            image(&stage, server, made[made.len() - 1]).await.expect(200);
        }
        let kept = snapshot(&stage, server, json!({"createImage": {"name": "keepsake"}})).await;
        image(&stage, server, kept).await.expect(200);
        image(&stage, server, made[0]).await.expect(404);
        for id in [made[1], made[2]] {
            assert_eq!(image(&stage, server, id).await.body["backup_type"], "daily");
        }
        stage.admin.speaking("2.45").act(server, daily("none", 0)).await.expect(202);
        for id in [made[1], made[2]] {
            image(&stage, server, id).await.expect(404);
        }
        image(&stage, server, kept).await.expect(200);
    });
}

#[test]
fn wrong_requests_for_images_are_refused() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        for body in [
            json!({"createImage": {}}),
            json!({"createImage": {"name": ""}}),
            json!({"createImage": {"name": "x", "metadata": {"a/b": "c"}}}),
            json!({"createBackup": {"name": "x", "backup_type": "daily", "rotation": -1}}),
            json!({"createBackup": {"name": "x", "backup_type": "daily"}}),
        ] {
            stage.admin.act(server, body).await.expect(400);
        }
        let on_volume = stage.create_by(&stage.admin, stage.volume_server().flavor("m1.tiny")).await;
        let backup = json!({"createBackup": {"name": "x", "backup_type": "daily", "rotation": 1}});
        stage.admin.act(on_volume, backup).await.expect(400);
    });
}
