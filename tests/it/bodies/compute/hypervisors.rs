//! `/os-hypervisors`.

use serde_json::{Map, Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{integer, list, next, object, one_of, only, or_null, perhaps, plus, text, until, uuid};

/// 2.28: `cpu_info` is an object and no text. 2.53: ids are UUIDs, and servers are there where they are asked for. 2.88: the uptime in place
/// of the amounts.
const WHOLE: &[u16] = &[1, 28, 53, 88];

/// The amounts of resources.
const AMOUNTS: [&str; 11] = [
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "current_workload",
    "running_vms",
];

pub static ROUTES: &[Route] = &[
    // 2.33: pages. 2.53: see above.
    ("GET", "/os-hypervisors", &[1, 33, 53], |minor| page(minor, with_servers(minor, brief(minor)))),
    // 2.33: pages.
    ("GET", "/os-hypervisors/detail", &[1, 28, 33, 53, 88], |minor| page(minor, with_servers(minor, whole(minor)))),
    ("GET", "/os-hypervisors/{}", WHOLE, |minor| only("hypervisor", with_servers(minor, whole(minor)))),
    // 2.53: the id is a UUID.
    ("GET", "/os-hypervisors/{}/uptime", &[1, 53, 88], |minor| {
        until(87, minor, only("hypervisor", plus(brief(minor), json!({"uptime": text()}))))
    }),
    ("GET", "/os-hypervisors/{}/search", &[1, 53], |minor| until(52, minor, only("hypervisors", list(brief(1))))),
    ("GET", "/os-hypervisors/{}/servers", &[1, 53], |minor| until(52, minor, only("hypervisors", list(with_servers(53, brief(1)))))),
    ("GET", "/os-hypervisors/statistics", &[1, 88], |minor| {
        until(87, minor, only("hypervisor_statistics", plus(amounts(), json!({"count": integer()}))))
    }),
];

fn page(minor: u16, item: Value) -> Value {
    let page = only("hypervisors", list(item));
    if minor >= 33 { perhaps(page, json!({"hypervisors_links": next()})) } else { page }
}

fn id(minor: u16) -> Value {
    if minor >= 53 { uuid() } else { integer() }
}

fn brief(minor: u16) -> Value {
    object(json!({
        "id": id(minor),
        "hypervisor_hostname": text(),
        "state": one_of(&["up", "down"]),
        "status": one_of(&["enabled", "disabled"]),
    }))
}

fn with_servers(minor: u16, hypervisor: Value) -> Value {
    let servers = list(object(json!({"name": text(), "uuid": uuid()})));
    if minor >= 53 { perhaps(hypervisor, json!({"servers": servers})) } else { hypervisor }
}

fn amounts() -> Value {
    object(Value::Object(AMOUNTS.iter().map(|name| ((*name).to_owned(), integer())).collect::<Map<String, Value>>()))
}

fn whole(minor: u16) -> Value {
    let whole = plus(
        brief(minor),
        json!({
            "hypervisor_type": text(),
            "hypervisor_version": integer(),
            "host_ip": json!({"type": "string", "format": "ipv4"}),
            "service": object(json!({"id": id(minor), "host": text(), "disabled_reason": or_null(text())})),
        }),
    );
    if minor >= 88 {
        return plus(whole, json!({"uptime": or_null(text())}));
    }
    let whole = plus(whole, amounts()["properties"].clone());
    // The driver chooses the content.
    plus(whole, json!({"cpu_info": if minor >= 28 { json!({"type": "object"}) } else { text() }}))
}
