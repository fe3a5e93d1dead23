//! The image API as clients use it.

use actix_web::http::Method;
use actix_web::test::TestRequest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::fixture::{self, app, request, send};

fn upload(token: &str, id: &str, content: Vec<u8>) -> TestRequest {
    let put = request(Method::PUT, token, &format!("/image/v2/images/{id}/file"), Value::Null);
    put.insert_header(("Content-Type", "application/octet-stream")).set_payload(content)
}

#[actix_web::test]
async fn discovery_answers_anybody() {
    let world = fixture::world().await;
    let app = app!(world);
    for path in ["/image", "/image/"] {
        let answer = send(&app, request(Method::GET, "", path, Value::Null).to_request()).await;
        assert_eq!(answer.status, 300);
        assert_eq!(answer.json()["versions"][0]["links"][0]["href"], "http://cloud:8774/image/v2/");
    }
    assert_eq!(send(&app, request(Method::GET, "", "/image/v2/images", Value::Null).to_request()).await.status, 401);
}

#[actix_web::test]
async fn an_image_is_made_uploaded_downloaded_and_deleted() {
    let world = fixture::world().await;
    let app = app!(world);
    let token = world.token("demo").await;
    let body = json!({"name": "tiny", "disk_format": "raw", "container_format": "bare", "owner_specified.openstack.object": "images/tiny"});
    let created = send(&app, request(Method::POST, &token, "/image/v2/images", body).to_request()).await;
    assert_eq!(created.status, 201);
    let image = created.json();
    assert_eq!((image["status"].as_str(), image["visibility"].as_str()), (Some("queued"), Some("shared")));
    assert_eq!(image["owner_specified.openstack.object"], "images/tiny");
    let id = image["id"].as_str().unwrap().to_owned();
    let file = format!("/image/v2/images/{id}/file");
    assert_eq!(send(&app, request(Method::GET, &token, &file, Value::Null).to_request()).await.status, 204, "no bytes yet");

    let content: Vec<u8> = (0..2_500_000u32).map(|i| (i % 253) as u8).collect();
    let uploaded = send(&app, upload(&token, &id, content.clone()).to_request()).await;
    assert_eq!((uploaded.status, uploaded.bytes.len()), (204, 0));
    let image = send(&app, request(Method::GET, &token, &format!("/image/v2/images/{id}"), Value::Null).to_request()).await.json();
    assert_eq!((&image["status"], &image["size"]), (&json!("active"), &json!(2_500_000)));
    let hash: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&image["os_hash_algo"], &image["os_hash_value"]), (&json!("sha256"), &json!(hash)));
    let download = send(&app, request(Method::GET, &token, &file, Value::Null).to_request()).await;
    assert_eq!((download.status, download.bytes.len()), (200, content.len()));
    assert!(download.bytes == content);
    assert_eq!(send(&app, upload(&token, &id, b"more".to_vec()).to_request()).await.status, 409);

    let deleted = send(&app, request(Method::DELETE, &token, &format!("/image/v2/images/{id}"), Value::Null).to_request()).await;
    assert_eq!((deleted.status, deleted.bytes.len()), (204, 0));
    assert_eq!(send(&app, request(Method::GET, &token, &file, Value::Null).to_request()).await.status, 404);
    assert_eq!(std::fs::read_dir(world.folder.path().join("images")).unwrap().count(), 0);
}

#[actix_web::test]
async fn a_json_patch_changes_attributes_and_properties_or_nothing() {
    let world = fixture::world().await;
    let app = app!(world);
    let token = world.token("demo").await;
    let image = send(&app, request(Method::POST, &token, "/image/v2/images", json!({"name": "a", "os": "x"})).to_request()).await.json();
    let path = format!("/image/v2/images/{}", image["id"].as_str().unwrap());
    let patch = |body: Value| {
        let patch = request(Method::PATCH, &token, &path, Value::Null).set_payload(body.to_string());
        send(&app, patch.insert_header(("Content-Type", "application/openstack-images-v2.1-json-patch")).to_request())
    };
    let changed = patch(json!([
        {"op": "replace", "path": "/name", "value": "b"},
        {"op": "add", "path": "/hw~1disk", "value": "scsi"},
        {"op": "remove", "path": "/os"},
        {"op": "replace", "path": "/tags", "value": ["t1", "t1", "t2"]},
    ]));
    let changed = changed.await;
    assert_eq!(changed.status, 200);
    let changed = changed.json();
    assert_eq!((&changed["name"], &changed["hw/disk"], &changed["tags"]), (&json!("b"), &json!("scsi"), &json!(["t1", "t2"])));
    assert!(changed.get("os").is_none());

    for (step, status) in [
        (json!({"op": "replace", "path": "/status", "value": "active"}), 403),
        (json!({"op": "replace", "path": "/visibility", "value": "public"}), 403),
        (json!({"op": "replace", "path": "/min_disk", "value": "big"}), 400),
        (json!({"op": "remove", "path": "/unknown"}), 409),
    ] {
        let answer = patch(json!([{"op": "replace", "path": "/name", "value": "half"}, step])).await;
        assert_eq!(answer.status, status, "{step}");
        assert!(answer.json()["message"].is_string());
    }
    assert_eq!(send(&app, request(Method::GET, &token, &path, Value::Null).to_request()).await.json()["name"], "b");
    let plain = request(Method::PATCH, &token, &path, json!([])).to_request();
    assert_eq!(send(&app, plain).await.status, 415);
    assert_eq!(send(&app, request(Method::PUT, &token, &format!("{path}/tags/t3"), Value::Null).to_request()).await.status, 204);
    assert_eq!(send(&app, request(Method::DELETE, &token, &format!("{path}/tags/t9"), Value::Null).to_request()).await.status, 404);
}

#[actix_web::test]
async fn lists_are_filtered_sorted_and_paged() {
    let world = fixture::world().await;
    let app = app!(world);
    let (demo, admin) = (world.token("demo").await, world.token("admin").await);
    let mut ids = Vec::new();
    for (token, body) in [
        (&demo, json!({"name": "b", "os": "x"})),
        (&demo, json!({"name": "a"})),
        (&demo, json!({"name": "c", "tags": ["t"]})),
        (&admin, json!({"name": "hidden", "visibility": "private"})),
        (&admin, json!({"name": "d", "visibility": "public"})),
    ] {
        let image = send(&app, request(Method::POST, token, "/image/v2/images", body).to_request()).await.json();
        ids.push(image["id"].as_str().unwrap().to_owned());
    }
    let names = |query: String| {
        let list = request(Method::GET, &demo, &format!("/image/v2/images{query}"), Value::Null).to_request();
        let app = &app;
        async move {
            let body = send(app, list).await.json();
            let names: String = body["images"].as_array().unwrap().iter().map(|image| image["name"].as_str().unwrap()).collect();
            (names, body["next"].as_str().map(str::to_owned))
        }
    };
    assert_eq!(names("?sort=name:asc".into()).await.0, "abcd");
    assert_eq!(names(format!("?sort=name:asc&id=in:{},{},{}", ids[0], ids[3], ids[4])).await.0, "bd", "not what is another's");
    assert_eq!(names("?name=c".into()).await.0, "c");
    assert_eq!(names("?tag=t".into()).await.0, "c");
    assert_eq!(names("?os=x".into()).await.0, "b");
    assert_eq!(names("?visibility=public".into()).await.0, "d");
    let (first, next) = names("?sort=name:asc&limit=3".into()).await;
    assert_eq!(first, "abc");
    let next = next.unwrap();
    assert!(next.starts_with("/v2/images?"), "{next}");
    assert_eq!(names(next["/v2/images".len()..].to_owned()).await, ("d".to_owned(), None));
    let hidden = send(&app, request(Method::GET, &demo, &format!("/image/v2/images/{}", ids[3]), Value::Null).to_request()).await;
    assert_eq!(hidden.status, 404);
    for (method, path) in [(Method::GET, "/image/v2/images/tiny"), (Method::DELETE, "/image/v2/images/")] {
        assert_eq!(send(&app, request(method, &demo, path, Value::Null).to_request()).await.status, 404, "{path}");
    }
}
