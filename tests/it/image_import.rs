//! Images whose bytes are staged and imported, images that are not to be used for a while, and hidden ones.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, NewServer, User, id_of};
use crate::stage::play_default;

const IMAGES: &str = "/image/v2/images";
const BYTES: &[u8] = b"the bytes of an image";
const OLDER_PATCH: &str = "application/openstack-images-v2.0-json-patch";
const PATCH: &str = "application/openstack-images-v2.1-json-patch";

async fn made(user: &User, fields: Value) -> Uuid {
    id_of(&user.post(IMAGES, fields).await.expect(201).body)
}

async fn raw(user: &User, name: &str) -> Uuid {
    made(user, json!({"name": name, "disk_format": "raw", "container_format": "bare"})).await
}

async fn stage_bytes(user: &User, image: Uuid) -> Answer {
    user.send_typed(Method::PUT, &format!("{IMAGES}/{image}/stage"), "application/octet-stream", BYTES.to_vec()).await
}

async fn import(user: &User, image: Uuid, method: &str) -> Answer {
    user.post(&format!("{IMAGES}/{image}/import"), json!({"method": {"name": method}})).await
}

async fn show(user: &User, image: Uuid) -> Value {
    user.get(&format!("{IMAGES}/{image}")).await.expect(200).body
}

#[test]
fn staged_bytes_become_an_image_with_its_import() {
    play_default(|stage| async move {
        let user = &stage.member;
        let methods = user.get("/image/v2/info/import").await.expect(200).body["import-methods"]["value"].clone();
        assert_eq!(methods, json!(["glance-direct", "copy-image"]));
        let image = raw(user, "staged").await;
        import(user, image, "glance-direct").await.expect(409);
        stage_bytes(user, image).await.expect(204);
        let staged = show(user, image).await;
        assert_eq!((&staged["status"], &staged["size"], &staged["os_hash_value"]), (&json!("uploading"), &Value::Null, &Value::Null));
        let file = format!("{IMAGES}/{image}/file");
        user.get(&file).await.expect(204);
        stage_bytes(user, image).await.expect(409);
        user.upload(image, BYTES.to_vec()).await.expect(409);
        for (method, status) in [("web-download", 403), ("glance-download", 403), ("by-mail", 400), ("copy-image", 409)] {
            import(user, image, method).await.expect(status);
        }
        let elsewhere = json!({"method": {"name": "glance-direct"}, "stores": ["far"]});
        user.post(&format!("{IMAGES}/{image}/import"), elsewhere).await.expect(400);
        assert_eq!(show(user, image).await["status"], "uploading");
        import(user, image, "glance-direct").await.expect(202);
        let active = show(user, image).await;
        assert_eq!((&active["status"], &active["size"], &active["stores"]), (&json!("active"), &json!(BYTES.len()), &json!("file")));
        assert_eq!(user.get(&file).await.expect(200).text.as_bytes(), BYTES);
        import(user, image, "glance-direct").await.expect(409);
        import(user, image, "copy-image").await.expect(202);
        // Without formats an image is not usable, so it is not imported; what was staged goes with it.
        let formless = made(user, json!({"name": "formless"})).await;
        stage_bytes(user, formless).await.expect(204);
        import(user, formless, "glance-direct").await.expect(409);
        user.delete(&format!("{IMAGES}/{formless}")).await.expect(204);
    });
}

#[test]
fn an_import_is_a_task_that_has_succeeded() {
    play_default(|stage| async move {
        let (user, admin) = (&stage.member, &stage.admin);
        let image = raw(user, "followed").await;
        let tasks =
            async || user.get(&format!("{IMAGES}/{image}/tasks")).await.expect(200).body["tasks"].as_array().expect("a list").clone();
        stage_bytes(user, image).await.expect(204);
        import(user, image, "glance-direct").await.expect(202);
        import(user, image, "glance-direct").await.expect(409);
        import(user, image, "copy-image").await.expect(202);
        let methods: Vec<Value> = tasks().await.iter().map(|task| task["input"]["import_req"]["method"]["name"].clone()).collect();
        assert_eq!(methods, ["copy-image", "glance-direct"], "newest first, and none for a refused import");
        let newest = tasks().await.remove(0);
        assert_eq!((&newest["status"], &newest["result"]["image_id"]), (&json!("success"), &json!(image)));
        let path = format!("/image/v2/tasks/{}", newest["id"].as_str().expect("an id"));
        assert_eq!(admin.get(&path).await.expect(200).body, newest);
        user.get(&path).await.expect(403);
        for _ in 0..25 {
            import(user, image, "copy-image").await.expect(202);
        }
        assert_eq!(tasks().await.len(), 20, "of many imports of an image the newest are kept");
        let mut page = admin.get("/image/v2/tasks?limit=15").await.expect(200).body;
        let mut seen = page["tasks"].as_array().expect("a list").len();
        while let Some(next) = page["next"].as_str().map(|next| format!("/image{next}")) {
            page = admin.get(&next).await.expect(200).body;
            seen += page["tasks"].as_array().expect("a list").len();
        }
        assert_eq!(seen, 20);
        admin.get("/image/v2/tasks?limit=many").await.expect(400);
        admin.get("/image/v2/tasks?marker=nothing").await.expect(404);
    });
}

#[test]
fn a_deactivated_image_makes_nothing_until_it_is_reactivated() {
    play_default(|stage| async move {
        let user = &stage.member;
        let image = raw(user, "paused").await;
        let act = async |verb: &str, status: u16| user.post(&format!("{IMAGES}/{image}/actions/{verb}"), json!({})).await.expect(status);
        act("deactivate", 403).await;
        user.upload(image, BYTES.to_vec()).await.expect(204);
        act("deactivate", 204).await;
        act("deactivate", 204).await;
        assert_eq!(show(user, image).await["status"], "deactivated");
        let file = format!("{IMAGES}/{image}/file");
        user.get(&file).await.expect(403);
        assert_eq!(stage.admin.get(&file).await.expect(200).text.as_bytes(), BYTES);
        user.upload(image, BYTES.to_vec()).await.expect(409);
        let refused = NewServer::of_image(image).ask(user).await.expect(400);
        assert!(refused.message().contains("not active"), "{}", refused.text);
        let volume = json!({"volume": {"size": 1, "imageRef": image}});
        user.post("/volume/v3/volumes", volume.clone()).await.expect(400);
        act("reactivate", 204).await;
        assert_eq!(user.get(&file).await.expect(200).text.as_bytes(), BYTES);
        user.post("/volume/v3/volumes", volume).await.expect(202);
        stage.create(NewServer::of_image(image)).await;
    });
}

#[test]
fn hidden_images_are_listed_where_they_are_asked_for() {
    play_default(|stage| async move {
        let user = &stage.member;
        let image = raw(user, "plain").await;
        let path = format!("{IMAGES}/{image}");
        let patch =
            async |kind: &'static str, steps: Value| user.send_typed(Method::PATCH, &path, kind, steps.to_string().into_bytes()).await;
        patch(PATCH, json!([{"op": "replace", "path": "/os_hidden", "value": true}])).await.expect(200);
        let listed = async |query: &str| {
            let body = user.get(&format!("{IMAGES}?{query}")).await.expect(200).body;
            body["images"].as_array().expect("images").iter().any(|one| one["id"] == json!(image))
        };
        for (query, there) in [("", false), ("os_hidden=true", true), ("os_hidden=false", false), (&format!("id=in:{image}"), true)] {
            assert_eq!(listed(query).await, there, "{query}");
        }
        assert_eq!(show(user, image).await["os_hidden"], true);
        // The patches of Glance 2.0 are keyed by their operations.
        let shown =
            patch(OLDER_PATCH, json!([{"replace": "/os_hidden", "value": false}, {"add": "/colour", "value": "red"}])).await.expect(200);
        assert_eq!((&shown.body["os_hidden"], &shown.body["colour"]), (&json!(false), &json!("red")));
        patch(OLDER_PATCH, json!([{"remove": "/colour"}])).await.expect(200);
        for (kind, steps) in [
            (OLDER_PATCH, json!([{"op": "replace", "path": "/name", "value": "x"}])),
            (OLDER_PATCH, json!([{"replace": "/name", "add": "/name", "value": "x"}])),
            (PATCH, json!([{"replace": "/name", "value": "x"}])),
            (PATCH, json!([7])),
        ] {
            patch(kind, steps.clone()).await.expect(400);
        }
        patch(PATCH, json!([{"op": "add", "path": "/os_glance_task", "value": "x"}])).await.expect(403);
        assert_eq!(user.get("/image/v2/schemas/image").await.expect(200).body["name"], "image");
    });
}
