//! `/os-server-groups`, `/os-server-external-events` and `/os-assisted-volume-snapshots`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{account, list, nothing, object, one_of, only, or_null, perhaps, plus, text, uuid};

/// 2.13: `project_id` and `user_id`. 2.64: one policy with rules, in place of `policies` and `metadata`.
const CHANGES: &[u16] = &[1, 13, 64];

const POLICIES: &[&str] = &["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-server-groups", CHANGES, |minor| only("server_groups", list(group(minor)))),
    ("POST", "/os-server-groups", CHANGES, |minor| only("server_group", group(minor))),
    ("GET", "/os-server-groups/{}", CHANGES, |minor| only("server_group", group(minor))),
    ("DELETE", "/os-server-groups/{}", &[1], nothing),
    ("POST", "/os-assisted-volume-snapshots", &[1], |_| only("snapshot", object(json!({"id": or_null(text()), "volumeId": uuid()})))),
    ("DELETE", "/os-assisted-volume-snapshots/{}", &[1], nothing),
    // 2.51: `volume-extended`. 2.76: `power-update`. 2.82: `accelerator-request-bound`. 2.93: `volume-reimaged`.
    ("POST", "/os-server-external-events", &[1, 51, 76, 82, 93], |minor| only("events", list(event(minor)))),
];

fn group(minor: u16) -> Value {
    let mut group = object(json!({"id": uuid(), "name": text(), "members": list(uuid())}));
    if minor >= 13 {
        group = plus(group, json!({"project_id": account(), "user_id": account()}));
    }
    if minor >= 64 {
        let rules = perhaps(object(json!({})), json!({"max_server_per_host": {"type": "integer", "minimum": 1}}));
        return plus(group, json!({"policy": one_of(POLICIES), "rules": rules}));
    }
    let policies = json!({"type": "array", "items": one_of(POLICIES), "minItems": 1, "maxItems": 1});
    plus(group, json!({"policies": policies, "metadata": object(json!({}))}))
}

fn event(minor: u16) -> Value {
    let mut names = vec!["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"];
    let later = [(51, "volume-extended"), (76, "power-update"), (82, "accelerator-request-bound"), (93, "volume-reimaged")];
    names.extend(later.iter().filter(|(since, _)| minor >= *since).map(|(_, name)| *name));
    let event = object(json!({
        "name": one_of(&names),
        "server_uuid": uuid(),
        "status": one_of(&["completed", "failed"]),
        "code": {"enum": [200, 400, 404, 422]},
    }));
    perhaps(event, json!({"tag": {"type": "string", "maxLength": 255}}))
}
