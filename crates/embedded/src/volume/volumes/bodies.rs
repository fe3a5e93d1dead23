//! The bodies of requests about volumes, and those that describe volumes. Cinder's microversions add keys and remove none.

use std::collections::BTreeMap;

use actix_web::HttpRequest;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::request_bodies::nullable;
use crate::volume::routes::{Call, links, time};
use crate::volume::{HOST, Volume};

#[derive(Deserialize, JsonSchema)]
pub struct CreateBody {
    pub(super) volume: NewFields,
    #[serde(rename = "OS-SCH-HNT:scheduler_hints", alias = "scheduler_hints")]
    pub(super) hints: Option<Hints>,
}

/// Hints about the host of a volume. All volumes are on one host.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Hints {
    pub(super) different_host: Option<Value>,
    #[serde(rename = "same_host")]
    pub(super) _same_host: Option<Value>,
    #[serde(rename = "local_to_instance")]
    pub(super) _local_to_instance: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewFields {
    /// A number, or digits in a string. It may be missing if a snapshot or a volume is the source, which has a size.
    pub(super) size: Option<Value>,
    #[serde(alias = "display_name")]
    pub(super) name: Option<String>,
    #[serde(alias = "display_description")]
    pub(super) description: Option<String>,
    #[serde(rename = "imageRef", alias = "image_id")]
    pub(super) image: Option<String>,
    pub(super) volume_type: Option<String>,
    pub(super) availability_zone: Option<String>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// Obsolete: the volume's type says whether several servers may share it.
    pub(super) multiattach: Option<Value>,
    pub(super) snapshot_id: Option<String>,
    pub(super) source_volid: Option<String>,
    pub(super) backup_id: Option<String>,
    pub(super) group_id: Option<String>,
    pub(super) consistencygroup_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct UpdateBody {
    pub(super) volume: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ChangedFields {
    #[serde(default, alias = "display_name", deserialize_with = "nullable")]
    pub(super) name: Option<Option<String>>,
    #[serde(default, alias = "display_description", deserialize_with = "nullable")]
    pub(super) description: Option<Option<String>>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// Returns a volume's entry in a list without details.
pub(super) fn summary(request: &HttpRequest, volume: &Volume) -> Value {
    json!({"id": volume.id, "name": volume.name, "links": links(request, "volumes", volume.id)})
}

/// Returns a volume for the answers to create and update.
pub(super) fn detail(call: &Call, volume: &Volume) -> Value {
    let is_admin = call.caller.0.is_admin();
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
        "attachments": attachments(volume, is_admin),
        "snapshot_id": volume.snapshot_id,
        "source_volid": volume.source_volume,
        "consistencygroup_id": null,
        "replication_status": null,
        "created_at": time(volume.created_at),
        "updated_at": volume.updated_at.map(time),
        "links": links(&call.request, "volumes", volume.id),
    });
    for (since, for_administrators, key, value) in later_keys(volume) {
        if call.version.at_least(since) && (!for_administrators || is_admin) {
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
pub(super) fn whole(call: &Call, volume: &Volume) -> Value {
    let mut body = detail(call, volume);
    body["os-vol-tenant-attr:tenant_id"] = json!(volume.project_id);
    if !volume.image_metadata.is_empty() {
        body["volume_image_metadata"] = json!(volume.image_metadata);
    }
    if call.caller.0.is_admin() {
        body["os-vol-host-attr:host"] = json!(HOST);
        body["os-vol-mig-status-attr:migstat"] = json!(volume.migration_status);
        body["os-vol-mig-status-attr:name_id"] = Value::Null;
    }
    body
}

/// Describes the attachments. Only administrators see hosts.
fn attachments(volume: &Volume, with_host: bool) -> Vec<Value> {
    let by_compute = volume.attachments.iter().filter(|attachment| attachment.status == "attached");
    let by_compute = by_compute.map(|attachment| {
        (attachment.id, json!(attachment.server), attachment.host.as_ref(), json!(attachment.mountpoint), attachment.attached_at)
    });
    let directly = volume.direct_attachments.iter().filter(|attachment| attachment.attached_at.is_some());
    let directly = directly.map(|attachment| {
        (attachment.id, json!(attachment.server), attachment.host.as_ref(), json!(attachment.mountpoint), attachment.attached_at)
    });
    let describe = |(id, server, host, device, attached_at): (Uuid, Value, Option<&String>, Value, Option<DateTime<Utc>>)| {
        json!({
            "id": volume.id,
            "attachment_id": id,
            "volume_id": volume.id,
            "server_id": server,
            "host_name": host.filter(|_| with_host),
            "device": device,
            "attached_at": attached_at.map(time),
        })
    };
    by_compute.chain(directly).map(describe).collect()
}
