//! The resources under `/servers/{id}`, and the tokens of consoles.

use serde_json::{Map, Value, json};

use super::proxies::security_group;
use super::servers::{addresses, host_id, tag};
use crate::bodies::Route;
use crate::bodies::parts::{
    account, address, boolean, count, integer, list, mac_address, meta, metadata, micros, next, nothing, object, one_of, only, or_null,
    perhaps, plus, text, uuid,
};

/// 2.70: `tag`.
const INTERFACE: &[u16] = &[1, 70];
/// 2.70: `tag`. 2.79: `delete_on_termination`. 2.89: the ids of the attachment and of the block device in place of the volume's.
const VOLUME: &[u16] = &[1, 70, 79, 89];

pub static ROUTES: &[Route] = &[
    ("GET", "/servers/{}/metadata", &[1], |_| only("metadata", metadata())),
    ("POST", "/servers/{}/metadata", &[1], |_| only("metadata", metadata())),
    ("PUT", "/servers/{}/metadata", &[1], |_| only("metadata", metadata())),
    ("GET", "/servers/{}/metadata/{}", &[1], |_| only("meta", meta())),
    ("PUT", "/servers/{}/metadata/{}", &[1], |_| only("meta", meta())),
    ("DELETE", "/servers/{}/metadata/{}", &[1], nothing),
    ("GET", "/servers/{}/tags", &[26], tags),
    ("PUT", "/servers/{}/tags", &[26], tags),
    ("DELETE", "/servers/{}/tags", &[26], nothing),
    ("GET", "/servers/{}/tags/{}", &[26], nothing),
    ("PUT", "/servers/{}/tags/{}", &[26], nothing),
    ("DELETE", "/servers/{}/tags/{}", &[26], nothing),
    ("GET", "/servers/{}/ips", &[1], |_| only("addresses", addresses(false))),
    ("GET", "/servers/{}/ips/{}", &[1], |_| one_network()),
    // 2.58: `updated_at`, and pages.
    ("GET", "/servers/{}/os-instance-actions", &[1, 58], actions),
    // 2.51: events for owners. 2.58: `updated_at`. 2.62: `hostId`, and `host` for operators. 2.84: `details` for administrators.
    ("GET", "/servers/{}/os-instance-actions/{}", &[1, 51, 58, 62, 84], |minor| only("instanceAction", history(minor))),
    ("GET", "/servers/{}/os-security-groups", &[1], |_| only("security_groups", list(security_group()))),
    ("GET", "/servers/{}/os-interface", INTERFACE, |minor| only("interfaceAttachments", list(interface(minor)))),
    ("POST", "/servers/{}/os-interface", INTERFACE, |minor| only("interfaceAttachment", interface(minor))),
    ("GET", "/servers/{}/os-interface/{}", INTERFACE, |minor| only("interfaceAttachment", interface(minor))),
    ("DELETE", "/servers/{}/os-interface/{}", &[1], nothing),
    ("GET", "/servers/{}/os-volume_attachments", VOLUME, |minor| only("volumeAttachments", list(volume(minor)))),
    // 2.101: no body.
    ("POST", "/servers/{}/os-volume_attachments", &[1, 70, 79, 101], attached),
    ("GET", "/servers/{}/os-volume_attachments/{}", VOLUME, |minor| only("volumeAttachment", volume(minor))),
    ("PUT", "/servers/{}/os-volume_attachments/{}", &[1], nothing),
    ("DELETE", "/servers/{}/os-volume_attachments/{}", &[1], nothing),
    // 2.48: the standard form.
    ("GET", "/servers/{}/diagnostics", &[1, 48], diagnostics),
    ("GET", "/servers/{}/os-server-password", &[1], |_| only("password", text())),
    ("DELETE", "/servers/{}/os-server-password", &[1], nothing),
    ("GET", "/servers/{}/topology", &[78], |_| object(json!({"nodes": list(node()), "pagesize_kb": or_null(integer())}))),
    ("POST", "/servers/{}/remote-consoles", &[6], |_| only("remote_console", console())),
    // 2.99: `tls_port`.
    ("GET", "/os-console-auth-tokens/{}", &[31, 99], |minor| only("console", token(minor))),
];

fn tags(_: u16) -> Value {
    only("tags", json!({"type": "array", "items": tag(), "maxItems": 50, "uniqueItems": true}))
}

fn one_network() -> Value {
    let mut one = addresses(false);
    (one["minProperties"], one["maxProperties"]) = (json!(1), json!(1));
    one
}

fn action(minor: u16) -> Value {
    let action = object(json!({
        "action": text(),
        "instance_uuid": uuid(),
        "request_id": {"type": "string", "pattern": "^req-[0-9a-f-]{36}$"},
        "user_id": or_null(account()),
        "project_id": or_null(account()),
        "start_time": micros(),
        "message": or_null(text()),
    }));
    if minor >= 58 { plus(action, json!({"updated_at": or_null(micros())})) } else { action }
}

fn actions(minor: u16) -> Value {
    let actions = only("instanceActions", list(action(minor)));
    if minor >= 58 { perhaps(actions, json!({"links": next()})) } else { actions }
}

fn history(minor: u16) -> Value {
    let events = json!({"events": list(event(minor))});
    if minor >= 51 { plus(action(minor), events) } else { perhaps(action(minor), events) }
}

fn event(minor: u16) -> Value {
    let event = object(json!({
        "event": text(),
        "start_time": micros(),
        "finish_time": or_null(micros()),
        "result": or_null(one_of(&["Success", "Error"])),
    }));
    let mut event = perhaps(event, json!({"traceback": or_null(text())}));
    if minor >= 62 {
        event = perhaps(plus(event, json!({"hostId": host_id()})), json!({"host": or_null(text())}));
    }
    if minor >= 84 { perhaps(event, json!({"details": or_null(text())})) } else { event }
}

fn interface(minor: u16) -> Value {
    let interface = object(json!({
        "net_id": uuid(),
        "port_id": uuid(),
        "mac_addr": mac_address(),
        "port_state": one_of(&["ACTIVE", "BUILD", "DOWN", "ERROR"]),
        "fixed_ips": list(object(json!({"subnet_id": uuid(), "ip_address": address()}))),
    }));
    if minor >= 70 { plus(interface, json!({"tag": or_null(tag())})) } else { interface }
}

/// Describes the fields of an attachment in all versions.
fn attachment(minor: u16) -> Value {
    let device = json!({"type": ["string", "null"], "pattern": "^/dev/x?[a-z]?d?[a-z]+[0-9]*$"});
    let mut attachment = object(json!({"serverId": uuid(), "volumeId": uuid(), "device": device}));
    if minor >= 70 {
        attachment = plus(attachment, json!({"tag": or_null(tag())}));
    }
    if minor >= 79 { plus(attachment, json!({"delete_on_termination": boolean()})) } else { attachment }
}

fn volume(minor: u16) -> Value {
    match minor {
        89.. => plus(attachment(minor), json!({"attachment_id": uuid(), "bdm_uuid": uuid()})),
        _ => plus(attachment(minor), json!({"id": uuid()})),
    }
}

fn attached(minor: u16) -> Value {
    match minor {
        101.. => nothing(minor),
        _ => only("volumeAttachment", plus(attachment(minor), json!({"id": uuid()}))),
    }
}

fn diagnostics(minor: u16) -> Value {
    if minor < 48 {
        // Each driver chooses its fields, which are numbers.
        return json!({"type": "object", "additionalProperties": count()});
    }
    let counters = |names: &[&str]| Value::Object(names.iter().map(|name| ((*name).to_owned(), or_null(count()))).collect::<Map<_, _>>());
    let nic = ["rx_drop", "rx_errors", "rx_octets", "rx_packets", "rx_rate", "tx_drop", "tx_errors", "tx_octets", "tx_packets", "tx_rate"];
    let disk = ["errors_count", "read_bytes", "read_requests", "write_bytes", "write_requests"];
    object(json!({
        "state": one_of(&["pending", "running", "paused", "shutdown", "crashed", "suspended"]),
        "driver": one_of(&["libvirt"]),
        "hypervisor": or_null(text()),
        "hypervisor_os": or_null(text()),
        "uptime": or_null(count()),
        "config_drive": boolean(),
        "num_cpus": or_null(count()),
        "num_nics": or_null(count()),
        "num_disks": or_null(count()),
        "memory_details": object(counters(&["maximum", "used"])),
        "cpu_details": list(object(counters(&["id", "time", "utilisation"]))),
        "nic_details": list(plus(object(counters(&nic)), json!({"mac_address": or_null(mac_address())}))),
        "disk_details": list(object(counters(&disk))),
    }))
}

fn node() -> Value {
    let node = object(json!({"memory_mb": count(), "siblings": list(list(count())), "vcpu_set": list(count())}));
    perhaps(node, json!({"cpu_pinning": {"type": "object", "additionalProperties": count()}, "host_node": count()}))
}

/// Describes a console. There are serial ones only.
fn console() -> Value {
    object(json!({"protocol": one_of(&["serial"]), "type": one_of(&["serial"]), "url": socket()}))
}

/// Describes the URL of a serial console.
pub fn socket() -> Value {
    json!({"type": "string", "pattern": "^wss?://[^/ ]+/compute/serial-console[?]token=[^ ]+$"})
}

fn token(minor: u16) -> Value {
    let token = object(json!({
        "instance_uuid": uuid(),
        "host": or_null(text()),
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "internal_access_path": or_null(text()),
    }));
    if minor >= 99 { plus(token, json!({"tls_port": or_null(integer())})) } else { token }
}
