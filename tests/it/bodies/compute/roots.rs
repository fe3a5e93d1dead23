//! Version documents.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{list, never, object, one_of, only, plus, seconds, text, typed_link};

pub static ROUTES: &[Route] = &[
    ("GET", "/compute", &[1], |_| only("versions", list(version(&["v2.0", "v2.1"])))),
    ("GET", "/compute/v2", &[1], |_| only("version", whole("v2.0", "2"))),
    ("GET", "/compute/v2.1", &[1], |_| only("version", whole("v2.1", "2.1"))),
    // A WebSocket, or a refusal.
    ("GET", "/compute/serial-console", &[1], never),
];

fn version(ids: &[&str]) -> Value {
    let number = json!({"type": "string", "pattern": r"^(2\.[0-9]+)?$"});
    object(json!({
        "id": one_of(ids),
        "status": one_of(&["CURRENT", "SUPPORTED"]),
        "version": number,
        "min_version": number,
        "updated": seconds(),
        "links": list(object(json!({"rel": one_of(&["self"]), "href": text()}))),
    }))
}

/// Describes a version's own document.
fn whole(id: &str, number: &str) -> Value {
    let own = object(json!({"rel": one_of(&["self"]), "href": text()}));
    let kind = format!("application/vnd.openstack.compute+json;version={number}");
    plus(
        version(&[id]),
        json!({
            "links": {"type": "array", "items": [own, typed_link("describedby", "text/html")], "minItems": 2, "additionalItems": false},
            "media-types": list(object(json!({"base": one_of(&["application/json"]), "type": one_of(&[&kind])}))),
        }),
    )
}
