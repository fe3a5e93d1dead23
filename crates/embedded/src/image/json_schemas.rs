//! `/v2/schemas`: the JSON schemas of images and members, by which clients tell attributes from properties.

use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use serde_json::{Value, json};

/// The name of a schema, and what makes it.
type Named = (&'static str, fn() -> Value);

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let schemas: [Named; 4] =
        [("image", image), ("images", || list("images", image())), ("member", member), ("members", || list("members", member()))];
    for (name, schema) in schemas {
        let answer = move |_: Caller| async move { HttpResponse::Ok().json(schema()) };
        cfg.service(web::resource(format!("/v2/schemas/{name}")).route(web::get().to(answer)));
    }
}

fn list(name: &str, item: Value) -> Value {
    json!({
        "name": name,
        "properties": {
            name: {"type": "array", "items": item},
            "first": {"type": "string"},
            "next": {"type": "string"},
            "schema": {"type": "string"},
        },
        "links": [{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}, {"rel": "describedby", "href": "{schema}"}],
    })
}

fn image() -> Value {
    let text = |most: u16| json!({"type": ["null", "string"], "maxLength": most});
    let read_only = |kind: Value| json!({"type": kind, "readOnly": true});
    json!({
        "name": "image",
        "properties": {
            "id": {"type": "string", "pattern": "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"},
            "name": text(255),
            "owner": text(255),
            "status": {"type": "string", "readOnly": true, "enum": ["queued", "saving", "uploading", "active", "deactivated"]},
            "visibility": {"type": "string", "enum": ["community", "public", "private", "shared"]},
            "protected": {"type": "boolean"},
            "os_hidden": {"type": "boolean"},
            "disk_format": {"type": ["null", "string"]},
            "container_format": {"type": ["null", "string"]},
            "min_disk": {"type": "integer"},
            "min_ram": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}},
            "checksum": read_only(json!(["null", "string"])),
            "os_hash_algo": read_only(json!(["null", "string"])),
            "os_hash_value": read_only(json!(["null", "string"])),
            "size": read_only(json!(["null", "integer"])),
            "virtual_size": read_only(json!(["null", "integer"])),
            "stores": read_only(json!("string")),
            "created_at": read_only(json!("string")),
            "updated_at": read_only(json!("string")),
            "self": read_only(json!("string")),
            "file": read_only(json!("string")),
            "schema": read_only(json!("string")),
        },
        "additionalProperties": {"type": "string"},
        "links": [{"rel": "self", "href": "{self}"}, {"rel": "enclosure", "href": "{file}"}, {"rel": "describedby", "href": "{schema}"}],
    })
}

fn member() -> Value {
    json!({
        "name": "member",
        "properties": {
            "image_id": {"type": "string"},
            "member_id": {"type": "string"},
            "status": {"type": "string", "enum": ["pending", "accepted", "rejected"]},
            "created_at": {"type": "string"},
            "updated_at": {"type": "string"},
            "schema": {"type": "string", "readOnly": true},
        },
    })
}
