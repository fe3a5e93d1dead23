//! Tests of the image API as clients use it.

use actix_web::http::Method;
use actix_web::test::TestRequest;
use cellshift_embedded::testkit::{self, request, send};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::door::{served, with_member, with_users};

fn upload(token: &str, id: &str, content: Vec<u8>) -> TestRequest {
    let put = request(Method::PUT, token, &format!("/image/v2/images/{id}/file"), Value::Null);
    put.insert_header(("Content-Type", "application/octet-stream")).set_payload(content)
}

#[actix_web::test]
async fn discovery_answers_anybody() {
    let world = testkit::world().await;
    let app = served(&world).await;
    for path in ["/image", "/image/"] {
        let answer = send(&app, request(Method::GET, "", path, Value::Null).to_request()).await;
        assert_eq!(answer.status, 300);
        assert_eq!(answer.json()["versions"][0]["links"][0]["href"], "http://cloud:8774/image/v2/");
    }
    assert_eq!(send(&app, request(Method::GET, "", "/image/v2/images", Value::Null).to_request()).await.status, 401);
}

#[actix_web::test]
async fn an_image_is_made_uploaded_downloaded_and_deleted() {
    let (world, app, token) = with_member(testkit::world().await).await;
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
async fn a_range_of_an_image_is_its_part() {
    let (_world, app, token) = with_member(testkit::world().await).await;
    let body = json!({"name": "tiny", "disk_format": "raw", "container_format": "bare"});
    let image = send(&app, request(Method::POST, &token, "/image/v2/images", body).to_request()).await.json();
    let id = image["id"].as_str().unwrap();
    let content: Vec<u8> = (0..2_500_000u32).map(|i| (i % 253) as u8).collect();
    assert_eq!(send(&app, upload(&token, id, content.clone()).to_request()).await.status, 204);
    let file = format!("/image/v2/images/{id}/file");
    let download = |headers: &[(&'static str, &'static str)]| {
        let get = request(Method::GET, &token, &file, Value::Null);
        send(&app, headers.iter().fold(get, |get, header| get.insert_header(*header)).to_request())
    };
    for (range, first, end) in [("bytes=0-0", 0, 1), ("bytes=1000000-2200000", 1_000_000, 2_200_001), ("bytes=-7", 2_499_993, 2_500_000)] {
        let part = download(&[("Range", range)]).await;
        assert_eq!((part.status, part.header("content-range")), (206, format!("bytes {first}-{}/2500000", end - 1).as_str()));
        assert!(part.bytes == content[first..end], "{range}");
    }
    for range in ["bytes=2500000-", "bytes=0-1,4-5", "lines=1-2"] {
        let refused = download(&[("Range", range)]).await;
        assert_eq!((refused.status, refused.json()["code"].as_u64()), (416, Some(416)), "{range}");
    }
    let whole = download(&[("Range", "bytes=0-0"), ("If-Range", "\"anything\"")]).await;
    assert_eq!((whole.status, whole.bytes.len()), (200, content.len()));
}

#[actix_web::test]
async fn a_json_patch_changes_attributes_and_properties_or_nothing() {
    let (_world, app, token) = with_member(testkit::world().await).await;
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
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
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

#[actix_web::test]
async fn an_image_carries_a_bounded_number_of_things() {
    let (world, app, token) = with_member(testkit::world().await).await;
    let make = |body: Value| send(&app, request(Method::POST, &token, "/image/v2/images", body).to_request());
    let numbered = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
    let properties = |count: usize| Value::Object(numbered(count).into_iter().map(|name| (name, json!("x"))).collect());
    for (body, what) in [(json!({"tags": numbered(129)}), "tags"), (properties(129), "properties")] {
        let refused = make(body).await;
        assert_eq!(refused.status, 413);
        let message = format!("The limit has been exceeded on the number of allowed image {what}. Attempted: 129, Maximum: 128");
        assert_eq!(refused.json()["message"], message);
    }
    let repeated = make(json!({"tags": vec!["same"; 5000]})).await;
    assert_eq!(repeated.json()["tags"], json!(["same"]), "a tag counts once");
    let made = make(json!({"tags": numbered(128)})).await;
    assert_eq!(made.status, 201);
    let path = format!("/image/v2/images/{}", made.json()["id"].as_str().unwrap());
    let one_more = request(Method::PUT, &token, &format!("{path}/tags/more"), Value::Null).to_request();
    assert_eq!(send(&app, one_more).await.status, 413);
    for status in [200, 413] {
        for at in if status == 200 { 0..128 } else { 128..129 } {
            let share = request(Method::POST, &token, &format!("{path}/members"), json!({"member": format!("p{at}")})).to_request();
            assert_eq!(send(&app, share).await.status, status, "member {at}");
        }
    }
    let long = |length: usize| "x".repeat(length);
    for (body, status) in [
        (json!({"name": long(255)}), 201),
        (json!({"name": long(256)}), 400),
        (json!({"tags": [""]}), 400),
        (json!({"tags": [long(256)]}), 400),
        (json!({"": "no name"}), 400),
        (json!({long(256): "x"}), 400),
        (json!({"min_disk": -1}), 400),
        (json!({"min_ram": 2_147_483_648_i64}), 400),
        (json!({"min_disk": "1"}), 400),
        (json!({"protected": "yes"}), 400),
        (json!({"visibility": "secret"}), 400),
        (json!({"disk_format": "floppy"}), 400),
        (json!({"container_format": "box"}), 400),
        (json!({"name": "a\u{0}b"}), 400),
    ] {
        assert_eq!(make(body.clone()).await.status, status, "{body:.80}");
    }
    for member in ["", "a\nb", &long(256)] {
        let share = request(Method::POST, &token, &format!("{path}/members"), json!({"member": member})).to_request();
        assert_eq!(send(&app, share).await.status, 400, "{member:?}");
    }
    let admin = world.token("admin").await;
    for (owner, status) in [("", 400), ("a\nb", 400), ("somebody", 201)] {
        let owned = request(Method::POST, &admin, "/image/v2/images", json!({"owner": owner})).to_request();
        assert_eq!(send(&app, owned).await.status, status, "{owner:?}");
    }
}

#[actix_web::test]
async fn a_list_of_images_takes_a_bounded_number_of_values() {
    let (_world, app, token) = with_member(testkit::world().await).await;
    let list = |query: String| send(&app, request(Method::GET, &token, &format!("/image/v2/images?{query}"), Value::Null).to_request());
    for (query, status) in [
        (format!("id=in:{}", vec!["a"; 1000].join(",")), 200),
        (format!("id=in:{}", vec!["a"; 1001].join(",")), 400),
        (format!("name=in:{}", vec!["a"; 1001].join(",")), 400),
        (vec!["tag=a"; 129].join("&"), 400),
        ((0..129).map(|at| format!("p{at}=a")).collect::<Vec<_>>().join("&"), 400),
        (format!("sort={}", vec!["name:asc"; 5000].join(",")), 200),
    ] {
        assert_eq!(list(query.clone()).await.status, status, "{query:.40}");
    }
}

#[actix_web::test]
async fn a_custom_role_reads_nothing_and_a_reader_writes_nothing() {
    use cellshift_embedded::identity::{DomainRef, ProjectRef, ScopeRequest, Target, UserRef};
    let world = testkit::world().await;
    let app = served(&world).await;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let mut tokens = Vec::new();
    for role in ["auditor", "service", "reader"] {
        let user = world.identity.ensure_user(role, "secret", None).await.unwrap();
        world.identity.ensure_assignment(&user, Target::Project(project.clone()), role).await.unwrap();
        let user = UserRef::Name { name: role.into(), domain: DomainRef::default() };
        let scope = ScopeRequest::Project(ProjectRef::Id(project.clone()));
        tokens.push(world.identity.authenticate_password(&user, "secret", scope).await.unwrap().id);
    }
    let demo = world.token("demo").await;
    let shared = request(Method::POST, &world.token("admin").await, "/image/v2/images", json!({"name": "theirs"})).to_request();
    let shared = format!("/image/v2/images/{}", send(&app, shared).await.json()["id"].as_str().unwrap());
    let volume = request(Method::POST, &demo, "/volume/v3/volumes", json!({"volume": {"size": 1}})).to_request();
    let volume = format!("/volume/v3/volumes/{}", send(&app, volume).await.json()["volume"]["id"].as_str().unwrap());
    let status = |method: Method, token: &str, path: &str, body: Value| {
        let request = request(method, token, path, body).to_request();
        let app = &app;
        async move { send(app, request).await.status }
    };
    for token in &tokens[..2] {
        for path in ["/image/v2/images", &shared, "/volume/v3/volumes/detail", &volume, "/volume/v3/types", "/volume/v3/limits"] {
            assert_eq!(status(Method::GET, token, path, Value::Null).await, 403, "{path}");
        }
    }
    let reader = &tokens[2];
    for (path, expected) in [("/image/v2/images", 200), ("/volume/v3/volumes/detail", 200), (volume.as_str(), 200)] {
        assert_eq!(status(Method::GET, reader, path, Value::Null).await, expected, "{path}");
    }
    let member = json!({"member": project});
    let admin = world.token("admin").await;
    assert_eq!(status(Method::POST, &admin, &format!("{shared}/members"), member).await, 200);
    let accepted = json!({"status": "accepted"});
    let membership = format!("{shared}/members/{project}");
    for (method, path, body) in [
        (Method::PUT, membership.as_str(), accepted.clone()),
        (Method::POST, "/image/v2/images", json!({})),
        (Method::POST, "/volume/v3/volumes", json!({"volume": {"size": 1}})),
        (Method::DELETE, volume.as_str(), Value::Null),
    ] {
        assert_eq!(status(method, reader, path, body).await, 403, "{path}");
    }
    assert_eq!(status(Method::PUT, &demo, &membership, accepted).await, 200);
}
