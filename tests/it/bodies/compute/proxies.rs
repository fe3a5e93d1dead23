//! The proxies of the network, image and volume services, up to 2.35 and 2.38.

use serde_json::{Map, Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{
    account, address, always_null, count, links, list, meta, metadata, micros, next, nothing, object, one_of, only, or_null, perhaps, plus,
    seconds, text, together, typed_link, until, uuid,
};
use crate::bodies::volume::VOLUME_STATUSES;

const UP_TO_35: &[u16] = &[1, 36];
const UP_TO_38: &[u16] = &[1, 39];

pub static ROUTES: &[Route] = &[
    ("GET", "/os-networks", UP_TO_35, |minor| until(35, minor, only("networks", list(network())))),
    ("GET", "/os-networks/{}", UP_TO_35, |minor| until(35, minor, only("network", network()))),
    ("GET", "/os-tenant-networks", UP_TO_35, |minor| until(35, minor, only("networks", list(tenant_network())))),
    ("GET", "/os-tenant-networks/{}", UP_TO_35, |minor| until(35, minor, only("network", tenant_network()))),
    ("GET", "/os-floating-ip-pools", UP_TO_35, |minor| until(35, minor, only("floating_ip_pools", list(only("name", text()))))),
    ("GET", "/os-floating-ips", UP_TO_35, |minor| until(35, minor, only("floating_ips", list(floating_ip())))),
    ("POST", "/os-floating-ips", UP_TO_35, |minor| until(35, minor, only("floating_ip", floating_ip()))),
    ("GET", "/os-floating-ips/{}", UP_TO_35, |minor| until(35, minor, only("floating_ip", floating_ip()))),
    ("DELETE", "/os-floating-ips/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
    ("GET", "/os-security-groups", UP_TO_35, |minor| until(35, minor, only("security_groups", list(security_group())))),
    ("POST", "/os-security-groups", UP_TO_35, |minor| until(35, minor, only("security_group", security_group()))),
    ("GET", "/os-security-groups/{}", UP_TO_35, |minor| until(35, minor, only("security_group", security_group()))),
    ("PUT", "/os-security-groups/{}", UP_TO_35, |minor| until(35, minor, only("security_group", security_group()))),
    ("DELETE", "/os-security-groups/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
    ("POST", "/os-security-group-rules", UP_TO_35, |minor| until(35, minor, only("security_group_rule", rule()))),
    ("DELETE", "/os-security-group-rules/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
    ("GET", "/images", UP_TO_35, |minor| until(35, minor, images(brief_image()))),
    ("GET", "/images/detail", UP_TO_35, |minor| until(35, minor, images(image()))),
    ("GET", "/images/{}", UP_TO_35, |minor| until(35, minor, only("image", image()))),
    ("DELETE", "/images/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
    ("GET", "/images/{}/metadata", UP_TO_38, |minor| until(38, minor, only("metadata", properties()))),
    ("POST", "/images/{}/metadata", UP_TO_38, |minor| until(38, minor, only("metadata", properties()))),
    ("PUT", "/images/{}/metadata", UP_TO_38, |minor| until(38, minor, only("metadata", properties()))),
    ("GET", "/images/{}/metadata/{}", UP_TO_38, |minor| until(38, minor, only("meta", meta()))),
    ("PUT", "/images/{}/metadata/{}", UP_TO_38, |minor| until(38, minor, only("meta", meta()))),
    ("DELETE", "/images/{}/metadata/{}", UP_TO_38, |minor| until(38, minor, nothing(minor))),
    ("GET", "/os-volumes", UP_TO_35, |minor| until(35, minor, only("volumes", list(volume())))),
    ("GET", "/os-volumes/detail", UP_TO_35, |minor| until(35, minor, only("volumes", list(volume())))),
    ("POST", "/os-volumes", UP_TO_35, |minor| until(35, minor, only("volume", volume()))),
    ("GET", "/os-volumes/{}", UP_TO_35, |minor| until(35, minor, only("volume", volume()))),
    ("DELETE", "/os-volumes/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
    ("GET", "/os-snapshots", UP_TO_35, |minor| until(35, minor, only("snapshots", list(snapshot())))),
    ("GET", "/os-snapshots/detail", UP_TO_35, |minor| until(35, minor, only("snapshots", list(snapshot())))),
    ("POST", "/os-snapshots", UP_TO_35, |minor| until(35, minor, only("snapshot", snapshot()))),
    ("GET", "/os-snapshots/{}", UP_TO_35, |minor| until(35, minor, only("snapshot", snapshot()))),
    ("DELETE", "/os-snapshots/{}", UP_TO_35, |minor| until(35, minor, nothing(minor))),
];

/// Fields of networks that are null, as nothing keeps them any more.
const NULLS: &[&str] = &["cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6"];
/// Further ones, for administrators.
const ADMIN_NULLS: &[&str] = &[
    "bridge",
    "bridge_interface",
    "created_at",
    "deleted",
    "deleted_at",
    "dhcp_server",
    "dhcp_start",
    "enable_dhcp",
    "host",
    "injected",
    "mtu",
    "multi_host",
    "priority",
    "project_id",
    "rxtx_base",
    "share_address",
    "updated_at",
    "vlan",
    "vpn_private_address",
    "vpn_public_address",
    "vpn_public_port",
];

fn network() -> Value {
    let nulls = |names: &[&str]| Value::Object(names.iter().map(|name| ((*name).to_owned(), always_null())).collect::<Map<_, _>>());
    together(plus(object(nulls(NULLS)), json!({"id": uuid(), "label": text()})), nulls(ADMIN_NULLS))
}

fn tenant_network() -> Value {
    object(json!({"id": uuid(), "label": text(), "cidr": one_of(&["None"])}))
}

fn floating_ip() -> Value {
    let fixed = json!({"type": ["string", "null"], "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]});
    object(json!({"id": uuid(), "ip": address(), "fixed_ip": fixed, "instance_id": or_null(uuid()), "pool": text()}))
}

pub fn security_group() -> Value {
    object(json!({"id": uuid(), "name": text(), "description": or_null(text()), "tenant_id": account(), "rules": list(rule())}))
}

/// Describes a rule for a range of addresses or for a group: the other one is an empty object.
fn rule() -> Value {
    let port = json!({"type": ["integer", "null"], "minimum": -1});
    let range = json!({"type": "string", "pattern": "^[0-9a-f.:]+/[0-9]{1,3}$"});
    let empty = object(json!({}));
    object(json!({
        "id": uuid(),
        "parent_group_id": uuid(),
        "ip_protocol": or_null(text()),
        "from_port": port,
        "to_port": port,
        "group": {"anyOf": [object(json!({"name": text(), "tenant_id": account()})), empty]},
        "ip_range": {"anyOf": [only("cidr", range), empty]},
    }))
}

fn images(image: Value) -> Value {
    perhaps(only("images", list(image)), json!({"images_links": next()}))
}

fn brief_image() -> Value {
    let mut all = links();
    let of_its_own = typed_link("alternate", "application/vnd.openstack.image");
    all["items"].as_array_mut().expect("links").push(of_its_own);
    all["minItems"] = json!(3);
    object(json!({"id": uuid(), "name": or_null(text()), "links": all}))
}

fn image() -> Value {
    let image = plus(
        brief_image(),
        json!({
            "minRam": count(),
            "minDisk": count(),
            "metadata": properties(),
            "created": seconds(),
            "updated": seconds(),
            "status": one_of(&["ACTIVE", "DELETED", "ERROR", "SAVING", "UNKNOWN"]),
            "progress": {"enum": [0, 25, 50, 100]},
            "OS-EXT-IMG-SIZE:size": count(),
        }),
    );
    let server = object(json!({"id": uuid(), "links": links()}));
    perhaps(image, json!({"server": server, "OS-DCF:diskConfig": one_of(&["AUTO", "MANUAL"])}))
}

/// Describes an image's properties, whose values may be long.
fn properties() -> Value {
    let mut properties = metadata();
    for value in properties["patternProperties"].as_object_mut().expect("patterns").values_mut() {
        value["maxLength"] = json!(65535);
    }
    properties
}

fn volume() -> Value {
    let attachment = object(json!({"id": uuid(), "volumeId": uuid(), "serverId": uuid()}));
    let attachment = perhaps(attachment, json!({"device": text()}));
    object(json!({
        "id": uuid(),
        "status": one_of(VOLUME_STATUSES),
        "size": count(),
        "availabilityZone": or_null(text()),
        "createdAt": micros(),
        // An attachment, or an empty object in its place.
        "attachments": {"type": "array", "items": {"anyOf": [attachment, object(json!({}))]}, "minItems": 1, "maxItems": 1},
        "displayName": or_null(text()),
        "displayDescription": or_null(text()),
        "volumeType": or_null(text()),
        "snapshotId": or_null(uuid()),
        "metadata": metadata(),
    }))
}

fn snapshot() -> Value {
    object(json!({
        "id": uuid(),
        "volumeId": uuid(),
        "status": one_of(&["available", "backing-up", "creating", "deleted", "deleting", "error", "error_deleting", "restoring", "unmanaging"]),
        "size": count(),
        "createdAt": micros(),
        "displayName": or_null(text()),
        "displayDescription": or_null(text()),
    }))
}
