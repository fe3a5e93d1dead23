//! `/flavors`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{
    account, boolean, count, integer, links, list, meta, metadata, next, nothing, object, only, or_null, perhaps, plus, text,
};

/// 2.55: `description`. 2.61: `extra_specs`, for those who may read them. 2.75: `swap` is 0 and not "". 2.102: neither `rxtx_factor` nor
/// `OS-FLV-DISABLED:disabled`.
const WHOLE: &[u16] = &[1, 55, 61, 75, 102];

pub static ROUTES: &[Route] = &[
    // 2.55: `description`.
    ("GET", "/flavors", &[1, 55], |minor| perhaps(only("flavors", list(brief(minor))), json!({"flavors_links": next()}))),
    ("GET", "/flavors/detail", WHOLE, |minor| perhaps(only("flavors", list(whole(minor))), json!({"flavors_links": next()}))),
    ("POST", "/flavors", WHOLE, |minor| only("flavor", whole(minor))),
    ("GET", "/flavors/{}", WHOLE, |minor| only("flavor", whole(minor))),
    ("PUT", "/flavors/{}", &[55, 61, 75, 102], |minor| only("flavor", whole(minor))),
    ("DELETE", "/flavors/{}", &[1], nothing),
    ("GET", "/flavors/{}/os-extra_specs", &[1], |_| only("extra_specs", metadata())),
    // The body of the request, whose values may be numbers.
    ("POST", "/flavors/{}/os-extra_specs", &[1], |_| only("extra_specs", writable_specs())),
    ("GET", "/flavors/{}/os-extra_specs/{}", &[1], |_| meta()),
    ("PUT", "/flavors/{}/os-extra_specs/{}", &[1], |_| writable_specs()),
    ("DELETE", "/flavors/{}/os-extra_specs/{}", &[1], nothing),
    ("GET", "/flavors/{}/os-flavor-access", &[1], access),
    ("POST", "/flavors/{}/action#addTenantAccess", &[1], access),
    ("POST", "/flavors/{}/action#removeTenantAccess", &[1], access),
];

fn brief(minor: u16) -> Value {
    let brief = object(json!({"id": text(), "name": text(), "links": links()}));
    if minor >= 55 { plus(brief, json!({"description": or_null(text())})) } else { brief }
}

fn whole(minor: u16) -> Value {
    let mut whole = plus(
        brief(minor),
        json!({
            "ram": count(),
            "disk": count(),
            "vcpus": count(),
            "swap": if minor >= 75 { count() } else { json!({"anyOf": [{"type": "integer", "minimum": 1}, {"enum": [""]}]}) },
            "OS-FLV-EXT-DATA:ephemeral": count(),
            "os-flavor-access:is_public": boolean(),
        }),
    );
    if minor < 102 {
        whole = plus(whole, json!({"rxtx_factor": {"type": "number"}, "OS-FLV-DISABLED:disabled": boolean()}));
    }
    if minor >= 61 { perhaps(whole, json!({"extra_specs": metadata()})) } else { whole }
}

fn writable_specs() -> Value {
    let mut specs = metadata();
    for value in specs["patternProperties"].as_object_mut().expect("patterns").values_mut() {
        value["type"] = json!(["string", "number"]);
    }
    specs
}

fn access(_: u16) -> Value {
    only("flavor_access", list(object(json!({"flavor_id": text(), "tenant_id": account()}))))
}

/// Describes the flavor in a server from 2.47 on. Its extra specs are for those who may read them.
pub fn embedded() -> Value {
    let sizes = json!({
        "vcpus": integer(),
        "ram": integer(),
        "disk": integer(),
        "ephemeral": integer(),
        "swap": integer(),
        "original_name": text(),
    });
    perhaps(object(sizes), json!({"extra_specs": metadata()}))
}
