//! The schemas of the image API's answers, which has no microversions.

use serde_json::{Value, json};

use super::Route;
use super::parts::{
    account, always_null, boolean, count, list, nothing, object, one_of, only, or_null, perhaps, plus, seconds, text, url, uuid,
};

/// The tables, each with the root of its routes.
pub static TABLES: [(&str, &[Route]); 2] = [("/image", ROOTS), ("/image/v2", ROUTES)];

static ROOTS: &[Route] = &[("GET", "", &[0], |_| versions()), ("GET", "/versions", &[0], |_| versions())];

static ROUTES: &[Route] = &[
    ("GET", "", &[0], |_| versions()),
    ("GET", "/info/import", &[0], |_| only("import-methods", import_methods())),
    ("GET", "/info/stores", &[0], |_| only("stores", list(store()))),
    ("GET", "/schemas/image", &[0], |_| described_item()),
    ("GET", "/schemas/images", &[0], |_| described_list()),
    ("GET", "/schemas/member", &[0], |_| described_item()),
    ("GET", "/schemas/members", &[0], |_| described_list()),
    ("GET", "/tasks", &[0], |_| page("tasks", "/v2/schemas/tasks", task())),
    ("GET", "/tasks/{}", &[0], |_| whole_task()),
    ("GET", "/images", &[0], |_| page("images", "/v2/schemas/images", image())),
    ("POST", "/images", &[0], |_| image()),
    ("GET", "/images/{}", &[0], |_| image()),
    ("PATCH", "/images/{}", &[0], |_| image()),
    ("DELETE", "/images/{}", &[0], nothing),
    ("PUT", "/images/{}/file", &[0], nothing),
    ("GET", "/images/{}/tasks", &[0], |_| only("tasks", list(whole_task()))),
    ("PUT", "/images/{}/stage", &[0], nothing),
    ("POST", "/images/{}/import", &[0], nothing),
    ("POST", "/images/{}/actions/deactivate", &[0], nothing),
    ("POST", "/images/{}/actions/reactivate", &[0], nothing),
    ("PUT", "/images/{}/tags/{}", &[0], nothing),
    ("DELETE", "/images/{}/tags/{}", &[0], nothing),
    ("GET", "/images/{}/members", &[0], |_| object(json!({"members": list(member()), "schema": one_of(&["/v2/schemas/members"])}))),
    ("POST", "/images/{}/members", &[0], |_| member()),
    ("GET", "/images/{}/members/{}", &[0], |_| member()),
    ("PUT", "/images/{}/members/{}", &[0], |_| member()),
    ("DELETE", "/images/{}/members/{}", &[0], nothing),
];

fn versions() -> Value {
    let link = object(json!({"rel": one_of(&["self"]), "href": url()}));
    let version = object(json!({
        "id": {"type": "string", "pattern": r"^v2\.[0-9]+$"}, "status": one_of(&["CURRENT", "SUPPORTED"]), "links": list(link),
    }));
    only("versions", list(version))
}

/// Describes a page of a list.
fn page(name: &str, schema: &str, item: Value) -> Value {
    let path = json!({"type": "string", "pattern": format!(r"^/v2/{name}(\?.*)?$")});
    perhaps(object(json!({name: list(item), "schema": one_of(&[schema]), "first": path})), json!({"next": path}))
}

fn import_methods() -> Value {
    object(json!({"description": text(), "type": one_of(&["array"]), "value": list(text())}))
}

fn store() -> Value {
    perhaps(object(json!({"id": text()})), json!({"default": one_of(&["true"]), "description": text()}))
}

/// Describes a JSON schema of an item.
fn described_item() -> Value {
    let item = object(json!({"name": text(), "properties": {"type": "object", "minProperties": 1}}));
    perhaps(item, json!({"links": list(link_of_schema()), "additionalProperties": {"type": "object"}}))
}

/// Describes a JSON schema of a list.
fn described_list() -> Value {
    plus(described_item(), json!({"links": list(link_of_schema())}))
}

fn link_of_schema() -> Value {
    object(json!({"href": text(), "rel": text()}))
}

/// Describes an image. Any further property is a text.
fn image() -> Value {
    let mut image = perhaps(
        object(json!({
            "id": uuid(), "name": or_null(text()), "status": one_of(&["queued", "saving", "uploading", "importing", "active", "deactivated"]),
            "visibility": one_of(&["public", "private", "shared", "community"]), "owner": or_null(account()), "protected": boolean(),
            "os_hidden": boolean(), "container_format": or_null(text()), "disk_format": or_null(text()), "min_disk": count(), "min_ram": count(),
            "size": or_null(count()), "virtual_size": or_null(count()), "checksum": always_null(), "os_hash_algo": or_null(one_of(&["sha256"])),
            "os_hash_value": or_null(json!({"type": "string", "pattern": "^[0-9a-f]{64}$"})), "tags": list(text()), "created_at": seconds(),
            "updated_at": seconds(), "self": text(), "file": text(), "schema": one_of(&["/v2/schemas/image"]),
        })),
        json!({"stores": text()}),
    );
    image["additionalProperties"] = text();
    image
}

/// Describes an import, which is done when it is answered.
fn task() -> Value {
    object(json!({
        "id": uuid(), "type": one_of(&["api_image_import"]), "status": one_of(&["success"]), "owner": account(), "image_id": uuid(),
        "user_id": account(), "request_id": text(), "created_at": seconds(), "updated_at": seconds(), "expires_at": seconds(),
        "self": text(), "schema": one_of(&["/v2/schemas/task"]),
    }))
}

fn whole_task() -> Value {
    let request = only("method", only("name", one_of(&["glance-direct", "copy-image"])));
    let input = object(json!({"image_id": uuid(), "import_req": request}));
    plus(task(), json!({"input": input, "result": only("image_id", uuid()), "message": one_of(&[""])}))
}

fn member() -> Value {
    object(json!({
        "image_id": uuid(), "member_id": text(), "status": one_of(&["pending", "accepted", "rejected"]), "created_at": seconds(),
        "updated_at": seconds(), "schema": one_of(&["/v2/schemas/member"]),
    }))
}
