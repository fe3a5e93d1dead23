//! The bodies that describe volumes. Cinder's microversions add keys and remove none.

use actix_web::HttpRequest;
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::volume::routes::time;
use crate::volume::{HOST, Volume};

/// Returns a volume's entry in a list without details.
pub(super) fn summary(request: &HttpRequest, volume: &Volume) -> Value {
    json!({"id": volume.id, "name": volume.name, "links": links(request, volume)})
}

/// Returns a volume for the answers to create and update.
pub(super) fn detail(request: &HttpRequest, version: ApiVersion, caller: &Caller, volume: &Volume) -> Value {
    let mut body = json!({
        "id": volume.id,
        "name": volume.name,
        "description": volume.description,
        "status": volume.status,
        "size": volume.size_gb,
        "user_id": volume.user_id,
        "availability_zone": volume.availability_zone,
        "bootable": volume.bootable.to_string(),
        "multiattach": volume.multiattach,
        "encrypted": false,
        "volume_type": volume.volume_type,
        "metadata": volume.shown_metadata(),
        "attachments": attachments(volume, caller.0.is_admin()),
        "snapshot_id": volume.snapshot_id,
        "source_volid": volume.source_volume,
        "consistencygroup_id": null,
        "replication_status": null,
        "created_at": time(volume.created_at),
        "updated_at": volume.updated_at.map(time),
        "links": links(request, volume),
    });
    for (since, for_administrators, key, value) in later_keys(volume) {
        if version.at_least(since) && (!for_administrators || caller.0.is_admin()) {
            body[key] = value;
        }
    }
    body
}

/// Returns the keys that a microversion added or that only administrators see: minor version, for administrators only, key, value.
fn later_keys(volume: &Volume) -> [(u16, bool, &'static str, Value); 8] {
    [
        (0, true, "migration_status", json!(volume.migration_status)),
        (13, false, "group_id", Value::Null),
        (21, true, "provider_id", Value::Null),
        (48, false, "shared_targets", json!(false)),
        (48, false, "service_uuid", json!(Uuid::new_v5(&Uuid::NAMESPACE_URL, HOST.as_bytes()))),
        (61, true, "cluster_name", Value::Null),
        (63, false, "volume_type_id", json!(volume.volume_type_id)),
        (65, false, "consumes_quota", json!(true)),
    ]
}

/// Returns a volume for itself or for a list with details: also its owner, its image and, for administrators, its host.
pub(super) fn whole(request: &HttpRequest, version: ApiVersion, caller: &Caller, volume: &Volume) -> Value {
    let mut body = detail(request, version, caller, volume);
    body["os-vol-tenant-attr:tenant_id"] = json!(volume.project_id);
    if !volume.image_metadata.is_empty() {
        body["volume_image_metadata"] = json!(volume.image_metadata);
    }
    if caller.0.is_admin() {
        body["os-vol-host-attr:host"] = json!(HOST);
        body["os-vol-mig-status-attr:migstat"] = json!(volume.migration_status);
        body["os-vol-mig-status-attr:name_id"] = Value::Null;
    }
    body
}

fn links(request: &HttpRequest, volume: &Volume) -> Value {
    let base = base_url::of(request);
    let id = volume.id;
    json!([
        {"rel": "self", "href": format!("{base}/volume/v3/volumes/{id}")},
        {"rel": "bookmark", "href": format!("{base}/volume/volumes/{id}")},
    ])
}

/// Describes the attachments. Only administrators see hosts.
fn attachments(volume: &Volume, with_host: bool) -> Vec<Value> {
    let attached = volume.attachments.iter().filter(|one| one.status == "attached");
    let by_compute = attached.map(|one| {
        json!({
            "id": one.volume_id,
            "attachment_id": one.id,
            "volume_id": one.volume_id,
            "server_id": one.server,
            "host_name": one.host.as_ref().filter(|_| with_host),
            "device": one.mountpoint,
            "attached_at": one.attached_at.map(time),
        })
    });
    let directly = volume.direct_attachments.iter().filter(|one| one.attached_at.is_some()).map(|one| {
        json!({
            "id": one.volume_id,
            "attachment_id": one.id,
            "volume_id": one.volume_id,
            "server_id": one.server,
            "host_name": one.host.as_ref().filter(|_| with_host),
            "device": one.mountpoint,
            "attached_at": one.attached_at.map(time),
        })
    });
    by_compute.chain(directly).collect()
}
