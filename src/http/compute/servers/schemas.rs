//! The schemas of request bodies on servers, per microversion.

use serde_json::{Map, Value, json};

use crate::http::schema::{Schema, boolean, host, object};

/// The schemas of this module, by request.
pub static ALL: &[(&str, &Schema)] = &[
    ("POST /servers", &CREATE),
    ("PUT /servers/{}", &UPDATE),
    ("POST /servers/{}/action#rebuild", &REBUILD),
    ("POST /servers/{}/action#resize", &RESIZE),
    ("POST /servers/{}/action#migrate", &MIGRATE),
    ("POST /servers/{}/action#os-migrateLive", &MIGRATE_LIVE),
    ("POST /servers/{}/migrations/{}/action", &FORCE_COMPLETE),
    ("POST /servers/{}/action#unshelve", &UNSHELVE),
    ("POST /servers/{}/action#evacuate", &EVACUATE),
    ("POST /servers/{}/action#reboot", &REBOOT),
    ("POST /servers/{}/action#lock", &LOCK),
    ("POST /servers/{}/action#createImage", &CREATE_IMAGE),
    ("POST /servers/{}/action#createBackup", &CREATE_BACKUP),
    ("POST /servers/{}/action#addSecurityGroup", &ADD_SECURITY_GROUP),
    ("POST /servers/{}/action#removeSecurityGroup", &REMOVE_SECURITY_GROUP),
    ("POST /servers/{}/action#addFloatingIp", &ADD_FLOATING_IP),
    ("POST /servers/{}/action#removeFloatingIp", &REMOVE_FLOATING_IP),
    ("POST /servers/{}/action#rescue", &RESCUE),
    ("POST /servers/{}/action#unrescue", &UNRESCUE),
    ("POST /servers/{}/action#trigger_crash_dump", &CRASH_DUMP),
    ("POST /servers/{}/action#changePassword", &CHANGE_PASSWORD),
    ("POST /servers/{}/remote-consoles", &REMOTE_CONSOLE),
    ("POST /servers/{}/action#os-getVNCConsole", &VNC_CONSOLE),
    ("POST /servers/{}/action#os-getSPICEConsole", &SPICE_CONSOLE),
    ("POST /servers/{}/action#os-getSerialConsole", &SERIAL_CONSOLE),
    ("POST /servers/{}/action#addFixedIp", &ADD_FIXED_IP),
    ("POST /servers/{}/action#removeFixedIp", &REMOVE_FIXED_IP),
    ("POST /os-floating-ips", &CREATE_FLOATING_IP),
    ("POST /os-security-groups", &SECURITY_GROUP),
    ("POST /os-security-group-rules", &SECURITY_GROUP_RULE),
    ("POST /servers/{}/action#os-resetState", &RESET_STATE),
    ("POST /servers/{}/action#os-getConsoleOutput", &CONSOLE_OUTPUT),
    ("POST /servers/{}/metadata", &METADATA),
    ("PUT /servers/{}/metadata/{}", &META),
    ("PUT /servers/{}/tags", &TAGS),
    ("POST /servers/{}/os-volume_attachments", &ATTACH_VOLUME),
    ("PUT /servers/{}/os-volume_attachments/{}", &UPDATE_VOLUME),
    ("POST /servers/{}/os-interface", &ATTACH_INTERFACE),
];

/// `POST /servers`.
pub static CREATE: Schema = Schema::new(&[1, 19, 32, 33, 37, 42, 52, 57, 63, 67, 74, 90, 94], create);
/// `PUT /servers/{id}`.
pub static UPDATE: Schema = Schema::new(&[1, 19, 90, 94, 104], update);
/// The action `rebuild`.
pub static REBUILD: Schema = Schema::new(&[1, 19, 54, 57, 63, 90, 94], rebuild);
/// The action `resize`.
pub static RESIZE: Schema = Schema::fixed(resize);
/// The action `migrate`.
pub static MIGRATE: Schema = Schema::new(&[1, 56], migrate);
/// The action `os-migrateLive`.
pub static MIGRATE_LIVE: Schema = Schema::new(&[1, 25, 30, 68], migrate_live);
/// `POST /servers/{id}/migrations/{migration}/action`.
pub static FORCE_COMPLETE: Schema = Schema::fixed(|_| object(&json!({"force_complete": {"type": "null"}}), &["force_complete"]));
/// The action `unshelve`.
pub static UNSHELVE: Schema = Schema::new(&[1, 77, 91], unshelve);
/// The action `evacuate`.
pub static EVACUATE: Schema = Schema::new(&[1, 14, 29, 68], evacuate);
/// The action `reboot`.
pub static REBOOT: Schema = Schema::fixed(reboot);
/// The action `lock`.
pub static LOCK: Schema = Schema::new(&[1, 73], lock);
/// The action `createImage`.
pub static CREATE_IMAGE: Schema = Schema::fixed(create_image);
/// The action `createBackup`.
pub static CREATE_BACKUP: Schema = Schema::fixed(create_backup);
/// The action `addSecurityGroup`.
pub static ADD_SECURITY_GROUP: Schema = Schema::fixed(|_| of_group("addSecurityGroup"));
/// The action `removeSecurityGroup`.
pub static REMOVE_SECURITY_GROUP: Schema = Schema::fixed(|_| of_group("removeSecurityGroup"));
/// The action `addFloatingIp`.
pub static ADD_FLOATING_IP: Schema = Schema::fixed(add_floating_ip);
/// The action `removeFloatingIp`.
pub static REMOVE_FLOATING_IP: Schema = Schema::fixed(remove_floating_ip);
/// The action `rescue`.
pub static RESCUE: Schema = Schema::fixed(rescue);
/// The action `unrescue`.
pub static UNRESCUE: Schema = Schema::fixed(|_| object(&json!({"unrescue": {}}), &["unrescue"]));
/// The action `trigger_crash_dump`.
pub static CRASH_DUMP: Schema = Schema::fixed(|_| object(&json!({"trigger_crash_dump": {"type": "null"}}), &["trigger_crash_dump"]));
/// The action `changePassword`.
pub static CHANGE_PASSWORD: Schema = Schema::fixed(change_password);
/// `POST /servers/{id}/remote-consoles`.
pub static REMOTE_CONSOLE: Schema = Schema::new(&[1, 8, 99], super::consoles::create_schema);
/// The action `os-getVNCConsole`.
pub static VNC_CONSOLE: Schema = Schema::fixed(|_| console("os-getVNCConsole", &["novnc", "xvpvnc"]));
/// The action `os-getSPICEConsole`.
pub static SPICE_CONSOLE: Schema = Schema::fixed(|_| console("os-getSPICEConsole", &["spice-html5"]));
/// The action `os-getSerialConsole`.
pub static SERIAL_CONSOLE: Schema = Schema::fixed(|_| console("os-getSerialConsole", &["serial"]));
/// The action `addFixedIp`.
pub static ADD_FIXED_IP: Schema = Schema::fixed(add_fixed_ip);
/// The action `removeFixedIp`.
pub static REMOVE_FIXED_IP: Schema = Schema::fixed(remove_fixed_ip);
/// `POST /os-floating-ips`. Fields that are not known are allowed, as in Nova.
pub static CREATE_FLOATING_IP: Schema =
    Schema::fixed(|_| json!({"type": ["object", "null"], "properties": {"pool": {"type": ["string", "null"]}}}));
/// `POST /os-security-groups`, `PUT /os-security-groups/{id}`. Fields that are not known are allowed, as in Nova.
pub static SECURITY_GROUP: Schema = Schema::fixed(security_group);
/// `POST /os-security-group-rules`.
pub static SECURITY_GROUP_RULE: Schema = Schema::fixed(security_group_rule);
/// The action `os-resetState`.
pub static RESET_STATE: Schema = Schema::fixed(reset_state);
/// The action `os-getConsoleOutput`.
pub static CONSOLE_OUTPUT: Schema = Schema::fixed(console_output);
/// `POST /servers/{id}/metadata`, `PUT /servers/{id}/metadata`.
pub static METADATA: Schema = Schema::fixed(|_| object(&json!({"metadata": metadata_map()}), &["metadata"]));
/// `PUT /servers/{id}/metadata/{key}`.
pub static META: Schema = Schema::fixed(meta);
/// `PUT /servers/{id}/tags`.
pub static TAGS: Schema = Schema::fixed(|_| object(&json!({"tags": tags()}), &["tags"]));
/// `POST /servers/{id}/os-volume_attachments`.
pub static ATTACH_VOLUME: Schema = Schema::new(&[1, 49, 79], attach_volume);
/// `PUT /servers/{id}/os-volume_attachments/{volume}`.
pub static UPDATE_VOLUME: Schema = Schema::new(&[1, 85], update_volume);
/// `POST /servers/{id}/os-interface`.
pub static ATTACH_INTERFACE: Schema = Schema::new(&[1, 49], attach_interface);

/// The maximum number of a server's tags.
pub const MAX_TAGS: usize = 50;

/// The maximum number of interfaces, block devices, security groups or files in a request, and of servers in a hint, because each is looked
/// up.
pub const MAX_ENTRIES: usize = 128;

fn name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "format": "name"})
}

fn of_group(action: &str) -> Value {
    object(&json!({action: object(&json!({"name": name()}), &["name"])}), &[action])
}

fn add_floating_ip(_: u16) -> Value {
    let addresses = json!({"address": ip_address(), "fixed_address": ip_address()});
    object(&json!({"addFloatingIp": object(&addresses, &["address"])}), &["addFloatingIp"])
}

fn rescue(_: u16) -> Value {
    let mut body = object(&json!({"adminPass": {"type": "string"}, "rescue_image_ref": uuid()}), &[]);
    body["type"] = json!(["object", "null"]);
    object(&json!({"rescue": body}), &["rescue"])
}

fn change_password(_: u16) -> Value {
    object(&json!({"changePassword": object(&json!({"adminPass": {"type": "string"}}), &["adminPass"])}), &["changePassword"])
}

fn console(action: &str, types: &[&str]) -> Value {
    object(&json!({action: object(&json!({"type": {"enum": types}}), &["type"])}), &[action])
}

fn add_fixed_ip(_: u16) -> Value {
    let network = json!({"type": ["string", "number"], "minLength": 1, "maxLength": 36});
    object(&json!({"addFixedIp": object(&json!({"networkId": network}), &["networkId"])}), &["addFixedIp"])
}

fn remove_fixed_ip(_: u16) -> Value {
    object(&json!({"removeFixedIp": object(&json!({"address": ip_address()}), &["address"])}), &["removeFixedIp"])
}

fn remove_floating_ip(_: u16) -> Value {
    object(&json!({"removeFloatingIp": object(&json!({"address": ip_address()}), &["address"])}), &["removeFloatingIp"])
}

fn security_group(_: u16) -> Value {
    let text = json!({"type": "string", "maxLength": 255});
    let group = json!({"type": "object", "properties": {"name": text, "description": text}, "required": ["name", "description"]});
    json!({"type": "object", "properties": {"security_group": group}, "required": ["security_group"]})
}

fn security_group_rule(_: u16) -> Value {
    let ids = json!({"group_id": {"type": ["string", "null"], "format": "uuid"}, "parent_group_id": uuid()});
    let rule = json!({"type": "object", "properties": ids, "required": ["parent_group_id"]});
    json!({"type": "object", "properties": {"security_group_rule": rule}, "required": ["security_group_rule"]})
}

fn description() -> Value {
    json!({"type": ["string", "null"], "maxLength": 255, "format": "printable"})
}

fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn ip_address() -> Value {
    json!({"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
}

fn positive_integer() -> Value {
    json!({"type": ["integer", "string"], "pattern": "^[1-9][0-9]{0,8}$", "minimum": 1, "maximum": 999_999_999, "minLength": 1})
}

fn fqdn() -> Value {
    json!({"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255})
}

fn hostname(minor: u16) -> Value {
    if minor >= 94 {
        return fqdn();
    }
    json!({"type": "string", "pattern": "^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$", "minLength": 2, "maxLength": 63})
}

fn tag() -> Value {
    json!({"type": "string", "pattern": "^[^,/]*$", "minLength": 1, "maxLength": 60})
}

fn tags() -> Value {
    json!({"type": "array", "items": tag(), "maxItems": MAX_TAGS})
}

fn metadata_map() -> Value {
    json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255}},
        "additionalProperties": false,
    })
}

fn personality() -> Value {
    let file = object(&json!({"path": {"type": "string"}, "contents": {"type": "string", "format": "base64"}}), &[]);
    json!({"type": "array", "items": file, "maxItems": MAX_ENTRIES})
}

fn user_data() -> Value {
    json!({"type": "string", "format": "base64", "maxLength": 65535})
}

fn trusted_certificates() -> Value {
    json!({
        "type": ["array", "null"], "minItems": 1, "maxItems": 50, "uniqueItems": true,
        "items": {"type": "string", "minLength": 1},
    })
}

fn disk_config() -> Value {
    json!({"enum": ["AUTO", "MANUAL"]})
}

fn access_addresses(properties: &mut Map<String, Value>) {
    properties.insert("accessIPv4".into(), json!({"type": "string", "format": "ipv4"}));
    properties.insert("accessIPv6".into(), json!({"type": "string", "format": "ipv6"}));
}

/// The block devices that an image describes, in a request's newest form. The further properties are those of Nova's record of a device.
pub static IMAGE_DEVICES: Schema = Schema::fixed(|_| {
    let mut device = block_device(u16::MAX);
    device["additionalProperties"] = json!(true);
    json!({"type": "array", "items": device, "maxItems": MAX_ENTRIES})
});

/// The properties of a device in the old form, which the newer form has, too.
fn legacy_block_device() -> Value {
    json!({
        "virtual_name": {"type": "string", "maxLength": 255},
        "volume_id": uuid(),
        "snapshot_id": uuid(),
        "volume_size": {"type": ["integer", "string"], "pattern": "^[0-9]{1,9}$", "minimum": 1, "maximum": 2_147_483_647},
        "device_name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._/-]*$"},
        "delete_on_termination": boolean(),
        "no_device": {},
        "connection_info": {"type": "string", "maxLength": 16_777_215},
    })
}

fn block_device(minor: u16) -> Value {
    let mut properties = legacy_block_device();
    properties["image_id"] = uuid();
    properties["uuid"] = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"});
    properties["source_type"] = json!({"enum": ["volume", "image", "snapshot", "blank"]});
    properties["destination_type"] = json!({"enum": ["local", "volume"]});
    properties["boot_index"] = json!({"type": ["integer", "string", "null"], "pattern": "^-?[0-9]{1,9}$"});
    for form in ["guest_format", "device_type", "disk_bus"] {
        properties[form] = json!({"type": "string", "maxLength": 255});
    }
    // Tags came with 2.32, were lost with 2.33 and came back with 2.42.
    if minor == 32 || minor >= 42 {
        properties["tag"] = tag();
    }
    if minor >= 67 {
        properties["volume_type"] = json!({"type": ["string", "null"], "maxLength": 255});
    }
    object(&properties, &[])
}

fn networks(minor: u16) -> Value {
    let id = if minor >= 37 { uuid() } else { json!({"type": "string"}) };
    let mut properties =
        json!({"fixed_ip": ip_address(), "port": {"oneOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}, "uuid": id});
    if (32..37).contains(&minor) || minor >= 42 {
        properties["tag"] = tag();
    }
    let list = json!({"type": "array", "items": object(&properties, &[]), "maxItems": MAX_ENTRIES});
    if minor < 37 { list } else { json!({"oneOf": [list, {"enum": ["none", "auto"]}]}) }
}

fn scheduler_hints() -> Value {
    json!({
        "type": "object",
        "properties": {
            "group": {"oneOf": [uuid(), {"type": "array", "items": uuid(), "maxItems": MAX_ENTRIES}]},
            "different_host": {"oneOf": [uuid(), {"type": "array", "items": uuid(), "maxItems": MAX_ENTRIES}]},
            "same_host": {"type": ["string", "array"], "items": uuid(), "maxItems": MAX_ENTRIES},
            "query": {"type": ["string", "object"]},
            "target_cell": name(),
            "different_cell": {"type": ["string", "array"], "items": {"type": "string"}, "maxItems": MAX_ENTRIES},
            "build_near_host_ip": ip_address(),
            "cidr": {"type": "string", "pattern": "^/[0-9a-f.:]+$"},
        },
    })
}

fn create(minor: u16) -> Value {
    let mut properties = Map::new();
    let always = json!({
        "name": name(),
        "imageRef": {"oneOf": [uuid(), {"type": "string", "maxLength": 0}]},
        "flavorRef": {"type": ["string", "integer"], "minLength": 1},
        "adminPass": {"type": "string"},
        "metadata": metadata_map(),
        "networks": networks(minor),
        "OS-DCF:diskConfig": disk_config(),
        "availability_zone": name(),
        "block_device_mapping": {"type": "array", "items": object(&legacy_block_device(), &[]), "maxItems": MAX_ENTRIES},
        "block_device_mapping_v2": {"type": "array", "items": block_device(minor), "maxItems": MAX_ENTRIES},
        "config_drive": boolean(),
        "key_name": name(),
        "min_count": positive_integer(),
        "max_count": positive_integer(),
        "return_reservation_id": boolean(),
        "security_groups": {"type": "array", "items": object(&json!({"name": name()}), &[]), "maxItems": MAX_ENTRIES},
        "user_data": user_data(),
    });
    if let Value::Object(always) = always {
        properties.extend(always);
    }
    access_addresses(&mut properties);
    let dated: [(u16, &str, Value); 5] = [
        (19, "description", description()),
        (52, "tags", tags()),
        (63, "trusted_image_certificates", trusted_certificates()),
        (74, "host", fqdn()),
        (74, "hypervisor_hostname", fqdn()),
    ];
    for (since, key, schema) in dated {
        if minor >= since {
            properties.insert(key.into(), schema);
        }
    }
    if minor < 57 {
        properties.insert("personality".into(), personality());
    }
    if minor >= 90 {
        properties.insert("hostname".into(), hostname(minor));
    }
    let required: &[&str] = if minor >= 37 { &["name", "flavorRef", "networks"] } else { &["name", "flavorRef"] };
    let server = object(&Value::Object(properties), required);
    object(
        &json!({"server": server, "os:scheduler_hints": scheduler_hints(), "OS-SCH-HNT:scheduler_hints": scheduler_hints()}),
        &["server"],
    )
}

fn update(minor: u16) -> Value {
    let mut properties = Map::new();
    properties.insert("name".into(), name());
    properties.insert("OS-DCF:diskConfig".into(), disk_config());
    access_addresses(&mut properties);
    if minor >= 19 {
        properties.insert("description".into(), description());
    }
    if minor >= 90 {
        properties.insert("hostname".into(), hostname(minor));
    }
    if minor >= 104 {
        properties.insert("pinned_availability_zone".into(), json!({"type": ["string", "null"], "minLength": 1, "maxLength": 255}));
    }
    object(&json!({"server": object(&Value::Object(properties), &[])}), &["server"])
}

fn rebuild(minor: u16) -> Value {
    let mut properties = Map::new();
    properties.insert("name".into(), name());
    properties.insert("imageRef".into(), uuid());
    properties.insert("adminPass".into(), json!({"type": "string"}));
    properties.insert("metadata".into(), metadata_map());
    properties.insert("preserve_ephemeral".into(), boolean());
    properties.insert("OS-DCF:diskConfig".into(), disk_config());
    access_addresses(&mut properties);
    if minor >= 19 {
        properties.insert("description".into(), description());
    }
    if minor >= 54 {
        properties.insert("key_name".into(), json!({"type": ["string", "null"], "minLength": 1, "maxLength": 255}));
    }
    if minor < 57 {
        properties.insert("personality".into(), personality());
    } else {
        properties.insert("user_data".into(), json!({"oneOf": [user_data(), {"type": "null"}]}));
    }
    if minor >= 63 {
        properties.insert("trusted_image_certificates".into(), trusted_certificates());
    }
    if minor >= 90 {
        properties.insert("hostname".into(), hostname(minor));
    }
    object(&json!({"rebuild": object(&Value::Object(properties), &["imageRef"])}), &["rebuild"])
}

fn resize(_: u16) -> Value {
    let resize =
        object(&json!({"flavorRef": {"type": ["string", "integer"], "minLength": 1}, "OS-DCF:diskConfig": disk_config()}), &["flavorRef"]);
    object(&json!({"resize": resize}), &["resize"])
}

fn migrate(minor: u16) -> Value {
    let body = if minor < 56 {
        // Older clients may send any value here; it has no effect.
        json!({})
    } else {
        json!({
            "type": ["object", "null"], "additionalProperties": false,
            "properties": {"host": {"type": ["string", "null"], "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255}},
        })
    };
    object(&json!({"migrate": body}), &["migrate"])
}

fn migrate_live(minor: u16) -> Value {
    let host = json!({"type": ["string", "null"], "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255});
    let body = match minor {
        ..25 => object(
            &json!({"block_migration": boolean(), "disk_over_commit": boolean(), "host": host}),
            &["block_migration", "disk_over_commit", "host"],
        ),
        _ => {
            let mut flag_or_auto = boolean();
            if let Some(words) = flag_or_auto["enum"].as_array_mut() {
                words.push(json!("auto"));
            }
            let mut known = json!({"block_migration": flag_or_auto, "host": host});
            if (30..68).contains(&minor) {
                known["force"] = boolean();
            }
            object(&known, &["block_migration", "host"])
        }
    };
    object(&json!({"os-migrateLive": body}), &["os-migrateLive"])
}

fn unshelve(minor: u16) -> Value {
    let host = json!({"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255});
    let mut body = match minor {
        // Older clients may send any value here; it has no effect.
        ..77 => return object(&json!({"unshelve": {}}), &["unshelve"]),
        77..91 => object(&json!({"availability_zone": name()}), &["availability_zone"]),
        91.. => {
            let mut zone = name();
            zone["type"] = json!(["string", "null"]);
            object(&json!({"availability_zone": zone, "host": host}), &[])
        }
    };
    body["type"] = json!(["object", "null"]);
    object(&json!({"unshelve": body}), &["unshelve"])
}

fn evacuate(minor: u16) -> Value {
    let mut fields = json!({"host": host(), "adminPass": {"type": "string"}});
    if minor < 14 {
        fields["onSharedStorage"] = boolean();
    }
    if (29..68).contains(&minor) {
        fields["force"] = boolean();
    }
    let required: &[&str] = if minor < 14 { &["onSharedStorage"] } else { &[] };
    object(&json!({"evacuate": object(&fields, required)}), &["evacuate"])
}

fn reboot(_: u16) -> Value {
    let kinds = json!({"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]});
    object(&json!({"reboot": object(&json!({"type": kinds}), &["type"])}), &["reboot"])
}

fn lock(minor: u16) -> Value {
    let body = if minor < 73 {
        json!({})
    } else {
        json!({
            "type": ["object", "null"], "additionalProperties": false,
            "properties": {"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}},
        })
    };
    object(&json!({"lock": body}), &["lock"])
}

fn reset_state(_: u16) -> Value {
    let state = object(&json!({"state": {"enum": ["active", "error"]}}), &["state"]);
    object(&json!({"os-resetState": state}), &["os-resetState"])
}

fn create_image(_: u16) -> Value {
    object(&json!({"createImage": object(&json!({"name": name(), "metadata": metadata_map()}), &["name"])}), &["createImage"])
}

fn create_backup(_: u16) -> Value {
    let rotation = json!({"type": ["integer", "string"], "pattern": "^[0-9]{1,9}$", "minimum": 0, "maximum": i32::MAX});
    let properties = json!({"name": name(), "backup_type": {"type": "string"}, "rotation": rotation, "metadata": metadata_map()});
    object(&json!({"createBackup": object(&properties, &["name", "backup_type", "rotation"])}), &["createBackup"])
}

fn console_output(_: u16) -> Value {
    let length = json!({"type": ["integer", "string", "null"], "pattern": "^-?[0-9]+$", "minimum": -1});
    object(&json!({"os-getConsoleOutput": object(&json!({"length": length}), &[])}), &["os-getConsoleOutput"])
}

fn meta(_: u16) -> Value {
    let mut one = metadata_map();
    one["minProperties"] = json!(1);
    one["maxProperties"] = json!(1);
    object(&json!({"meta": one}), &["meta"])
}

fn attach_volume(minor: u16) -> Value {
    let mut properties = json!({
        "volumeId": uuid(),
        "device": {"type": ["string", "null"], "pattern": "^/dev/x?[a-z]?d?[a-z]+[0-9]*$"},
    });
    if minor >= 49 {
        properties["tag"] = tag();
    }
    if minor >= 79 {
        properties["delete_on_termination"] = boolean();
    }
    object(&json!({"volumeAttachment": object(&properties, &["volumeId"])}), &["volumeAttachment"])
}

fn update_volume(minor: u16) -> Value {
    let mut properties = json!({"volumeId": uuid()});
    if minor >= 85 {
        properties["id"] = uuid();
        properties["serverId"] = uuid();
        properties["device"] = json!({"type": ["string", "null"]});
        properties["tag"] = tag();
        properties["delete_on_termination"] = boolean();
    }
    object(&json!({"volumeAttachment": object(&properties, &["volumeId"])}), &["volumeAttachment"])
}

fn attach_interface(minor: u16) -> Value {
    let address = object(&json!({"ip_address": ip_address()}), &["ip_address"]);
    let mut properties = json!({
        "net_id": uuid(),
        "port_id": {"type": ["string", "null"], "format": "uuid"},
        "fixed_ips": {"type": "array", "minItems": 1, "maxItems": 1, "items": address},
    });
    if minor >= 49 {
        properties["tag"] = tag();
    }
    object(&json!({"interfaceAttachment": object(&properties, &[])}), &[])
}
