//! `os-migrateLive`. Below 2.30 a named host is taken without the scheduler's check, and below 2.34 the caller waits for the choice.

use std::time::Duration;

use actix_web::http::StatusCode;
use serde_json::Value;
use uuid::Uuid;

use super::ActionRequest;
use crate::actors::cell_registry::Located;
use crate::db::DbError;
use crate::domain::migration::MigrationStatus;
use crate::domain::server::{PowerState, VmState};
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::servers::{access, schemas};
use crate::http::error::ApiError;
use crate::saga::context::{LiveMigrateRequest, Request};

const ACTION: &str = "os-migrateLive";
/// The longest wait of an old client for the choice of a host.
const CHOICE_PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(super) async fn migrate(asked: &ActionRequest<'_>) -> Answer {
    schemas::MIGRATE_LIVE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-migrate-server:migrate_live").await?;
    let wanted = &asked.body[ACTION];
    let host = wanted["host"].as_str().map(str::to_owned);
    if host.is_some() {
        let rule = "os_compute_api:os-migrate-server:migrate_live:host";
        asked.api.policy.authorize(rule, asked.caller, &access::target(&located.instance))?;
    }
    let forced = flag(&wanted["force"]).unwrap_or(false);
    if forced && host.is_none() {
        return Err(bad_request("Can't force to a non-provided destination"));
    }
    check_state(&located)?;
    if let Some(host) = &host {
        check_host(asked, &located, host).await?;
    }
    let unchecked = host.is_some() && (forced || !asked.version.at_least(30));
    let request = LiveMigrateRequest { host, block_migration: flag(&wanted["block_migration"]), forced, unchecked };
    let migration = asked.api.begin(asked.caller, &located.instance, Request::LiveMigrate(request)).await?;
    if !asked.version.at_least(34) {
        await_choice(asked, &located, migration).await?;
    }
    empty(StatusCode::ACCEPTED)
}

/// Reads a flag; none for `auto` and for a missing value.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) if text != "auto" => Some(matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes")),
        _ => None,
    }
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
async fn check_host(asked: &ActionRequest<'_>, located: &Located, host: &str) -> Result<(), ApiError> {
    match asked.api.registry.cell_of_host(host).await? {
        Some(cell) if located.cell.as_ref() == Some(&cell) => Ok(()),
        _ => Err(bad_request(format!("Compute host {host} could not be found."))),
    }
}

/// Waits until a target has been chosen and checked. 400 if none was.
async fn await_choice(asked: &ActionRequest<'_>, located: &Located, migration: Uuid) -> Result<(), ApiError> {
    let cell = located.cell.clone().unwrap_or_default();
    let chosen = async {
        loop {
            let record = asked.api.registry.ask(&cell, |db| async move { db.migration(migration).await }).await?;
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
            let why = asked.api.operations.failure(migration).await.map_err(access::refused)?;
            let why = why.unwrap_or_else(|| "the server could not be migrated".into());
            Err(bad_request(if asked.caller.is_admin() { why.to_string() } else { why.for_users() }))
        }
        Ok(Ok(true)) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(ApiError::from(error)),
    }
}
