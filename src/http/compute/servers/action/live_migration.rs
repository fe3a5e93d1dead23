//! `os-migrateLive`. Below 2.30 a named host is taken without the scheduler's check, and below 2.34 the caller waits for the choice.

use std::time::Duration;

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::db::DbError;
use crate::domain::migration::MigrationStatus;
use crate::domain::server::{PowerState, VmState};
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::body::rules::{HostOrNull, rules};
use crate::http::compute::body::{Body, Flag};
use crate::http::compute::servers::access;
use crate::http::error::ApiError;
use crate::http::schema;
use crate::saga::context::{LiveMigrateRequest, Request};

const ACTION: &str = "os-migrateLive";
/// The longest wait of an old client for the choice of a host.
const CHOICE_PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(super) static MIGRATE_LIVE: Body<LiveMigration> = Body::within(ACTION, &[1, 25, 30, 68]);

rules! {
    /// Whether the disks are copied. The service can decide from 2.25 on.
    BlockMigration = json!({"versions": [[1, schema::boolean()], [25, flag_or_auto_schema()]]});
}

fn flag_or_auto_schema() -> Value {
    let mut words = schema::boolean();
    if let Some(words) = words["enum"].as_array_mut() {
        words.push(json!("auto"));
    }
    words
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveMigration {
    #[serde(default, deserialize_with = "flag_or_auto")]
    #[schemars(with = "BlockMigration", extend("required_since" = 1))]
    block_migration: Option<bool>,
    #[serde(default, rename = "disk_over_commit")]
    #[schemars(extend("until" = 25, "required_since" = 1))]
    _disk_over_commit: Flag,
    #[serde(default)]
    #[schemars(with = "HostOrNull", extend("required_since" = 1))]
    host: Option<String>,
    #[serde(default)]
    #[schemars(extend("since" = 30, "until" = 68))]
    force: Flag,
}

/// Parses a flag; none for `auto`.
fn flag_or_auto<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok((value != "auto").then(|| schema::as_bool(&value)))
}

pub(super) async fn migrate(action: &ActionRequest<'_>) -> Answer {
    let LiveMigration { block_migration, host, force: Flag(forced), .. } = action.read(&MIGRATE_LIVE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-migrate-server:migrate_live").await?;
    if host.is_some() {
        let rule = "os_compute_api:os-migrate-server:migrate_live:host";
        action.api.policy.authorize(rule, action.caller, &access::target(&located.instance))?;
    }
    if forced && host.is_none() {
        return Err(bad_request("Can't force to a non-provided destination"));
    }
    check_state(&located)?;
    if let Some(host) = &host {
        check_host(action, &located, host).await?;
    }
    let unchecked = host.is_some() && (forced || !action.version.at_least(30));
    let request = LiveMigrateRequest { host, block_migration, forced, unchecked };
    let migration = action.api.begin(action.caller, &located.instance, Request::LiveMigrate(request)).await?;
    if !action.version.at_least(34) {
        await_choice(action, &located, migration).await?;
    }
    empty(StatusCode::ACCEPTED)
}

/// Checks the state before the rest of the request. The operation checks it again when it takes the server.
fn check_state(located: &Located) -> Result<(), ApiError> {
    let instance = &located.instance;
    access::require_no_task(instance, ACTION)?;
    match (instance.vm_state, instance.power_state) {
        (VmState::Active, _) if instance.host.is_none() => Err(conflict(format!("Instance {} is not ready", instance.uuid))),
        (VmState::Active, PowerState::Running) | (VmState::Paused, _) => Ok(()),
        (VmState::Active, power) => Err(access::wrong_state(instance, ACTION, "power_state", &power.code().to_string())),
        (other, _) => Err(access::wrong_state(instance, ACTION, "vm_state", other.as_str())),
    }
}

/// Refuses a host that is unknown, or in another cell: no guest leaves its cell alive.
async fn check_host(action: &ActionRequest<'_>, located: &Located, host: &str) -> Result<(), ApiError> {
    match action.api.registry.cell_of_host(host).await? {
        Some(cell) if located.cell.as_ref() == Some(&cell) => Ok(()),
        _ => Err(bad_request(format!("Compute host {host} could not be found."))),
    }
}

/// Waits until a target has been chosen and checked. 400 if none was.
async fn await_choice(action: &ActionRequest<'_>, located: &Located, migration: Uuid) -> Result<(), ApiError> {
    let cell = located.cell.clone().unwrap_or_default();
    let chosen = async {
        loop {
            let record = action.api.registry.ask(&cell, |db| async move { db.migration(migration).await }).await?;
            match record.status {
                MigrationStatus::Error | MigrationStatus::Conflict => return Ok::<bool, DbError>(false),
                MigrationStatus::Accepted => {}
                _ => return Ok(true),
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    match tokio::time::timeout(CHOICE_PATIENCE, chosen).await {
        Ok(Ok(false)) => {
            let why = action.api.operations.failure(migration).await.map_err(access::refused)?;
            let why = why.unwrap_or_else(|| "the server could not be migrated".into());
            Err(bad_request(if action.caller.is_admin() { why.to_string() } else { why.for_users() }))
        }
        Ok(Ok(true)) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(ApiError::from(error)),
    }
}
