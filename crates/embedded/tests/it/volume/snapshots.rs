//! Tests of snapshots, and of volumes made from snapshots and volumes, as clients use them.

use cellshift_domain::fence::Fence;
use cellshift_embedded::testkit;
use cellshift_embedded::volume::VolumeService;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::door::{with_member, with_users};
use crate::volume::testing::{ask, file, head, settled, volume_with};

#[actix_web::test]
async fn a_snapshot_has_the_bytes_of_its_moment_and_fills_volumes() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let volume = volume_with(&world, b"boot me").await;
    let body = json!({"snapshot": {"volume_id": volume, "name": "before", "metadata": {"k": "v"}}});
    let (status, snapshot) = ask!(app, demo, "3.0", POST "/snapshots", body);
    assert_eq!((status, &snapshot["snapshot"]["status"]), (202, &json!("creating")));
    let id = snapshot["snapshot"]["id"].clone();
    let path = format!("/snapshots/{}", id.as_str().unwrap());
    let shown = settled!(app, demo, "snapshot", path);
    assert_eq!(shown["os-extended-snapshot-attributes:progress"], "100%");
    assert_eq!((&shown["size"], &shown["volume_id"], &shown["metadata"]), (&json!(1), &json!(volume), &json!({"k": "v"})));

    // The guest writes on; the snapshot and the volumes made from it do not change.
    std::fs::write(file(&world, &volume.to_string()), "later bytes").unwrap();
    let (status, copied) = ask!(app, demo, "3.0", POST "/volumes", json!({"volume": {"snapshot_id": id, "name": "copy"}}));
    assert_eq!((status, &copied["volume"]["size"], &copied["volume"]["snapshot_id"]), (202, &json!(1), &id));
    let copy = settled!(app, demo, "volume", format!("/volumes/{}", copied["volume"]["id"].as_str().unwrap()));
    assert_eq!((&copy["status"], &copy["bootable"]), (&json!("available"), &json!("true")));
    assert_eq!(head(&world, copy["id"].as_str().unwrap(), 9), b"boot me\0\0");
    assert!(copy["volume_image_metadata"]["image_id"].is_string(), "a server can boot from it as from the first volume");

    let (status, cloned) = ask!(app, demo, "3.0", POST "/volumes", json!({"volume": {"source_volid": copy["id"]}}));
    assert_eq!((status, &cloned["volume"]["source_volid"]), (202, &copy["id"]));
    let clone = settled!(app, demo, "volume", format!("/volumes/{}", cloned["volume"]["id"].as_str().unwrap()));
    assert_eq!(head(&world, clone["id"].as_str().unwrap(), 7), b"boot me");

    let (status, _) = ask!(app, demo, "3.0", DELETE path, Value::Null);
    assert_eq!((status, ask!(app, demo, "3.0", GET path, Value::Null).0), (202, 404));
    assert!(!file(&world, id.as_str().unwrap()).exists());
    assert_eq!(head(&world, clone["id"].as_str().unwrap(), 7), b"boot me", "nothing depends on a deleted snapshot");
}

#[actix_web::test]
async fn a_volume_with_snapshots_is_deleted_only_with_them() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let volume = volume_with(&world, b"x").await;
    let (_, snapshot) = ask!(app, demo, "3.0", POST "/snapshots", json!({"snapshot": {"volume_id": volume}}));
    let path = format!("/snapshots/{}", snapshot["snapshot"]["id"].as_str().unwrap());
    assert_eq!(settled!(app, demo, "snapshot", path)["status"], "available");
    let (status, refused) = ask!(app, demo, "3.0", DELETE format!("/volumes/{volume}"), Value::Null);
    assert_eq!(status, 400);
    assert!(refused["badRequest"]["message"].as_str().unwrap().contains("has snapshots"), "{refused}");
    assert_eq!(ask!(app, demo, "3.0", DELETE format!("/volumes/{volume}?cascade=True"), Value::Null).0, 202);
    for path in [path, format!("/volumes/{volume}")] {
        assert_eq!(ask!(app, demo, "3.0", GET path, Value::Null).0, 404);
    }
    assert_eq!(std::fs::read_dir(world.folder.path().join("volumes")).unwrap().count(), 0);
}

#[actix_web::test]
async fn a_volume_in_use_has_snapshots_by_force_or_since_3_66() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let volume = volume_with(&world, b"x").await;
    let (fence, attachment) = (Fence { server: Uuid::from_u128(1), epoch: 1, attempt: 1 }, Uuid::from_u128(7));
    world.volumes.create_attachment(fence, attachment, volume, Some("h1"), None).await.unwrap();
    world.volumes.complete_attachment(fence, attachment).await.unwrap();
    for (version, force, expected) in [
        ("3.0", json!(null), 400),
        ("3.65", json!(false), 400),
        ("3.65", json!("perhaps"), 400),
        ("3.65", json!(true), 202),
        ("3.66", json!(false), 400),
        ("3.66", json!(true), 202),
    ] {
        let mut body = json!({"snapshot": {"volume_id": volume}});
        if !force.is_null() {
            body["snapshot"]["force"] = force.clone();
        }
        let (status, answer) = ask!(app, demo, version, POST "/snapshots", body);
        assert_eq!(status, expected, "{version} {force}: {answer}");
    }
    let (status, list) = ask!(app, demo, "3.66", GET "/snapshots/detail?status=error", Value::Null);
    assert_eq!((status, &list["snapshots"]), (200, &json!([])));
    let (_, list) = ask!(app, demo, "3.45", GET format!("/snapshots?volume_id={volume}&limit=1&with_count=true"), Value::Null);
    assert_eq!((list["snapshots"].as_array().unwrap().len(), &list["count"]), (1, &json!(2)));
    assert!(list["snapshots_links"][0]["href"].as_str().unwrap().contains("marker="));
    let admin = world.token("admin").await;
    assert_eq!(ask!(app, admin, "3.0", DELETE format!("/volumes/{volume}?cascade=True&force=True"), Value::Null).0, 400);
    let (_, kept) = ask!(app, demo, "3.0", GET format!("/snapshots?volume_id={volume}"), Value::Null);
    assert_eq!(kept["snapshots"].as_array().unwrap().len(), 2, "nothing of an attached volume is deleted");
}

#[actix_web::test]
async fn snapshots_of_others_and_bad_input_are_refused() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let volume = volume_with(&world, b"x").await;
    let stranger = world.identity.ensure_project("stranger").await.unwrap().id;
    let (_, snapshot) = ask!(app, demo, "3.0", POST "/snapshots", json!({"snapshot": {"volume_id": volume}}));
    let id = snapshot["snapshot"]["id"].as_str().unwrap().to_owned();
    assert_eq!(settled!(app, demo, "snapshot", format!("/snapshots/{id}"))["status"], "available");
    for (body, expected) in [
        (json!({"volume_id": Uuid::from_u128(5)}), 404),
        (json!({"volume_id": "data"}), 400),
        (json!({"volume_id": volume, "name": "x".repeat(256)}), 400),
        (json!({"volume_id": volume, "metadata": {"": "v"}}), 400),
        (json!({}), 400),
    ] {
        assert_eq!(ask!(app, demo, "3.0", POST "/snapshots", json!({"snapshot": body})).0, expected, "{body}");
    }
    for (body, expected) in [
        (json!({"snapshot_id": id, "size": 2}), 202),
        (json!({"snapshot_id": id, "source_volid": volume}), 400),
        (json!({"snapshot_id": id, "imageRef": Uuid::from_u128(5)}), 400),
        (json!({"snapshot_id": Uuid::from_u128(5), "size": 1}), 404),
        (json!({"source_volid": "data", "size": 1}), 404),
        (json!({"backup_id": Uuid::from_u128(5), "size": 1}), 400),
    ] {
        assert_eq!(ask!(app, demo, "3.0", POST "/volumes", json!({"volume": body})).0, expected, "{body}");
    }
    let reset = json!({"os-reset_status": {"status": "error"}});
    assert_eq!(ask!(app, demo, "3.0", POST format!("/snapshots/{id}/action"), reset.clone()).0, 403);
    assert_eq!(ask!(app, admin, "3.0", POST format!("/snapshots/{id}/action"), reset).0, 202);
    let (status, refused) = ask!(app, demo, "3.0", POST "/volumes", json!({"volume": {"snapshot_id": id}}));
    assert_eq!(status, 400, "its bytes are not to be trusted: {refused}");
    let quota = json!({"quota_set": {"snapshots": 1}});
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    assert_eq!(ask!(app, admin, "3.0", PUT format!("/os-quota-sets/{project}"), quota.clone()).0, 200);
    assert_eq!(ask!(app, admin, "3.0", PUT format!("/os-quota-sets/{stranger}"), quota).0, 200);
    assert_eq!(ask!(app, demo, "3.0", POST "/snapshots", json!({"snapshot": {"volume_id": volume}})).0, 413);
    let (_, limits) = ask!(app, demo, "3.0", GET "/limits", Value::Null);
    assert_eq!(limits["limits"]["absolute"]["totalSnapshotsUsed"], 1);
}

#[actix_web::test]
async fn metadata_of_a_snapshot_is_changed_as_a_whole_and_by_key() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let volume = volume_with(&world, b"x").await;
    let (_, snapshot) = ask!(app, demo, "3.0", POST "/snapshots", json!({"snapshot": {"volume_id": volume, "metadata": {"k": "v"}}}));
    let path = format!("/snapshots/{}", snapshot["snapshot"]["id"].as_str().unwrap());
    let metadata = format!("{path}/metadata");
    let (_, renamed) = ask!(app, demo, "3.0", PUT path, json!({"snapshot": {"name": "other"}}));
    assert_eq!((&renamed["snapshot"]["name"], &renamed["snapshot"]["metadata"]), (&json!("other"), &json!({"k": "v"})));
    let (_, merged) = ask!(app, demo, "3.0", POST metadata, json!({"metadata": {"l": "w"}}));
    assert_eq!(merged["metadata"], json!({"k": "v", "l": "w"}));
    let (_, set) = ask!(app, demo, "3.0", PUT format!("{metadata}/k"), json!({"meta": {"k": "u"}}));
    assert_eq!(set["meta"], json!({"k": "u"}));
    assert_eq!(ask!(app, demo, "3.0", PUT format!("{metadata}/k"), json!({"meta": {"other": "u"}})).0, 400);
    assert_eq!(ask!(app, demo, "3.0", DELETE format!("{metadata}/l"), Value::Null).0, 200);
    assert_eq!(ask!(app, demo, "3.0", GET format!("{metadata}/l"), Value::Null).0, 404);
    let (_, replaced) = ask!(app, demo, "3.0", PUT metadata, json!({"metadata": {}}));
    assert_eq!(replaced["metadata"], json!({}));
}
