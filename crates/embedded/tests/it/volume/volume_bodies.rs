//! Tests of the bodies that describe volumes, key by key, per microversion of Cinder.

use std::collections::BTreeSet;

use actix_web::http::Method;
use cellshift_domain::fence::Fence;
use cellshift_embedded::testkit::{self, Answer, request};
use cellshift_embedded::volume::{VolumeService, VolumeSource};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::door::{with_member, with_users};
use crate::volume::testing::make_volume;

/// Sends a request to the volume API in this microversion.
macro_rules! speak {
    ($app:expr, $version:expr, $method:ident, $token:expr, $path:expr, $body:expr) => {{
        let path = format!("/volume/v3{}", $path);
        let versioned =
            request(Method::$method, $token, &path, $body).insert_header(("OpenStack-API-Version", format!("volume {}", $version)));
        let answer: Answer = testkit::send(&$app, versioned.to_request()).await;
        answer
    }};
}

const OLDEST: &str = "3.0";
const NEWEST: &str = "3.71";

const ALWAYS: &[&str] = &[
    "attachments",
    "availability_zone",
    "bootable",
    "consistencygroup_id",
    "created_at",
    "description",
    "encrypted",
    "id",
    "links",
    "metadata",
    "multiattach",
    "name",
    "replication_status",
    "size",
    "snapshot_id",
    "source_volid",
    "status",
    "updated_at",
    "user_id",
    "volume_type",
];
const LATER: &[&str] = &["consumes_quota", "group_id", "service_uuid", "shared_targets", "volume_type_id"];
const SHOWN: &[&str] = &["os-vol-tenant-attr:tenant_id"];
const FOR_ADMINISTRATORS: &[&str] =
    &["migration_status", "os-vol-host-attr:host", "os-vol-mig-status-attr:migstat", "os-vol-mig-status-attr:name_id"];
const FOR_ADMINISTRATORS_LATER: &[&str] = &["cluster_name", "provider_id"];

fn keys(body: &Value) -> BTreeSet<String> {
    body.as_object().unwrap().keys().cloned().collect()
}

fn all(parts: &[&[&str]]) -> BTreeSet<String> {
    parts.concat().into_iter().map(str::to_owned).collect()
}

#[actix_web::test]
async fn a_volume_has_every_key_of_its_microversion() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let id = make_volume(&world, VolumeSource::Blank).await;
    for (path, pointer) in [(format!("/volumes/{id}"), "/volume"), ("/volumes/detail?all_tenants=1".to_owned(), "/volumes/0")] {
        for (token, version, expected) in [
            (&demo, OLDEST, all(&[ALWAYS, SHOWN])),
            (&demo, NEWEST, all(&[ALWAYS, SHOWN, LATER])),
            (&admin, OLDEST, all(&[ALWAYS, SHOWN, FOR_ADMINISTRATORS])),
            (&admin, NEWEST, all(&[ALWAYS, SHOWN, LATER, FOR_ADMINISTRATORS, FOR_ADMINISTRATORS_LATER])),
        ] {
            let shown = speak!(app, version, GET, token, path, Value::Null).json();
            assert_eq!(keys(shown.pointer(pointer).unwrap()), expected, "{path} in {version}");
        }
    }
    let body = json!({"volume": {"name": "renamed"}});
    let renamed = speak!(app, NEWEST, PUT, &demo, format!("/volumes/{id}"), body).json();
    assert_eq!(keys(&renamed["volume"]), all(&[ALWAYS, LATER]));
}

#[actix_web::test]
async fn a_volume_in_the_making_is_not_bootable_nor_changed() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    let image = world.image("demo", b"boot me").await;
    let body = json!({"volume": {"size": 1, "imageRef": image, "volume_type": ""}});
    let answer = speak!(app, NEWEST, POST, &demo, "/volumes", body);
    assert_eq!(answer.status, 202, "{answer:?}");
    let created = answer.json()["volume"].clone();
    assert_eq!(keys(&created), all(&[ALWAYS, LATER]));
    assert_eq!((&created["bootable"], &created["updated_at"]), (&json!("false"), &Value::Null));
    assert_eq!(created["volume_type"], "local", "an empty type is none");
    let path = format!("/volumes/{}", created["id"].as_str().unwrap());
    let shown = loop {
        let shown = speak!(app, NEWEST, GET, &demo, path, Value::Null).json()["volume"].clone();
        if shown["status"] != "creating" {
            break shown;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&shown["status"], &shown["bootable"]), (&json!("available"), &json!("true")));
    assert!(shown["updated_at"].is_string());
    let content = &shown["volume_image_metadata"];
    assert_eq!((&content["image_id"], &content["image_name"], &content["size"]), (&json!(image), &json!("tiny"), &json!("7")));
    assert!(content.as_object().unwrap().values().all(Value::is_string), "{content}");
}

#[actix_web::test]
async fn a_page_of_volumes_leads_to_the_next() {
    let (world, app, demo) = with_member(testkit::world().await).await;
    for _ in 0..3 {
        make_volume(&world, VolumeSource::Blank).await;
    }
    let first = speak!(app, NEWEST, GET, &demo, "/volumes?limit=2&with_count=True", Value::Null).json();
    assert_eq!((first["volumes"].as_array().unwrap().len(), &first["count"]), (2, &json!(3)));
    let next = first["volumes_links"][0]["href"].as_str().unwrap();
    let path = next.strip_prefix("http://cloud:8774/volume/v3").unwrap();
    let last = speak!(app, OLDEST, GET, &demo, path, Value::Null).json();
    assert_eq!(last["volumes"].as_array().unwrap().len(), 1, "{last}");
    assert_eq!(keys(&last), all(&[&["volumes"]]), "no further page, and no count before 3.45");
    // A full page leads to another, which may be empty, as in Cinder.
    let full = speak!(app, NEWEST, GET, &demo, "/volumes?limit=3", Value::Null).json();
    let path = full["volumes_links"][0]["href"].as_str().unwrap().strip_prefix("http://cloud:8774/volume/v3").unwrap();
    let none = speak!(app, NEWEST, GET, &demo, path, Value::Null).json();
    assert_eq!((&none["volumes"], none.get("volumes_links")), (&json!([]), None));
}

#[actix_web::test]
async fn a_summary_counts_what_its_reader_sees() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let (first, second) = (make_volume(&world, VolumeSource::Blank).await, make_volume(&world, VolumeSource::Blank).await);
    for (volume, colour) in [(first, "red"), (second, "blue")] {
        let path = format!("/volumes/{volume}/metadata");
        speak!(app, OLDEST, POST, &demo, path, json!({"metadata": {"colour": colour, "kind": "test"}})).json();
    }
    let counted = json!({"total_count": 2, "total_size": 2});
    assert_eq!(speak!(app, OLDEST, GET, &demo, "/volumes/summary", Value::Null).status, 404);
    assert_eq!(speak!(app, "3.12", GET, &demo, "/volumes/summary", Value::Null).json(), json!({"volume-summary": counted}));
    let whole = json!({"total_count": 2, "total_size": 2, "metadata": {"colour": ["blue", "red"], "kind": ["test"]}});
    assert_eq!(speak!(app, NEWEST, GET, &demo, "/volumes/summary", Value::Null).json(), json!({"volume-summary": whole}));
    for (path, count) in
        [("/volumes/summary", 0), ("/volumes/summary?all_tenants=1", 2), ("/volumes/summary?all_tenants=1&status=error", 0)]
    {
        let summary = speak!(app, NEWEST, GET, &admin, path, Value::Null).json();
        assert_eq!(summary["volume-summary"]["total_count"], count, "{path}");
    }
}

#[actix_web::test]
async fn an_attachment_tells_its_connection_to_operators_only() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let volume = make_volume(&world, VolumeSource::Blank).await;
    let fence = Fence { server: Uuid::from_u128(1), epoch: 1, attempt: 1 };
    let id = Uuid::from_u128(7);
    world.volumes.create_attachment(fence, id, volume, Some("h1"), None).await.unwrap();
    let brief = all(&[&["id", "instance", "status", "volume_id"]]);
    let whole = all(&[&["attach_mode", "attached_at", "connection_info", "detached_at", "id", "instance", "status", "volume_id"]]);
    let list = speak!(app, NEWEST, GET, &demo, "/attachments", Value::Null).json();
    assert_eq!(keys(&list["attachments"][0]), brief);
    for (path, pointer) in
        [("/attachments/detail?all_tenants=1", "/attachments/0".to_owned()), (&format!("/attachments/{id}"), "/attachment".to_owned())]
    {
        for (token, is_shown) in [(&demo, false), (&admin, true)] {
            let shown = speak!(app, NEWEST, GET, token, path, Value::Null).json();
            let shown = shown.pointer(&pointer).unwrap();
            assert_eq!(keys(shown), whole, "{path}");
            assert_eq!((&shown["attached_at"], &shown["status"]), (&json!(""), &json!("attaching")));
            assert_eq!(shown["connection_info"] != json!({}), is_shown, "{path}: {shown}");
        }
    }
    let none = speak!(app, NEWEST, GET, &demo, "/attachments?status=attached", Value::Null).json();
    assert_eq!(none["attachments"], json!([]));
}

#[actix_web::test]
async fn volume_types_show_what_their_reader_may_know() {
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
    let common: &[&str] = &["description", "extra_specs", "id", "is_public", "name", "os-volume-type-access:is_public"];
    let types = speak!(app, NEWEST, GET, &demo, "/types", Value::Null).json();
    assert_eq!(keys(&types["volume_types"][0]), all(&[common]));
    let shared = types["volume_types"].as_array().unwrap().iter().find(|one| one["name"] == "local-multiattach").unwrap().clone();
    assert_eq!(shared["extra_specs"], json!({"multiattach": "<is> True"}));
    let shown = speak!(app, NEWEST, GET, &admin, format!("/types/{}", shared["id"].as_str().unwrap()), Value::Null).json();
    assert_eq!(keys(&shown["volume_type"]), all(&[common, &["qos_specs_id"]]));
    let made = speak!(app, NEWEST, POST, &admin, "/types", json!({"volume_type": {"name": "fast"}})).json();
    assert_eq!(keys(&made["volume_type"]), all(&[common]));
    let path = format!("/types/{}", made["volume_type"]["id"].as_str().unwrap());
    let changed = speak!(app, NEWEST, PUT, &admin, path, json!({"volume_type": {"name": "faster"}})).json();
    assert_eq!(keys(&changed["volume_type"]), all(&[&["description", "extra_specs", "id", "is_public", "name"]]));
}
