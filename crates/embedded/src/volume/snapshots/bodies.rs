//! The bodies of requests about snapshots, and those that describe snapshots.

use std::collections::BTreeMap;

use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request_bodies::nullable;
use crate::volume::Snapshot;
use crate::volume::routes::time;

#[derive(Deserialize, JsonSchema)]
pub struct CreateBody {
    pub(super) snapshot: NewFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewFields {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) volume_id: Option<Option<String>>,
    #[serde(alias = "display_name")]
    pub(super) name: Option<String>,
    #[serde(alias = "display_description")]
    pub(super) description: Option<String>,
    pub(super) force: Option<Value>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
pub struct UpdateBody {
    pub(super) snapshot: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ChangedFields {
    #[serde(default, alias = "display_name", deserialize_with = "nullable")]
    pub(super) name: Option<Option<String>>,
    #[serde(default, alias = "display_description", deserialize_with = "nullable")]
    pub(super) description: Option<Option<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotProgress {
    pub(super) status: String,
    pub(super) progress: Option<String>,
}

/// Returns a snapshot for a list without details.
pub(super) fn summary(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "name": snapshot.name,
        "description": snapshot.description,
        "volume_id": snapshot.volume_id,
        "status": snapshot.status,
        "size": snapshot.size_gb,
        "metadata": snapshot.metadata,
        "created_at": time(snapshot.created_at),
        "updated_at": snapshot.updated_at.map(time),
    })
}

/// Returns a snapshot for the answers to create and update.
pub(super) fn detail(version: ApiVersion, snapshot: &Snapshot) -> Value {
    let mut body = summary(snapshot);
    if version.at_least(14) {
        body["group_snapshot_id"] = Value::Null;
    }
    if version.at_least(41) {
        body["user_id"] = json!(snapshot.user_id);
    }
    if version.at_least(65) {
        body["consumes_quota"] = json!(true);
    }
    body
}

/// Returns a snapshot for itself or for a list with details: also its owner and its progress.
pub(super) fn whole(version: ApiVersion, snapshot: &Snapshot) -> Value {
    let mut body = detail(version, snapshot);
    let by_status = if snapshot.status == "available" { "100%" } else { "0%" };
    let progress = snapshot.progress.as_deref().unwrap_or(by_status);
    body["os-extended-snapshot-attributes:progress"] = json!(progress);
    body["os-extended-snapshot-attributes:project_id"] = json!(snapshot.project_id);
    body
}
