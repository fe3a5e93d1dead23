//! Tests of backups as clients use them.

use cellshift_embedded::testkit;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::door::{with_member, with_users};
use crate::volume::testing::{ask, file, head, settled, volume_with};

#[actix_web::test]
async fn a_backup_outlives_its_volume_and_comes_back() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let volume = volume_with(&world, b"precious").await;
    let said = |of: &str| json!({"volume": {"description": of, "metadata": {"of": of}}});
    assert_eq!(ask!(app, demo, "3.0", PUT format!("/volumes/{volume}"), said("then")).0, 200);
    let body = json!({"backup": {"volume_id": volume, "name": "nightly", "metadata": {"k": "v"}}});
    let (status, answer) = ask!(app, demo, "3.64", POST "/backups", body);
    assert_eq!((status, &answer["backup"]["name"]), (202, &json!("nightly")));
    let id = answer["backup"]["id"].as_str().unwrap().to_owned();
    let path = format!("/backups/{id}");
    let shown = settled!(app, demo, "backup", path);
    assert_eq!((&shown["status"], &shown["size"], &shown["volume_id"]), (&json!("available"), &json!(1), &json!(volume)));
    assert_eq!(
        (&shown["metadata"], &shown["container"], &shown["is_incremental"]),
        (&json!({"k": "v"}), &json!("volumebackups"), &json!(false))
    );

    // Into the volume that it comes from, which was written over.
    std::fs::write(file(&world, &volume.to_string()), "spoilt").unwrap();
    assert_eq!(ask!(app, demo, "3.0", PUT format!("/volumes/{volume}"), said("now")).0, 200);
    let name = ask!(app, demo, "3.0", GET format!("/volumes/{volume}"), Value::Null).1["volume"]["name"].clone();
    let (status, restored) = ask!(app, demo, "3.0", POST format!("{path}/restore"), json!({"restore": {"volume_id": volume}}));
    assert_eq!((status, &restored["restore"]["volume_id"]), (202, &json!(volume)));
    let shown = settled!(app, demo, "volume", format!("/volumes/{volume}"));
    assert_eq!(
        (&shown["status"], &shown["description"], &shown["metadata"]),
        (&json!("available"), &json!("then"), &json!({"of": "then"}))
    );
    assert_eq!((&shown["name"], head(&world, &volume.to_string(), 8)), (&name, b"precious".to_vec()));

    // Into a new one, when the first is gone.
    assert_eq!(settled!(app, demo, "backup", path)["status"], "available");
    assert_eq!(ask!(app, demo, "3.0", DELETE format!("/volumes/{volume}"), Value::Null).0, 202);
    let (status, restored) = ask!(app, demo, "3.0", POST format!("{path}/restore"), json!({"restore": {"name": "again"}}));
    assert_eq!((status, &restored["restore"]["volume_name"]), (202, &json!("again")));
    let new = restored["restore"]["volume_id"].as_str().unwrap().to_owned();
    let shown = settled!(app, demo, "volume", format!("/volumes/{new}"));
    assert_eq!((&shown["status"], &shown["bootable"]), (&json!("available"), &json!("true")));
    assert_eq!((&shown["name"], &shown["metadata"]), (&json!("again"), &json!({"of": "then"})));
    assert_eq!(head(&world, &new, 8), b"precious");

    assert_eq!(settled!(app, demo, "backup", path)["status"], "available");
    assert_eq!(ask!(app, demo, "3.9", PUT path, json!({"backup": {"name": "kept", "description": "why"}})).1["backup"]["name"], "kept");
    assert_eq!(ask!(app, demo, "3.0", GET "/backups", Value::Null).1["backups"][0]["name"], "kept");
    assert_eq!(ask!(app, demo, "3.0", DELETE path, Value::Null).0, 202);
    assert_eq!(ask!(app, demo, "3.0", GET path, Value::Null).0, 404);
    assert!(!world.folder.path().join("volumes").join(&id).exists());
}

#[actix_web::test]
async fn backups_that_cannot_be_are_refused() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let volume = volume_with(&world, b"x").await;
    let backup = |more: Value| {
        let mut fields = json!({"volume_id": volume});
        fields.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({"backup": fields})
    };
    for bad in [json!({"incremental": true}), json!({"volume_id": "x"}), json!({"snapshot_id": "x"}), json!({"name": "n".repeat(256)})] {
        assert_eq!(ask!(app, demo, "3.0", POST "/backups", backup(bad.clone())).0, 400, "{bad}");
    }
    assert_eq!(ask!(app, demo, "3.0", POST "/backups", backup(json!({"snapshot_id": Uuid::nil()}))).0, 404);
    let (_, answer) = ask!(app, demo, "3.0", POST "/backups", backup(json!({})));
    let path = format!("/backups/{}", answer["backup"]["id"].as_str().unwrap());
    assert_eq!(settled!(app, demo, "backup", path)["status"], "available");
    assert_eq!(ask!(app, demo, "3.0", PUT path, json!({"backup": {"name": "x"}})).0, 404, "only from 3.9 on");

    // A volume that is in use is neither backed up without force nor restored into.
    let attach = json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}});
    assert_eq!(ask!(app, demo, "3.0", POST format!("/volumes/{volume}/action"), attach).0, 202);
    assert_eq!(ask!(app, demo, "3.0", POST "/backups", backup(json!({}))).0, 400);
    assert_eq!(ask!(app, demo, "3.0", POST "/backups", backup(json!({"force": true}))).0, 202);
    assert_eq!(ask!(app, demo, "3.0", POST format!("{path}/restore"), json!({"restore": {"volume_id": volume}})).0, 400);

    // The quota counts both.
    let project = world.caller("demo").await.project_id;
    let set = json!({"quota_set": {"backups": 2, "backup_gigabytes": 2}});
    assert_eq!(ask!(app, admin, "3.0", PUT format!("/os-quota-sets/{project}"), set).0, 200);
    assert_eq!(ask!(app, demo, "3.0", POST "/backups", backup(json!({"force": true}))).0, 413);
    let limits = ask!(app, demo, "3.0", GET "/limits", Value::Null).1["limits"]["absolute"].clone();
    assert_eq!((&limits["totalBackupsUsed"], &limits["maxTotalBackupGigabytes"]), (&json!(2), &json!(2)));
    assert_eq!(ask!(app, demo, "3.0", POST format!("{path}/action"), json!({"os-force_delete": {}})).0, 403);
    assert_eq!(ask!(app, admin, "3.0", POST format!("{path}/action"), json!({"os-reset_status": {"status": "error"}})).0, 202);
    assert_eq!(ask!(app, admin, "3.0", POST format!("{path}/action"), json!({"os-force_delete": {}})).0, 202);
}
