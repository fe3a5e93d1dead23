//! The bodies of requests about backups, and those that describe backups.

use std::collections::BTreeMap;

use actix_web::HttpRequest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request_bodies::nullable;
use crate::volume::routes::{Call, links, time};
use crate::volume::{Backup, ZONE};

#[derive(Deserialize, JsonSchema)]
pub struct CreateBody {
    pub(super) backup: NewFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewFields {
    pub(super) volume_id: String,
    pub(super) snapshot_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) container: Option<String>,
    pub(super) incremental: Option<Value>,
    pub(super) force: Option<Value>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
pub struct UpdateBody {
    pub(super) backup: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ChangedFields {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) name: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) description: Option<Option<String>>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RestoreBody {
    pub(super) restore: RestoreFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RestoreFields {
    pub(super) volume_id: Option<String>,
    pub(super) name: Option<String>,
}

/// Returns a backup for a list without details, and for the answers to create and update.
pub(super) fn summary(request: &HttpRequest, backup: &Backup) -> Value {
    json!({"id": backup.id, "name": backup.name, "links": links(request, "backups", backup.id)})
}

/// Returns a backup for itself or for a list with details.
pub(super) fn detail(call: &Call, backup: &Backup) -> Value {
    let (version, is_admin) = (call.version, call.caller.0.is_admin());
    let mut body = summary(&call.request, backup);
    let more = json!({
        "description": backup.description,
        "volume_id": backup.volume_id,
        "snapshot_id": backup.snapshot_id,
        "status": backup.status,
        "size": backup.size_gb,
        "object_count": i32::from(["available", "restoring"].contains(&backup.status.as_str())),
        "container": backup.container,
        "availability_zone": ZONE,
        "fail_reason": backup.fail_reason,
        "is_incremental": false,
        "has_dependent_backups": false,
        "created_at": time(backup.created_at),
        "updated_at": backup.updated_at.map(time),
        "data_timestamp": time(backup.created_at),
    });
    let mut put = |key: &str, value: Value| body[key] = value;
    for (key, value) in more.as_object().into_iter().flatten() {
        put(key, value.clone());
    }
    if version.at_least(18) && is_admin {
        put("os-backup-project-attr:project_id", json!(backup.project_id));
    }
    if version.at_least(43) {
        put("metadata", json!(backup.metadata));
    }
    if version.at_least(56) && is_admin {
        put("user_id", json!(backup.user_id));
    }
    body
}
