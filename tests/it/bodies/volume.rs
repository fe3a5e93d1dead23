//! The schemas of the volume API's answers.

use serde_json::{Map, Value, json};

use super::Route;
use super::parts::{
    account, always_null, boolean, count, links, list, meta, metadata, micros, next, nothing, object, one_of, only, or_null, perhaps, plus,
    text, together, uuid,
};

/// The tables, each with the root of its routes.
pub static TABLES: [(&str, &[Route]); 2] = [("/volume", ROOTS), ("/volume/v3", ROUTES)];

/// 3.13: `group_id`. 3.21: `provider_id` for administrators. 3.48: `shared_targets` and `service_uuid`. 3.61: `cluster_name` for administrators.
/// 3.63: `volume_type_id`. 3.65: `consumes_quota`.
const VOLUME: &[u16] = &[0, 13, 21, 48, 61, 63, 65];
/// As [`VOLUME`]. 3.45: the number of all entries.
const VOLUMES: &[u16] = &[0, 13, 21, 45, 48, 61, 63, 65];
/// 3.14: `group_snapshot_id`. 3.41: `user_id`. 3.65: `consumes_quota`.
const SNAPSHOT: &[u16] = &[0, 14, 41, 65];
/// 3.18: the project for administrators. 3.43: `metadata`. 3.56: the user for administrators.
const BACKUP: &[u16] = &[0, 18, 43, 56];
/// 3.55: `no_snapshots`. 3.57: the projects.
const TRANSFER: &[u16] = &[0, 55, 57];

static ROOTS: &[Route] = &[("GET", "", &[0], versions)];

static ROUTES: &[Route] = &[
    ("GET", "", &[0], versions),
    ("GET", "/extensions", &[0], |_| only("extensions", list(extension()))),
    ("GET", "/os-availability-zone", &[0], |_| only("availabilityZoneInfo", list(zone()))),
    ("GET", "/types", &[0], |_| only("volume_types", list(shown_type()))),
    ("POST", "/types", &[0], |_| only("volume_type", made_type())),
    ("GET", "/types/{}", &[0], |_| only("volume_type", shown_type())),
    ("PUT", "/types/{}", &[0], |_| only("volume_type", volume_type())),
    ("DELETE", "/types/{}", &[0], nothing),
    ("GET", "/types/{}/extra_specs", &[0], |_| only("extra_specs", metadata())),
    ("POST", "/types/{}/extra_specs", &[0], |_| only("extra_specs", metadata())),
    ("GET", "/types/{}/extra_specs/{}", &[0], |_| meta()),
    ("PUT", "/types/{}/extra_specs/{}", &[0], |_| meta()),
    ("DELETE", "/types/{}/extra_specs/{}", &[0], nothing),
    ("GET", "/types/{}/os-volume-type-access", &[0], |_| only("volume_type_access", list(access()))),
    ("POST", "/types/{}/action#addProjectAccess", &[0], nothing),
    ("POST", "/types/{}/action#removeProjectAccess", &[0], nothing),
    ("GET", "/default-types", &[62], |_| only("default_types", list(default_type()))),
    ("GET", "/default-types/{}", &[62], |_| only("default_type", default_type())),
    ("PUT", "/default-types/{}", &[62], |_| only("default_type", default_type())),
    ("DELETE", "/default-types/{}", &[62], nothing),
    // 3.45: the number of all entries.
    ("GET", "/messages", &[3, 45], |minor| page(minor, "messages", message())),
    ("GET", "/messages/{}", &[3], |_| only("message", message())),
    ("DELETE", "/messages/{}", &[3], nothing),
    ("GET", "/qos-specs", &[0, 45], |minor| page(minor, "qos_specs", qos_specs())),
    ("POST", "/qos-specs", &[0], |_| linked_qos_specs()),
    ("GET", "/qos-specs/{}", &[0], |_| linked_qos_specs()),
    ("PUT", "/qos-specs/{}", &[0], |_| only("qos_specs", metadata())),
    ("DELETE", "/qos-specs/{}", &[0], nothing),
    ("PUT", "/qos-specs/{}/delete_keys", &[0], nothing),
    ("GET", "/qos-specs/{}/associations", &[0], |_| only("qos_associations", list(association()))),
    ("GET", "/qos-specs/{}/associate", &[0], nothing),
    ("GET", "/qos-specs/{}/disassociate", &[0], nothing),
    ("GET", "/qos-specs/{}/disassociate_all", &[0], nothing),
    ("GET", "/volumes", &[0, 45], |minor| page(minor, "volumes", brief())),
    ("POST", "/volumes", VOLUME, |minor| only("volume", volume(minor))),
    ("GET", "/volumes/detail", VOLUMES, |minor| page(minor, "volumes", whole_volume(minor))),
    // 3.36: the metadata.
    ("GET", "/volumes/summary", &[12, 36], |minor| only("volume-summary", summary(minor))),
    ("GET", "/volumes/{}", VOLUME, |minor| only("volume", whole_volume(minor))),
    ("PUT", "/volumes/{}", VOLUME, |minor| only("volume", volume(minor))),
    ("DELETE", "/volumes/{}", &[0], nothing),
    ("GET", "/volumes/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("POST", "/volumes/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("PUT", "/volumes/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("GET", "/volumes/{}/metadata/{}", &[0], |_| only("meta", meta())),
    ("PUT", "/volumes/{}/metadata/{}", &[0], |_| only("meta", meta())),
    ("DELETE", "/volumes/{}/metadata/{}", &[0], nothing),
    ("POST", "/volumes/{}/action#os-extend", &[0], nothing),
    ("POST", "/volumes/{}/action#os-set_bootable", &[0], nothing),
    ("POST", "/volumes/{}/action#os-reset_status", &[0], nothing),
    ("POST", "/volumes/{}/action#os-force_delete", &[0], nothing),
    ("POST", "/volumes/{}/action#os-set_image_metadata", &[0], |_| only("metadata", metadata())),
    ("POST", "/volumes/{}/action#os-unset_image_metadata", &[0], nothing),
    ("POST", "/volumes/{}/action#os-show_image_metadata", &[0], |_| only("metadata", metadata())),
    // 3.1: `visibility` and `protected`.
    ("POST", "/volumes/{}/action#os-volume_upload_image", &[0, 1], |minor| only("os-volume_upload_image", upload(minor))),
    ("POST", "/volumes/{}/action#os-retype", &[0], nothing),
    ("POST", "/volumes/{}/action#os-reserve", &[0], nothing),
    ("POST", "/volumes/{}/action#os-unreserve", &[0], nothing),
    ("POST", "/volumes/{}/action#os-attach", &[0], nothing),
    ("POST", "/volumes/{}/action#os-detach", &[0], nothing),
    ("POST", "/volumes/{}/action#os-force_detach", &[0], nothing),
    ("POST", "/volumes/{}/action#os-begin_detaching", &[0], nothing),
    ("POST", "/volumes/{}/action#os-roll_detaching", &[0], nothing),
    ("POST", "/volumes/{}/action#os-update_readonly_flag", &[0], nothing),
    ("GET", "/backups", &[0, 45], |minor| page(minor, "backups", brief())),
    ("POST", "/backups", &[0], |_| only("backup", brief())),
    ("GET", "/backups/detail", &[0, 18, 43, 45, 56], |minor| page(minor, "backups", backup(minor))),
    ("GET", "/backups/{}", BACKUP, |minor| only("backup", backup(minor))),
    ("PUT", "/backups/{}", &[9], |_| only("backup", brief())),
    ("DELETE", "/backups/{}", &[0], nothing),
    ("POST", "/backups/{}/restore", &[0], |_| only("restore", restore())),
    ("POST", "/backups/{}/action#os-reset_status", &[0], nothing),
    ("POST", "/backups/{}/action#os-force_delete", &[0], nothing),
    ("GET", "/snapshots", &[0, 45], |minor| page(minor, "snapshots", brief_snapshot())),
    ("POST", "/snapshots", SNAPSHOT, |minor| only("snapshot", snapshot(minor))),
    ("GET", "/snapshots/detail", &[0, 14, 41, 45, 65], |minor| page(minor, "snapshots", whole_snapshot(minor))),
    ("GET", "/snapshots/{}", SNAPSHOT, |minor| only("snapshot", whole_snapshot(minor))),
    ("PUT", "/snapshots/{}", SNAPSHOT, |minor| only("snapshot", snapshot(minor))),
    ("DELETE", "/snapshots/{}", &[0], nothing),
    ("GET", "/snapshots/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("POST", "/snapshots/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("PUT", "/snapshots/{}/metadata", &[0], |_| only("metadata", metadata())),
    ("GET", "/snapshots/{}/metadata/{}", &[0], |_| only("meta", meta())),
    ("PUT", "/snapshots/{}/metadata/{}", &[0], |_| only("meta", meta())),
    ("DELETE", "/snapshots/{}/metadata/{}", &[0], nothing),
    ("POST", "/snapshots/{}/action#os-reset_status", &[0], nothing),
    ("POST", "/snapshots/{}/action#os-update_snapshot_status", &[0], nothing),
    ("POST", "/snapshots/{}/action#os-force_delete", &[0], nothing),
    ("GET", "/os-volume-transfer", &[0, 45], |minor| page(minor, "transfers", brief_transfer())),
    ("POST", "/os-volume-transfer", TRANSFER, |minor| only("transfer", made_transfer(minor))),
    ("GET", "/os-volume-transfer/detail", &[0, 45, 55, 57], |minor| page(minor, "transfers", transfer(minor))),
    ("GET", "/os-volume-transfer/{}", TRANSFER, |minor| only("transfer", transfer(minor))),
    ("DELETE", "/os-volume-transfer/{}", &[0], nothing),
    ("POST", "/os-volume-transfer/{}/accept", &[0], |_| only("transfer", brief_transfer())),
    ("GET", "/volume-transfers", &[55], |_| page(55, "transfers", brief_transfer())),
    ("POST", "/volume-transfers", &[55, 57], |minor| only("transfer", made_transfer(minor))),
    ("GET", "/volume-transfers/detail", &[55, 57], |minor| page(55, "transfers", transfer(minor))),
    ("GET", "/volume-transfers/{}", &[55, 57], |minor| only("transfer", transfer(minor))),
    ("DELETE", "/volume-transfers/{}", &[55], nothing),
    ("POST", "/volume-transfers/{}/accept", &[55], |_| only("transfer", brief_transfer())),
    // 3.7: `cluster`. 3.49: `backend_state`.
    ("GET", "/os-services", &[0, 7, 49], |minor| only("services", list(service(minor)))),
    ("PUT", "/os-services/enable", &[0], |_| switched()),
    ("PUT", "/os-services/disable", &[0], |_| switched()),
    ("PUT", "/os-services/disable-log-reason", &[0], |_| plus(switched(), json!({"disabled_reason": text()}))),
    ("PUT", "/os-services/freeze", &[0], nothing),
    ("PUT", "/os-services/thaw", &[0], nothing),
    ("GET", "/os-hosts", &[0], |_| only("hosts", list(host()))),
    ("GET", "/os-hosts/{}", &[0], |_| only("host", list(only("resource", held())))),
    ("GET", "/scheduler-stats/get_pools", &[0], |_| {
        only("pools", list(perhaps(only("name", text()), json!({"capabilities": {"type": "object"}}))))
    }),
    ("GET", "/capabilities/{}", &[0], |_| capabilities()),
    ("GET", "/resource_filters", &[0], |_| only("resource_filters", list(object(json!({"resource": text(), "filters": list(text())}))))),
    // 3.27: attachments, in steps; 3.44: their completion.
    ("GET", "/attachments", &[27], |_| only("attachments", list(brief_attachment()))),
    ("GET", "/attachments/detail", &[27], |_| only("attachments", list(attachment()))),
    ("GET", "/attachments/{}", &[27], |_| only("attachment", attachment())),
    ("POST", "/attachments", &[27], |_| only("attachment", attachment())),
    ("PUT", "/attachments/{}", &[27], |_| only("attachment", attachment())),
    ("DELETE", "/attachments/{}", &[27], |_| only("attachments", list(attachment()))),
    ("POST", "/attachments/{}/action#os-complete", &[44], nothing),
    ("GET", "/limits", &[0], |_| only("limits", limits())),
    ("GET", "/os-quota-sets/{}", &[0], |_| only("quota_set", json!({"anyOf": [of_project(limit()), of_project(figures())]}))),
    ("PUT", "/os-quota-sets/{}", &[0], |_| only("quota_set", quotas(limit()))),
    ("DELETE", "/os-quota-sets/{}", &[0], nothing),
    ("GET", "/os-quota-sets/{}/defaults", &[0], |_| only("quota_set", of_project(limit()))),
    ("GET", "/os-quota-class-sets/{}", &[0], |_| only("quota_class_set", plus(quotas(limit()), json!({"id": one_of(&["default"])})))),
    ("PUT", "/os-quota-class-sets/{}", &[0], |_| only("quota_class_set", quotas(limit()))),
];

fn versions(_: u16) -> Value {
    let number = json!({"type": "string", "pattern": r"^3\.[0-9]+$"});
    only(
        "versions",
        list(object(json!({
            "id": one_of(&["v3.0"]),
            "status": one_of(&["CURRENT"]),
            "version": number,
            "min_version": number,
            "updated": super::parts::seconds(),
            "links": list(object(json!({"rel": one_of(&["self"]), "href": text()}))),
            "media-types": list(object(json!({"base": one_of(&["application/json"]), "type": text()}))),
        }))),
    )
}

fn extension() -> Value {
    object(json!({"name": text(), "alias": text(), "description": text(), "updated": text(), "links": {"type": "array", "maxItems": 0}}))
}

fn zone() -> Value {
    object(json!({"zoneName": text(), "zoneState": only("available", boolean())}))
}

fn volume_type() -> Value {
    object(json!({"id": uuid(), "name": text(), "description": or_null(text()), "is_public": boolean(), "extra_specs": metadata()}))
}

fn made_type() -> Value {
    plus(volume_type(), json!({"os-volume-type-access:is_public": boolean()}))
}

fn shown_type() -> Value {
    perhaps(made_type(), json!({"qos_specs_id": or_null(uuid())}))
}

fn message() -> Value {
    object(json!({
        "id": uuid(),
        "event_id": text(),
        "user_message": text(),
        "message_level": one_of(&["ERROR"]),
        "created_at": micros(),
        "guaranteed_until": micros(),
        "request_id": text(),
        "resource_type": one_of(&["VOLUME"]),
        "resource_uuid": uuid(),
        "links": links(),
    }))
}

fn qos_specs() -> Value {
    object(json!({"id": uuid(), "name": text(), "consumer": one_of(&["back-end", "front-end", "both"]), "specs": metadata()}))
}

fn linked_qos_specs() -> Value {
    object(json!({"qos_specs": qos_specs(), "links": links()}))
}

fn association() -> Value {
    object(json!({"association_type": one_of(&["volume_type"]), "name": text(), "id": uuid()}))
}

fn default_type() -> Value {
    object(json!({"project_id": account(), "volume_type_id": uuid()}))
}

fn access() -> Value {
    object(json!({"volume_type_id": uuid(), "project_id": account()}))
}

/// Describes a page of a list, with the number of all entries if it was asked for.
fn page(minor: u16, collection: &str, entry: Value) -> Value {
    let page = perhaps(only(collection, list(entry)), json!({format!("{collection}_links"): next()}));
    if minor >= 45 { perhaps(page, json!({"count": count()})) } else { page }
}

/// Describes the entry of a volume or a backup in a list without details.
fn brief() -> Value {
    object(json!({"id": uuid(), "name": or_null(text()), "links": links()}))
}

fn volume(minor: u16) -> Value {
    let attachment = object(json!({
        "id": uuid(),
        "attachment_id": uuid(),
        "volume_id": uuid(),
        "server_id": or_null(uuid()),
        "host_name": or_null(text()),
        "device": or_null(text()),
        "attached_at": or_null(micros()),
    }));
    let mut volume = plus(
        brief(),
        json!({
            "description": or_null(text()),
            "status": one_of(VOLUME_STATUSES),
            "size": count(),
            "user_id": account(),
            "availability_zone": text(),
            "bootable": one_of(&["true", "false"]),
            "multiattach": boolean(),
            "encrypted": {"enum": [false]},
            "volume_type": text(),
            "metadata": metadata(),
            "attachments": list(attachment),
            "snapshot_id": or_null(uuid()),
            "source_volid": or_null(uuid()),
            "consistencygroup_id": always_null(),
            "replication_status": always_null(),
            "created_at": micros(),
            "updated_at": or_null(micros()),
        }),
    );
    let since = [
        (13, json!({"group_id": always_null()})),
        (48, json!({"shared_targets": boolean(), "service_uuid": uuid()})),
        (63, json!({"volume_type_id": uuid()})),
        (65, json!({"consumes_quota": boolean()})),
    ];
    for (_, field) in since.into_iter().filter(|(first, _)| minor >= *first) {
        volume = plus(volume, field);
    }
    let mut for_administrators = json!({"migration_status": migration_status()});
    for (_, name) in [(21, "provider_id"), (61, "cluster_name")].iter().filter(|(first, _)| minor >= *first) {
        for_administrators[*name] = always_null();
    }
    together(volume, for_administrators)
}

fn whole_volume(minor: u16) -> Value {
    let whole = plus(volume(minor), json!({"os-vol-tenant-attr:tenant_id": account()}));
    let whole = perhaps(whole, json!({"volume_image_metadata": {"type": "object", "additionalProperties": text(), "minProperties": 1}}));
    let host = json!({
        "os-vol-host-attr:host": text(),
        "os-vol-mig-status-attr:migstat": migration_status(),
        "os-vol-mig-status-attr:name_id": always_null(),
    });
    together(whole, host)
}

fn migration_status() -> Value {
    or_null(one_of(&["migrating", "error", "success", "completing", "starting"]))
}

/// The statuses of volumes, which the compute API's proxy tells, too.
pub const VOLUME_STATUSES: &[&str] = &[
    "attaching",
    "available",
    "awaiting-transfer",
    "backing-up",
    "creating",
    "deleting",
    "detaching",
    "downloading",
    "error",
    "error_backing-up",
    "error_deleting",
    "error_extending",
    "error_restoring",
    "extending",
    "in-use",
    "maintenance",
    "reserved",
    "restoring-backup",
    "retyping",
    "uploading",
];

fn summary(minor: u16) -> Value {
    let summary = object(json!({"total_count": count(), "total_size": count()}));
    let values = json!({"type": "object", "additionalProperties": list(text())});
    if minor >= 36 { plus(summary, json!({"metadata": values})) } else { summary }
}

fn upload(minor: u16) -> Value {
    let upload = object(json!({
        "id": uuid(),
        "status": one_of(&["uploading"]),
        "size": count(),
        "display_description": or_null(text()),
        "updated_at": or_null(micros()),
        "volume_type": object(json!({"id": uuid(), "name": text()})),
        "image_id": uuid(),
        "image_name": text(),
        "disk_format": one_of(&["raw"]),
        "container_format": text(),
    }));
    let visibility = one_of(&["private", "public", "shared", "community"]);
    if minor >= 1 { plus(upload, json!({"visibility": visibility, "protected": boolean()})) } else { upload }
}

fn backup(minor: u16) -> Value {
    let mut backup = plus(
        brief(),
        json!({
            "description": or_null(text()),
            "volume_id": uuid(),
            "snapshot_id": or_null(uuid()),
            "status": one_of(&["available", "creating", "deleting", "error", "error_deleting", "restoring"]),
            "size": count(),
            "object_count": count(),
            "container": or_null(text()),
            "availability_zone": text(),
            "fail_reason": or_null(text()),
            "is_incremental": boolean(),
            "has_dependent_backups": boolean(),
            "created_at": micros(),
            "updated_at": or_null(micros()),
            "data_timestamp": micros(),
        }),
    );
    if minor >= 43 {
        backup = plus(backup, json!({"metadata": metadata()}));
    }
    let project = json!({"os-backup-project-attr:project_id": account()});
    match minor {
        56.. => together(backup, json!({"os-backup-project-attr:project_id": account(), "user_id": account()})),
        18.. => perhaps(backup, project),
        _ => backup,
    }
}

fn restore() -> Value {
    object(json!({"backup_id": uuid(), "volume_id": uuid(), "volume_name": or_null(text())}))
}

fn brief_snapshot() -> Value {
    object(json!({
        "id": uuid(),
        "name": or_null(text()),
        "description": or_null(text()),
        "volume_id": uuid(),
        "status": one_of(&["available", "backing-up", "creating", "deleted", "deleting", "error", "error_deleting", "restoring", "unmanaging"]),
        "size": count(),
        "metadata": metadata(),
        "created_at": micros(),
        "updated_at": or_null(micros()),
    }))
}

fn snapshot(minor: u16) -> Value {
    let since = [
        (14, json!({"group_snapshot_id": always_null()})),
        (41, json!({"user_id": account()})),
        (65, json!({"consumes_quota": boolean()})),
    ];
    since.into_iter().filter(|(first, _)| minor >= *first).fold(brief_snapshot(), |snapshot, (_, field)| plus(snapshot, field))
}

fn whole_snapshot(minor: u16) -> Value {
    plus(
        snapshot(minor),
        json!({
            "os-extended-snapshot-attributes:progress": {"type": "string", "pattern": "^[0-9]{1,3}%$"},
            "os-extended-snapshot-attributes:project_id": account(),
        }),
    )
}

fn brief_transfer() -> Value {
    plus(brief(), json!({"volume_id": uuid()}))
}

fn transfer(minor: u16) -> Value {
    let mut transfer = plus(brief_transfer(), json!({"created_at": micros()}));
    if minor >= 55 {
        transfer = plus(transfer, json!({"no_snapshots": boolean()}));
    }
    let history = json!({"source_project_id": account(), "destination_project_id": or_null(account()), "accepted": boolean()});
    if minor >= 57 { plus(transfer, history) } else { transfer }
}

fn made_transfer(minor: u16) -> Value {
    plus(transfer(minor), json!({"auth_key": text()}))
}

fn service(minor: u16) -> Value {
    let mut service = object(json!({
        "binary": one_of(&["cinder-scheduler", "cinder-volume"]),
        "host": text(),
        "zone": text(),
        "status": one_of(&["enabled", "disabled"]),
        "state": one_of(&["up", "down"]),
        "disabled_reason": or_null(text()),
        "updated_at": or_null(micros()),
    }));
    if minor >= 7 {
        service = plus(service, json!({"cluster": or_null(text())}));
    }
    // Services with volumes tell of them.
    service = together(service, json!({"replication_status": text(), "active_backend_id": or_null(text()), "frozen": boolean()}));
    if minor >= 49 { perhaps(service, json!({"backend_state": one_of(&["up", "down"])})) } else { service }
}

/// Describes a service that was enabled or disabled.
fn switched() -> Value {
    object(json!({
        "host": text(),
        "service": text(),
        "binary": text(),
        "status": one_of(&["enabled", "disabled"]),
        "disabled": boolean(),
    }))
}

fn host() -> Value {
    object(json!({
        "host_name": text(),
        "service": one_of(&["cinder-scheduler", "cinder-volume"]),
        "zone": text(),
        "service-status": one_of(&["available", "unavailable"]),
        "service-state": one_of(&["enabled", "disabled"]),
        "last-update": or_null(micros()),
    }))
}

/// Describes what a project has on a host. The figures are texts.
fn held() -> Value {
    let figure = json!({"type": "string", "pattern": "^[0-9]+$"});
    object(json!({
        "host": text(),
        "project": text(),
        "volume_count": figure,
        "total_volume_gb": figure,
        "snapshot_count": figure,
        "total_snapshot_gb": figure,
    }))
}

fn capabilities() -> Value {
    object(json!({
        "namespace": text(),
        "vendor_name": text(),
        "volume_backend_name": text(),
        "pool_name": text(),
        "driver_version": text(),
        "storage_protocol": text(),
        "display_name": text(),
        "description": text(),
        "visibility": text(),
        "replication_targets": list(text()),
        "properties": {"type": "object"},
    }))
}

fn brief_attachment() -> Value {
    object(json!({
        "id": uuid(),
        "volume_id": uuid(),
        "instance": or_null(uuid()),
        "status": one_of(&["attached", "attaching", "detached", "reserved", "error_attaching", "error_detaching", "deleted"]),
    }))
}

/// Describes an attachment, in which a moment that has not come is empty.
fn attachment() -> Value {
    let moment = json!({"anyOf": [micros(), {"enum": [""]}]});
    plus(
        brief_attachment(),
        json!({"attach_mode": one_of(&["ro", "rw"]), "attached_at": moment, "detached_at": moment, "connection_info": {"type": "object"}}),
    )
}

/// Describes a limit, of which -1 is none.
fn limit() -> Value {
    json!({"type": "integer", "minimum": -1})
}

fn figures() -> Value {
    object(json!({"limit": limit(), "in_use": count(), "reserved": count(), "allocated": count()}))
}

/// Describes the limits, of which each volume type has some.
fn quotas(value: Value) -> Value {
    let names = ["volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes", "groups", "per_volume_gigabytes"];
    let mut quotas = object(Value::Object(names.iter().map(|name| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>()));
    quotas["patternProperties"] = json!({"^(volumes|snapshots|gigabytes)_.+$": value});
    quotas
}

fn of_project(value: Value) -> Value {
    plus(quotas(value), json!({"id": account()}))
}

fn limits() -> Value {
    let mut absolute = object(json!({}));
    for name in ["Volumes", "VolumeGigabytes", "Snapshots", "Backups", "BackupGigabytes"] {
        absolute = plus(absolute, json!({format!("maxTotal{name}"): limit()}));
    }
    for name in ["Volumes", "Gigabytes", "Snapshots", "Backups", "BackupGigabytes"] {
        absolute = plus(absolute, json!({format!("total{name}Used"): count()}));
    }
    object(json!({"rate": {"type": "array", "maxItems": 0}, "absolute": absolute}))
}
