//! `/servers` and `/servers/{id}`.

use serde_json::{Map, Value, json};

use super::flavors::embedded;
use crate::bodies::Route;
use crate::bodies::parts::{
    account, address, bookmark, boolean, count, integer, links, list, mac_address, metadata, micros, next, nothing, object, one_of, only,
    or_null, perhaps, plus, seconds, text, together, uuid,
};

/// 2.3: more attributes for administrators, and `delete_on_termination`. 2.9: `locked`. 2.16: `host_status`. 2.19: `description`. 2.26:
/// `tags`. 2.47: the flavor itself in place of its link. 2.63: `trusted_image_certificates`. 2.69: servers of a cell that is down. 2.71:
/// `server_groups`. 2.73: `locked_reason`. 2.90: the host name for owners. 2.96: `pinned_availability_zone`. 2.98: the image's properties.
/// 2.100: `scheduler_hints`.
const SHOW: &[u16] = &[1, 3, 9, 16, 19, 26, 47, 63, 69, 71, 73, 90, 96, 98, 100];
/// As [`SHOW`], without 2.71.
const DETAIL: &[u16] = &[1, 3, 9, 16, 19, 26, 47, 63, 69, 73, 90, 96, 98, 100];
/// As [`SHOW`], without what only a whole server has. 2.75: a whole server.
const UPDATE: &[u16] = &[1, 9, 19, 26, 47, 63, 71, 73, 75, 90, 96, 98, 100];
/// As [`UPDATE`]. 2.54: `key_name`. 2.57: `user_data`.
pub const REBUILD: &[u16] = &[1, 9, 19, 26, 47, 54, 57, 63, 71, 73, 75, 90, 96, 98, 100];

pub static ROUTES: &[Route] = &[
    // 2.69: servers of a cell that is down.
    ("GET", "/servers", &[1, 69], |minor| page(if minor >= 69 { either(brief(), partial()) } else { dated(brief()) })),
    ("GET", "/servers/detail", DETAIL, detail),
    // The server, or the reservation of several.
    ("POST", "/servers", &[1], |_| json!({"anyOf": [only("server", made()), only("reservation_id", text())]})),
    ("GET", "/servers/{}", SHOW, show),
    ("PUT", "/servers/{}", UPDATE, |minor| only("server", whole(minor, minor >= 75, true))),
    ("DELETE", "/servers/{}", &[1], nothing),
];

pub const STATUSES: &[&str] = &[
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "VERIFY_RESIZE",
];
/// The statuses with a progress.
const GOING_ON: &[&str] = &["ACTIVE", "BUILD", "MIGRATING", "REBUILD", "RESIZE", "VERIFY_RESIZE"];
/// The statuses of a server that may have a fault.
const FAULTY: &[&str] = &["DELETED", "ERROR"];

pub const VM_STATES: &[&str] = &[
    "active",
    "building",
    "deleted",
    "error",
    "paused",
    "rescued",
    "resized",
    "shelved",
    "shelved_offloaded",
    "soft-delete",
    "stopped",
    "suspended",
];

const TASK_STATES: &[&str] = &[
    "block_device_mapping",
    "deleting",
    "image_backup",
    "image_pending_upload",
    "image_snapshot",
    "image_snapshot_pending",
    "image_uploading",
    "migrating",
    "networking",
    "pausing",
    "powering-off",
    "powering-on",
    "reboot_pending",
    "reboot_pending_hard",
    "reboot_started",
    "reboot_started_hard",
    "rebooting",
    "rebooting_hard",
    "rebuild_block_device_mapping",
    "rebuild_spawning",
    "rebuilding",
    "rescuing",
    "resize_confirming",
    "resize_finish",
    "resize_migrated",
    "resize_migrating",
    "resize_prep",
    "resize_reverting",
    "restoring",
    "resuming",
    "scheduling",
    "shelving",
    "shelving_image_pending_upload",
    "shelving_image_uploading",
    "shelving_offloading",
    "soft-deleting",
    "spawning",
    "suspending",
    "unpausing",
    "unrescuing",
    "unshelving",
    "updating_password",
];

fn page(server: Value) -> Value {
    perhaps(only("servers", list(server)), json!({"servers_links": next()}))
}

fn detail(minor: u16) -> Value {
    let server = whole(minor, true, false);
    match minor {
        69.. => page(either(server, perhaps(plus(partial(), of_mapping()), json!({"security_groups": security_groups()})))),
        _ => page(dated(server)),
    }
}

fn show(minor: u16) -> Value {
    let server = whole(minor, true, true);
    match minor {
        69.. => only("server", either(server, plus(partial(), of_request(minor)))),
        _ => only("server", dated(server)),
    }
}

/// Describes a server, or what is known of it while its cell is down.
fn either(server: Value, partial: Value) -> Value {
    json!({"anyOf": [dated(server), partial]})
}

/// Allows the age of a server that was last known before its cell went down, for requests that accept it.
fn dated(server: Value) -> Value {
    together(server, json!({"cellshift:last_known_at": seconds(), "cellshift:last_known_age": count()}))
}

fn brief() -> Value {
    object(json!({"id": uuid(), "name": text(), "links": links()}))
}

fn partial() -> Value {
    object(json!({"id": uuid(), "status": one_of(&["UNKNOWN"]), "links": links()}))
}

/// Describes what the mapping of a server to its cell says of it.
fn of_mapping() -> Value {
    json!({"tenant_id": account(), "created": seconds()})
}

/// Describes what the request for a server says of it.
fn of_request(minor: u16) -> Value {
    let mut fields = of_mapping();
    // "UNKNOWN" takes the place of a user that is not known.
    fields["user_id"] = account();
    fields["image"] = image(69);
    fields["flavor"] = embedded();
    fields["OS-EXT-AZ:availability_zone"] = text();
    fields["OS-EXT-STS:power_state"] = json!({"enum": [0]});
    if minor >= 71 {
        fields["server_groups"] = server_groups();
    }
    fields
}

fn made() -> Value {
    let made = object(json!({
        "id": uuid(),
        "links": links(),
        "security_groups": security_groups(),
        "OS-DCF:diskConfig": one_of(&["AUTO", "MANUAL"]),
    }));
    perhaps(made, json!({"adminPass": text()}))
}

/// Describes the answer to a rebuild.
pub fn rebuilt(minor: u16) -> Value {
    let mut server = whole(minor, minor >= 75, true);
    if minor >= 75 {
        // The user data has a place of its own here.
        server["properties"].as_object_mut().expect("properties").remove("OS-EXT-SRV-ATTR:user_data");
        for others in server["dependencies"].as_object_mut().expect("dependencies").values_mut() {
            others.as_array_mut().expect("names").retain(|name| name != "OS-EXT-SRV-ATTR:user_data");
        }
        server["dependencies"].as_object_mut().expect("dependencies").remove("OS-EXT-SRV-ATTR:user_data");
    }
    if minor >= 54 {
        server = plus(server, json!({"key_name": or_null(text())}));
    }
    if minor >= 57 {
        server = plus(server, json!({"user_data": user_data()}));
    }
    perhaps(server, json!({"adminPass": text()}))
}

/// Describes a server. Only `whole` ones have states and volumes, and an entry of a list has no server groups.
fn whole(minor: u16, whole: bool, groups: bool) -> Value {
    let mut server = core(minor, whole);
    if whole {
        server = plus(server, states(minor));
        server = perhaps(server, json!({"security_groups": security_groups()}));
        server = together(server, attributes(minor));
        if minor >= 16 {
            server = perhaps(server, json!({"host_status": one_of(&["UP", "DOWN", "MAINTENANCE", "UNKNOWN", ""])}));
        }
    }
    let since = [
        (9, json!({"locked": boolean()})),
        (19, json!({"description": or_null(text())})),
        (26, json!({"tags": {"type": "array", "items": tag(), "maxItems": 50, "uniqueItems": true}})),
        (63, json!({"trusted_image_certificates": or_null(list(text()))})),
        (71, json!({"server_groups": server_groups()})),
        (73, json!({"locked_reason": or_null(text())})),
        (90, json!({"OS-EXT-SRV-ATTR:hostname": text()})),
        (96, json!({"pinned_availability_zone": or_null(text())})),
        (100, json!({"scheduler_hints": {"type": "object"}})),
    ];
    for (_, field) in since.into_iter().filter(|(first, _)| minor >= *first && (groups || *first != 71)) {
        server = plus(server, field);
    }
    with_status(server)
}

/// Describes what all servers have in all versions.
fn core(minor: u16, with_mac: bool) -> Value {
    let flavor = if minor >= 47 { embedded() } else { object(json!({"id": text(), "links": bookmark()})) };
    let server = object(json!({
        "id": uuid(),
        "name": text(),
        "status": one_of(STATUSES),
        "tenant_id": account(),
        "user_id": account(),
        "metadata": metadata(),
        "hostId": host_id(),
        "image": image(minor),
        "flavor": flavor,
        "created": seconds(),
        "updated": seconds(),
        "addresses": addresses(with_mac),
        "accessIPv4": {"type": "string", "anyOf": [{"format": "ipv4"}, {"enum": [""]}]},
        "accessIPv6": {"type": "string", "anyOf": [{"format": "ipv6"}, {"enum": [""]}]},
        "links": links(),
        "OS-DCF:diskConfig": one_of(&["AUTO", "MANUAL"]),
    }));
    let fault = object(json!({"code": integer(), "created": seconds(), "message": text()}));
    let fault = perhaps(fault, json!({"details": text()}));
    perhaps(server, json!({"progress": {"type": "integer", "minimum": 0, "maximum": 100}, "fault": fault}))
}

/// Describes which statuses have a progress, and which may have a fault.
fn with_status(mut server: Value) -> Value {
    let status = |words: &[&str]| json!({"properties": {"status": {"enum": words}}});
    let others: Vec<&str> = STATUSES.iter().filter(|status| !GOING_ON.contains(status)).copied().collect();
    let mut going_on = status(GOING_ON);
    going_on["required"] = json!(["progress"]);
    let mut other = status(&others);
    other["not"] = json!({"required": ["progress"]});
    server["allOf"] = json!([
        {"anyOf": [going_on, other]},
        {"anyOf": [status(FAULTY), {"not": {"required": ["fault"]}}]},
    ]);
    server
}

fn states(minor: u16) -> Value {
    let volume = only("id", uuid());
    let volume = if minor >= 3 { plus(volume, json!({"delete_on_termination": boolean()})) } else { volume };
    json!({
        "key_name": or_null(text()),
        "config_drive": one_of(&["", "True"]),
        "os-extended-volumes:volumes_attached": list(volume),
        "OS-EXT-AZ:availability_zone": text(),
        "OS-EXT-STS:task_state": or_null(one_of(TASK_STATES)),
        "OS-EXT-STS:vm_state": one_of(VM_STATES),
        "OS-EXT-STS:power_state": {"enum": [0, 1, 3, 4, 6, 7]},
        "OS-SRV-USG:launched_at": or_null(micros()),
        "OS-SRV-USG:terminated_at": or_null(micros()),
    })
}

/// Describes the attributes that only those see whom policy lets. From 2.90 on the host name is everybody's.
fn attributes(minor: u16) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, field: Value| fields.insert(format!("OS-EXT-SRV-ATTR:{name}"), field);
    put("host", or_null(text()));
    put("hypervisor_hostname", or_null(text()));
    put("instance_name", text());
    if minor >= 3 {
        put("launch_index", count());
        put("reservation_id", or_null(text()));
        put("root_device_name", or_null(text()));
        put("kernel_id", or_null(text()));
        put("ramdisk_id", or_null(text()));
        put("user_data", user_data());
        if minor < 90 {
            put("hostname", text());
        }
    }
    Value::Object(fields)
}

fn user_data() -> Value {
    json!({"type": ["string", "null"], "format": "base64", "maxLength": 65535})
}

/// Describes an image; "" for a server on a volume. Its properties have been those of the server's creation since 2.98.
fn image(minor: u16) -> Value {
    let image = object(json!({"id": uuid(), "links": bookmark()}));
    let image = if minor >= 98 { plus(image, json!({"properties": metadata()})) } else { image };
    json!({"anyOf": [image, {"enum": [""]}]})
}

/// Describes a text that tells hosts apart without naming them; empty without a host.
pub fn host_id() -> Value {
    json!({"type": "string", "pattern": "^([0-9a-f]{56})?$"})
}

/// Describes a server's addresses by network.
pub fn addresses(with_mac: bool) -> Value {
    let entry = object(json!({"version": {"enum": [4, 6]}, "addr": address()}));
    let entry = match with_mac {
        true => plus(entry, json!({"OS-EXT-IPS:type": one_of(&["fixed", "floating"]), "OS-EXT-IPS-MAC:mac_addr": mac_address()})),
        false => entry,
    };
    json!({"type": "object", "additionalProperties": list(entry)})
}

pub fn tag() -> Value {
    json!({"type": "string", "pattern": "^[^,/]{1,60}$"})
}

fn security_groups() -> Value {
    list(only("name", text()))
}

/// Describes the server groups of a server, which has at most one.
fn server_groups() -> Value {
    json!({"type": "array", "items": uuid(), "maxItems": 1})
}
