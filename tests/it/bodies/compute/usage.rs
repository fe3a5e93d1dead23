//! `/os-simple-tenant-usage`, `/extensions`, and what Nova removed.

use serde_json::{Value, json};

use super::servers::VM_STATES;
use crate::bodies::Route;
use crate::bodies::parts::{account, count, list, micros, never, next, object, one_of, only, or_null, perhaps, plus, seconds, text, uuid};

/// 2.40: pages.
const USAGE: &[u16] = &[1, 40];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-simple-tenant-usage", USAGE, |minor| paged(minor, "tenant_usages", list(perhaps(usage(), servers())))),
    // A project without servers in the period has an empty report.
    ("GET", "/os-simple-tenant-usage/{}", USAGE, |minor| paged(minor, "tenant_usage", of_project())),
    ("GET", "/extensions", &[1], |_| only("extensions", list(extension()))),
    ("GET", "/extensions/{}", &[1], |_| only("extension", extension())),
    ("GET", "/os-agents", &[1], never),
    ("POST", "/os-agents", &[1], never),
    ("PUT", "/os-agents/{}", &[1], never),
    ("DELETE", "/os-agents/{}", &[1], never),
    ("GET", "/os-cells", &[1], never),
    ("POST", "/os-cells", &[1], never),
    ("GET", "/os-cells/capacities", &[1], never),
    ("GET", "/os-cells/detail", &[1], never),
    ("GET", "/os-cells/info", &[1], never),
    ("POST", "/os-cells/sync_instances", &[1], never),
    ("GET", "/os-cells/{}", &[1], never),
    ("PUT", "/os-cells/{}", &[1], never),
    ("DELETE", "/os-cells/{}", &[1], never),
    ("GET", "/os-cells/{}/capacities", &[1], never),
    ("POST", "/os-certificates", &[1], never),
    ("GET", "/os-certificates/{}", &[1], never),
    ("GET", "/os-cloudpipe", &[1], never),
    ("POST", "/os-cloudpipe", &[1], never),
    ("PUT", "/os-cloudpipe/{}", &[1], never),
    ("GET", "/os-fixed-ips/{}", &[1], never),
    ("POST", "/os-fixed-ips/{}/action#reserve", &[1], never),
    ("GET", "/os-floating-ip-dns", &[1], never),
    ("PUT", "/os-floating-ip-dns/{}", &[1], never),
    ("DELETE", "/os-floating-ip-dns/{}", &[1], never),
    ("GET", "/os-floating-ip-dns/{}/entries/{}", &[1], never),
    ("PUT", "/os-floating-ip-dns/{}/entries/{}", &[1], never),
    ("DELETE", "/os-floating-ip-dns/{}/entries/{}", &[1], never),
    ("GET", "/os-floating-ips-bulk", &[1], never),
    ("POST", "/os-floating-ips-bulk", &[1], never),
    ("GET", "/os-floating-ips-bulk/{}", &[1], never),
    ("PUT", "/os-floating-ips-bulk/{}", &[1], never),
    ("GET", "/os-fping", &[1], never),
    ("GET", "/os-fping/{}", &[1], never),
    ("GET", "/os-security-group-default-rules", &[1], never),
    ("POST", "/os-security-group-default-rules", &[1], never),
    ("GET", "/os-security-group-default-rules/{}", &[1], never),
    ("DELETE", "/os-security-group-default-rules/{}", &[1], never),
    ("GET", "/servers/{}/os-virtual-interfaces", &[1], never),
];

fn paged(minor: u16, key: &str, inner: Value) -> Value {
    let page = only(key, inner);
    if minor >= 40 { perhaps(page, json!({format!("{key}_links"): next()})) } else { page }
}

fn of_project() -> Value {
    json!({"anyOf": [plus(usage(), servers()), object(json!({}))]})
}

fn usage() -> Value {
    let amount = json!({"type": "number", "minimum": 0});
    object(json!({
        "tenant_id": account(),
        "start": micros(),
        "stop": micros(),
        "total_hours": amount,
        "total_vcpus_usage": amount,
        "total_memory_mb_usage": amount,
        "total_local_gb_usage": amount,
    }))
}

fn servers() -> Value {
    let states: Vec<&str> =
        VM_STATES.iter().filter(|state| !["deleted", "soft-delete"].contains(state)).chain(&["terminated"]).copied().collect();
    let server = object(json!({
        "instance_id": uuid(),
        "name": text(),
        "tenant_id": account(),
        "flavor": text(),
        "vcpus": count(),
        "memory_mb": count(),
        "local_gb": count(),
        "hours": {"type": "number", "minimum": 0},
        "uptime": count(),
        "started_at": micros(),
        "ended_at": or_null(micros()),
        "state": one_of(&states),
    }));
    json!({"server_usages": list(server)})
}

fn extension() -> Value {
    object(json!({
        "alias": text(),
        "name": text(),
        "description": text(),
        "namespace": text(),
        "updated": seconds(),
        "links": {"type": "array", "maxItems": 0},
    }))
}
