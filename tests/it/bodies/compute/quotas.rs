//! `/os-quota-sets`, `/os-quota-class-sets` and `/limits`.

use serde_json::{Map, Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{account, count, nothing, object, only, plus, text};

/// 2.36: no networks. 2.57: no injected files.
const SETS: &[u16] = &[1, 36, 57];
/// 2.50: no networks, and groups of servers. 2.57: no injected files.
const CLASSES: &[u16] = &[1, 50, 57];

const ALWAYS: &[&str] = &["cores", "instances", "key_pairs", "metadata_items", "ram"];
const GROUPS: &[&str] = &["server_groups", "server_group_members"];
const NETWORK: &[&str] = &["fixed_ips", "floating_ips", "security_groups", "security_group_rules"];
const FILES: &[&str] = &["injected_files", "injected_file_content_bytes", "injected_file_path_bytes"];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-quota-sets/{}", SETS, |minor| only("quota_set", of_project(minor, limit()))),
    ("PUT", "/os-quota-sets/{}", SETS, |minor| only("quota_set", set(minor, limit()))),
    ("DELETE", "/os-quota-sets/{}", &[1], nothing),
    ("GET", "/os-quota-sets/{}/defaults", SETS, |minor| only("quota_set", of_project(minor, limit()))),
    ("GET", "/os-quota-sets/{}/detail", SETS, |minor| only("quota_set", of_project(minor, figures()))),
    ("GET", "/os-quota-class-sets/{}", CLASSES, |minor| only("quota_class_set", plus(class(minor), json!({"id": text()})))),
    ("PUT", "/os-quota-class-sets/{}", CLASSES, |minor| only("quota_class_set", class(minor))),
    // 2.36: no networks. 2.39: no metadata of images. 2.57: no injected files.
    ("GET", "/limits", &[1, 36, 39, 57], limits),
];

/// Describes a limit, of which -1 is none.
fn limit() -> Value {
    json!({"type": "integer", "minimum": -1})
}

fn figures() -> Value {
    object(json!({"limit": limit(), "in_use": count(), "reserved": {"enum": [0]}}))
}

fn each(groups: &[&[&str]], value: &Value) -> Value {
    let fields = groups.iter().flat_map(|group| group.iter()).map(|name| ((*name).to_owned(), value.clone()));
    object(Value::Object(fields.collect::<Map<String, Value>>()))
}

fn set(minor: u16, value: Value) -> Value {
    match minor {
        57.. => each(&[ALWAYS, GROUPS], &value),
        36.. => each(&[ALWAYS, GROUPS, FILES], &value),
        _ => each(&[ALWAYS, GROUPS, FILES, NETWORK], &value),
    }
}

fn of_project(minor: u16, value: Value) -> Value {
    plus(set(minor, value), json!({"id": account()}))
}

fn class(minor: u16) -> Value {
    match minor {
        57.. => each(&[ALWAYS, GROUPS], &limit()),
        50.. => each(&[ALWAYS, GROUPS, FILES], &limit()),
        _ => each(&[ALWAYS, FILES, NETWORK], &limit()),
    }
}

fn limits(minor: u16) -> Value {
    let mut names = vec!["maxServerMeta", "maxTotalCores", "maxTotalInstances", "maxTotalKeypairs", "maxTotalRAMSize"];
    names.extend(["maxServerGroups", "maxServerGroupMembers"]);
    let mut used = vec!["totalCoresUsed", "totalInstancesUsed", "totalRAMUsed", "totalServerGroupsUsed"];
    if minor < 36 {
        names.extend(["maxSecurityGroups", "maxSecurityGroupRules", "maxTotalFloatingIps"]);
        used.extend(["totalFloatingIpsUsed", "totalSecurityGroupsUsed"]);
    }
    if minor < 39 {
        names.push("maxImageMeta");
    }
    if minor < 57 {
        names.extend(["maxPersonality", "maxPersonalitySize"]);
    }
    let absolute = plus(each(&[&names], &limit()), each(&[&used], &count())["properties"].clone());
    only("limits", object(json!({"rate": {"type": "array", "maxItems": 0}, "absolute": absolute})))
}
