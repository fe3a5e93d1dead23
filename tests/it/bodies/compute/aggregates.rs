//! `/os-aggregates` and `/os-availability-zone`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{
    always_null, boolean, integer, list, metadata, micros, minus, nothing, object, only, or_null, plus, text, uuid,
};

/// 2.41: `uuid`.
const CHANGES: &[u16] = &[1, 41];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-aggregates", CHANGES, |minor| only("aggregates", list(whole(minor)))),
    ("POST", "/os-aggregates", CHANGES, |minor| only("aggregate", minus(whole(minor), &["hosts", "metadata"]))),
    ("GET", "/os-aggregates/{}", CHANGES, one),
    ("PUT", "/os-aggregates/{}", CHANGES, one),
    ("DELETE", "/os-aggregates/{}", &[1], nothing),
    ("POST", "/os-aggregates/{}/action#add_host", CHANGES, one),
    ("POST", "/os-aggregates/{}/action#remove_host", CHANGES, one),
    ("POST", "/os-aggregates/{}/action#set_metadata", CHANGES, one),
    ("GET", "/os-availability-zone", &[1], |_| zones(always_null())),
    ("GET", "/os-availability-zone/detail", &[1], |_| zones(or_null(hosts()))),
];

fn one(minor: u16) -> Value {
    only("aggregate", whole(minor))
}

fn whole(minor: u16) -> Value {
    let aggregate = object(json!({
        "id": integer(),
        "name": text(),
        "availability_zone": or_null(text()),
        "hosts": list(text()),
        "metadata": metadata(),
        "created_at": micros(),
        "updated_at": or_null(micros()),
        "deleted": {"enum": [false]},
        "deleted_at": always_null(),
    }));
    if minor >= 41 { plus(aggregate, json!({"uuid": uuid()})) } else { aggregate }
}

fn zones(hosts: Value) -> Value {
    let state = only("available", boolean());
    only("availabilityZoneInfo", list(object(json!({"zoneName": text(), "zoneState": state, "hosts": hosts}))))
}

/// Describes the services of a zone by host and binary.
fn hosts() -> Value {
    let service = object(json!({"available": boolean(), "active": boolean(), "updated_at": or_null(micros())}));
    json!({"type": "object", "additionalProperties": {"type": "object", "minProperties": 1, "additionalProperties": service}})
}
