//! Tests of the volume API as clients use it.

use actix_web::http::Method;
use cellshift_domain::fence::Fence;
use cellshift_embedded::testkit::{self, request, send};
use cellshift_embedded::volume::VolumeService;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::door::{served, with_member, with_users};

#[actix_web::test]
async fn discovery_answers_anybody_and_answers_name_the_microversion() {
    let world = testkit::world().await;
    let app = served(&world).await;
    for (path, status) in [("/volume", 300), ("/volume/", 300), ("/volume/v3", 200), ("/volume/v3/", 200)] {
        let answer = send(&app, request(Method::GET, "", path, Value::Null).to_request()).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.json()["versions"][0]["links"][0]["href"], "http://cloud:8774/volume/v3/");
    }
    let token = world.token("demo").await;
    for (requested, status, answered) in [("volume 3.71", 200, "volume 3.71"), ("volume 3.99", 406, "")] {
        let list = request(Method::GET, &token, "/volume/v3/volumes", Value::Null).insert_header(("OpenStack-API-Version", requested));
        let answer = send(&app, list.to_request()).await;
        assert_eq!(answer.status, status);
        if !answered.is_empty() {
            assert_eq!(answer.header("openstack-api-version"), answered);
        }
    }
}

#[actix_web::test]
async fn a_volume_is_made_shown_changed_and_deleted() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let body = json!({"volume": {"name": "data", "size": 1, "metadata": {"k": "v"}, "imageRef": null, "volume_type": null}});
    let created = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", body).to_request()).await;
    assert_eq!(created.status, 202);
    let created = created.json()["volume"].clone();
    assert_eq!(created["status"], "creating");
    assert!(created.get("os-vol-tenant-attr:tenant_id").is_none(), "not in the answer to create");
    let id = created["id"].as_str().unwrap().to_owned();
    let path = format!("/volume/v3/volumes/{id}");
    let show = || send(&app, request(Method::GET, &demo, &path, Value::Null).to_request());
    let mut shown = show().await.json()["volume"].clone();
    for _ in 0..1000 {
        if shown["status"] == "available" {
            break;
        }
        tokio::task::yield_now().await;
        shown = show().await.json()["volume"].clone();
    }
    assert_eq!(shown["status"], "available");
    assert!(shown["os-vol-tenant-attr:tenant_id"].is_string());
    assert_eq!(std::fs::metadata(world.folder.path().join("volumes").join(&id)).unwrap().len(), 1 << 30);

    let renamed = send(&app, request(Method::PUT, &demo, &path, json!({"volume": {"name": "other"}})).to_request()).await;
    assert_eq!(renamed.json()["volume"]["metadata"], json!({"k": "v"}), "what is not named stays");
    let more = request(Method::POST, &demo, &format!("{path}/metadata"), json!({"metadata": {"l": "w"}})).to_request();
    assert_eq!(send(&app, more).await.json()["metadata"], json!({"k": "v", "l": "w"}));
    for status in [200, 404] {
        let key = request(Method::DELETE, &demo, &format!("{path}/metadata/k"), Value::Null).to_request();
        assert_eq!(send(&app, key).await.status, status);
    }
    let list = send(&app, request(Method::GET, &demo, "/volume/v3/volumes/detail?name=other", Value::Null).to_request()).await;
    assert_eq!(list.json()["volumes"][0]["id"], id.as_str());
    let by_name = send(&app, request(Method::GET, &demo, "/volume/v3/volumes/other", Value::Null).to_request()).await;
    assert_eq!(by_name.status, 404);
    assert!(by_name.json()["itemNotFound"]["message"].is_string());
    let elsewhere = send(&app, request(Method::GET, &admin, "/volume/v3/volumes", Value::Null).to_request()).await;
    assert_eq!(elsewhere.json()["volumes"], json!([]), "another project's are not in the list without all_tenants");
    assert_eq!(send(&app, request(Method::GET, &admin, &path, Value::Null).to_request()).await.status, 200);
    let extend = request(Method::POST, &demo, &format!("{path}/action"), json!({"os-extend": {"new_size": 2}})).to_request();
    assert_eq!(send(&app, extend).await.status, 202);

    // A server holds the volume, so it cannot be deleted.
    let (uuid, attachment) = (Uuid::parse_str(&id).unwrap(), Uuid::from_u128(7));
    let fence = Fence { server: Uuid::from_u128(1), epoch: 1, attempt: 1 };
    world.volumes.create_attachment(fence, attachment, uuid, Some("h1"), Some("/dev/vdb")).await.unwrap();
    world.volumes.complete_attachment(fence, attachment).await.unwrap();
    assert_eq!(show().await.json()["volume"]["attachments"][0]["server_id"], Uuid::from_u128(1).to_string());
    let refused = send(&app, request(Method::DELETE, &demo, &path, Value::Null).to_request()).await;
    assert_eq!(refused.status, 400);
    world.volumes.delete_attachment(fence, attachment).await.unwrap();
    let deleted = send(&app, request(Method::DELETE, &demo, &format!("{path}?cascade=False&force=False"), Value::Null).to_request()).await;
    assert_eq!((deleted.status, deleted.bytes.len()), (202, 0));
    assert_eq!(show().await.status, 404);
}

#[actix_web::test]
async fn another_project_sees_nothing_and_bad_input_is_400() {
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
    let body = json!({"volume": {"size": 1}});
    let made = send(&app, request(Method::POST, &admin, "/volume/v3/volumes", body).to_request()).await.json();
    let path = format!("/volume/v3/volumes/{}", made["volume"]["id"].as_str().unwrap());
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(send(&app, request(method, &demo, &path, Value::Null).to_request()).await.status, 404);
    }
    for (volume, status) in [
        (json!({"size": 0}), 400),
        (json!({"size": "many"}), 400),
        (json!({"size": 1, "volume_type": "unknown"}), 404),
        (json!({"size": 1, "imageRef": Uuid::from_u128(5)}), 400),
        (json!({"size": 1, "snapshot_id": Uuid::from_u128(5)}), 404),
        (json!({}), 400),
    ] {
        let answer = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": volume})).to_request()).await;
        assert_eq!(answer.status, status, "{volume}");
    }
}

#[actix_web::test]
async fn quotas_come_as_strings_go_as_integers_and_hold() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let path = format!("/volume/v3/os-quota-sets/{project}");
    let put = json!({"quota_set": {"volumes": "1", "force": true}});
    assert_eq!(send(&app, request(Method::PUT, &demo, &path, put.clone()).to_request()).await.status, 403);
    let set = send(&app, request(Method::PUT, &admin, &path, put).to_request()).await;
    assert_eq!(set.json()["quota_set"]["volumes"], 1);
    for status in [202, 413] {
        let made = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": {"size": 2}})).to_request()).await;
        assert_eq!(made.status, status);
    }
    let usage = send(&app, request(Method::GET, &demo, &format!("{path}?usage=True"), Value::Null).to_request()).await.json();
    assert_eq!(usage["quota_set"]["gigabytes"], json!({"limit": -1, "in_use": 2, "reserved": 0, "allocated": 0}));
    let limits = send(&app, request(Method::GET, &demo, "/volume/v3/limits", Value::Null).to_request()).await.json();
    assert_eq!(limits["limits"]["absolute"]["totalVolumesUsed"], 1);
}

#[actix_web::test]
async fn fields_of_volumes_are_judged_as_cinder_does() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let status = |method: Method, token: &str, path: &str, body: Value| {
        let request = request(method, token, path, body).to_request();
        let app = &app;
        async move { send(app, request).await.status }
    };
    let long = |length: usize| "x".repeat(length);
    let many: std::collections::BTreeMap<String, &str> = (0..129).map(|at| (format!("k{at}"), "v")).collect();
    for (field, value, expected) in [
        ("name", json!(long(255)), 202),
        ("name", json!(long(256)), 400),
        ("name", json!(7), 400),
        ("name", json!("a\u{0}b"), 400),
        ("description", json!(long(256)), 400),
        ("metadata", json!({"": "v"}), 400),
        ("metadata", json!({long(256): "v"}), 400),
        ("metadata", json!({"k": long(256)}), 400),
        ("metadata", json!({"k\n": "v"}), 400),
        ("metadata", json!(many), 400),
        ("size", json!(0), 400),
        ("size", json!(-1), 400),
        ("size", json!("2"), 202),
        ("size", json!("two"), 400),
        ("size", json!(1.5), 400),
        ("size", json!(true), 400),
        ("size", json!(i32::MAX), 400),
        ("size", json!(i64::from(i32::MAX) + 1), 400),
        ("multiattach", json!(false), 202),
        ("multiattach", json!(true), 400),
        ("multiattach", json!("perhaps"), 400),
    ] {
        let mut volume = json!({"size": 1});
        volume[field] = value.clone();
        let got = status(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": volume})).await;
        assert_eq!(got, expected, "{field}: {value:.60}");
    }
    let made = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": {"size": 1}})).to_request()).await.json();
    let path = format!("/volume/v3/volumes/{}", made["volume"]["id"].as_str().unwrap());
    for volume in [json!({"name": long(256)}), json!({"description": long(256)}), json!({"metadata": {"": "v"}})] {
        assert_eq!(status(Method::PUT, &demo, &path, json!({"volume": volume})).await, 400, "{volume:.60}");
    }
    for (action, expected) in [
        (json!({"os-set_bootable": {"bootable": "True"}}), 200),
        (json!({"os-set_bootable": {"bootable": "perhaps"}}), 400),
        (json!({"os-set_bootable": {}}), 400),
        (json!({"os-extend": {"new_size": i32::MAX}}), 400),
        (json!({"os-extend": {"new_size": 0}}), 400),
        (json!({"os-extend": {"new_size": 2}, "os-set_bootable": {"bootable": true}}), 400),
        (json!({}), 400),
    ] {
        assert_eq!(status(Method::POST, &demo, &format!("{path}/action"), action.clone()).await, expected, "{action}");
    }
    let first: std::collections::BTreeMap<String, &str> = (0..128).map(|at| (format!("k{at}"), "v")).collect();
    let metadata = format!("{path}/metadata");
    assert_eq!(status(Method::PUT, &demo, &metadata, json!({"metadata": first})).await, 200);
    assert_eq!(status(Method::POST, &demo, &metadata, json!({"metadata": {"one": "more"}})).await, 400);
    for (path, limit, expected) in
        [("no-such-project", 1_i64, 400), (world.identity.ensure_project("demo").await.unwrap().id.as_str(), i64::from(i32::MAX) + 1, 400)]
    {
        let path = format!("/volume/v3/os-quota-sets/{path}");
        assert_eq!(status(Method::PUT, &admin, &path, json!({"quota_set": {"volumes": limit}})).await, expected, "{path}");
    }
    assert_eq!(status(Method::GET, &admin, "/volume/v3/os-quota-sets/no-such-project", Value::Null).await, 400);
}

#[actix_web::test]
async fn only_administrators_see_where_a_volume_is_attached() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let made = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": {"size": 1}})).to_request()).await.json();
    let id = made["volume"]["id"].as_str().unwrap().to_owned();
    let path = format!("/volume/v3/volumes/{id}");
    let show = |token: String| {
        let request = request(Method::GET, &token, &path, Value::Null).to_request();
        let app = &app;
        async move { send(app, request).await.json()["volume"].clone() }
    };
    while show(demo.clone()).await["status"] != "available" {
        tokio::task::yield_now().await;
    }
    let fence = Fence { server: Uuid::from_u128(1), epoch: 1, attempt: 1 };
    let (uuid, attachment) = (Uuid::parse_str(&id).unwrap(), Uuid::from_u128(7));
    world.volumes.create_attachment(fence, attachment, uuid, Some("h1"), Some("/dev/vdb")).await.unwrap();
    world.volumes.complete_attachment(fence, attachment).await.unwrap();
    let (seen, whole) = (show(demo).await, show(admin).await);
    assert_eq!((&seen["attachments"][0]["host_name"], seen.get("os-vol-host-attr:host")), (&Value::Null, None));
    let host = &whole["os-vol-host-attr:host"];
    assert_eq!((&whole["attachments"][0]["host_name"], host), (&json!("h1"), &json!("cellshift@local#local")));
}

#[actix_web::test]
async fn an_image_s_metadata_and_the_type_of_a_volume_can_change() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let made = send(&app, request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": {"size": 1}})).to_request()).await.json();
    let (id, path) = (made["volume"]["id"].as_str().unwrap(), format!("/volume/v3/volumes/{}", made["volume"]["id"].as_str().unwrap()));
    let act = |action: Value| {
        let request = request(Method::POST, &demo, &format!("{path}/action"), action).to_request();
        let app = &app;
        async move { send(app, request).await }
    };
    let show = || async { send(&app, request(Method::GET, &demo, &path, Value::Null).to_request()).await.json()["volume"].clone() };
    while show().await["status"] != "available" {
        tokio::task::yield_now().await;
    }
    let set = act(json!({"os-set_image_metadata": {"metadata": {"os_type": "linux", "k": "v"}}})).await;
    assert_eq!(set.json()["metadata"], json!({"os_type": "linux", "k": "v"}));
    for status in [200, 404] {
        assert_eq!(act(json!({"os-unset_image_metadata": {"key": "k"}})).await.status, status);
    }
    for bad in [json!({"metadata": {"": "v"}}), json!({"metadata": {"k": 1}}), json!({})] {
        assert_eq!(act(json!({"os-set_image_metadata": bad})).await.status, 400, "{bad}");
    }
    assert_eq!(act(json!({"os-show_image_metadata": {}})).await.json()["metadata"], json!({"os_type": "linux"}));
    assert_eq!(show().await["volume_image_metadata"], json!({"os_type": "linux"}));

    let retype = |name: &str| json!({"os-retype": {"new_type": name, "migration_policy": "never"}});
    assert_eq!(act(retype("no-such-type")).await.status, 404);
    assert_eq!(act(retype("local-multiattach")).await.status, 202);
    let shown = show().await;
    assert_eq!((&shown["volume_type"], &shown["multiattach"]), (&json!("local-multiattach"), &json!(true)));
    let fence = Fence { server: Uuid::from_u128(1), epoch: 1, attempt: 1 };
    let volume = Uuid::parse_str(id).unwrap();
    world.volumes.create_attachment(fence, Uuid::from_u128(7), volume, Some("h1"), None).await.unwrap();
    world.volumes.complete_attachment(fence, Uuid::from_u128(7)).await.unwrap();
    assert_eq!(act(retype("local")).await.status, 400, "two servers may have it by now");
}

#[actix_web::test]
async fn administrators_see_the_services_own_parts() {
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
    let get = |token: &str, path: &str| {
        let request = request(Method::GET, token, &format!("/volume/v3{path}"), Value::Null).to_request();
        let app = &app;
        async move { send(app, request).await }
    };
    let services = get(&admin, "/os-services?binary=cinder-volume").await.json();
    assert_eq!((&services["services"][0]["host"], services["services"].as_array().unwrap().len()), (&json!("cellshift@local"), 1));
    let pools = get(&admin, "/scheduler-stats/get_pools?detail=True").await.json();
    assert_eq!(pools["pools"][0]["name"], "cellshift@local#local");
    assert!(pools["pools"][0]["capabilities"]["free_capacity_gb"].is_u64());
    assert_eq!(get(&admin, "/scheduler-stats/get_pools?name=other").await.json()["pools"], json!([]));
    assert_eq!(get(&admin, "/capabilities/cellshift@local").await.json()["storage_protocol"], "file");
    assert_eq!(get(&admin, "/capabilities/other").await.status, 404);
    for path in ["/os-services", "/scheduler-stats/get_pools", "/capabilities/cellshift@local"] {
        assert_eq!(get(&demo, path).await.status, 403, "{path}");
    }
    let filters = get(&demo, "/resource_filters?resource=snapshot").await.json();
    assert_eq!(filters["resource_filters"][0]["filters"], json!(["name", "status", "volume_id"]));
}
