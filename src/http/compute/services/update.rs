//! Disables and enables a service, and forces its host down.

use actix_web::web;
use serde_json::{Value, json};
use uuid::Uuid;

use super::view;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::migration::{MigrationFilter, MigrationStatus, MigrationType};
use crate::domain::service::{Service, ServiceChange};
use crate::env::guard::{Guard, stands};
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, not_found, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::zones::{COMPUTE, Zones};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{self, Schema, as_bool};

pub(super) static BY_ACTION: Schema = Schema::new(&[1, 11], |minor| by_action(minor >= 11));
pub(super) static BY_UUID: Schema = Schema::fixed(|_| {
    schema::object(&json!({"status": {"enum": ["enabled", "disabled"]}, "disabled_reason": text(), "forced_down": schema::boolean()}), &[])
});

fn text() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255})
}

fn by_action(forced_down: bool) -> Value {
    let mut fields = json!({"host": schema::host(), "binary": text(), "disabled_reason": text()});
    if forced_down {
        fields["forced_down"] = schema::boolean();
    }
    schema::object(&fields, &["host", "binary"])
}

/// Answers `PUT /os-services/{id}`. From 2.53 on the id is a service's; before, the id is an action on the service in the body.
pub async fn update(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-services:update")?;
    if version.at_least(53) { one(version, &api, &id, &body).await } else { act(version, &api, &id, &body).await }
}

async fn one(version: ApiVersion, api: &Catalog, id: &str, body: &Document) -> Answer {
    let uuid = Uuid::parse_str(id).map_err(|_| bad_request(format!("Invalid uuid {id}")))?;
    BY_UUID.check(version, body).await?;
    let (cell, service) = api.find(|cell| cell.service(uuid)).await?;
    is_compute(&service.binary)?;
    let change = asked_for(body)?;
    check_force_up(api, cell, &service, &change).await?;
    api.ask(cell, |db| db.change_service(uuid, change)).await?;
    let service = api.ask(cell, |db| db.service(uuid)).await?;
    let zones = Zones::read(api).await?;
    ok(&json!({"service": view(api, &service, zones.of_service(&service), version)}))
}

fn asked_for(body: &Value) -> Result<ServiceChange, ApiError> {
    let reason = body["disabled_reason"].as_str().map(str::to_owned);
    let mut change = match body["status"].as_str() {
        Some("enabled") if reason.is_some() => return Err(bad_request("Specifying 'disabled_reason' with status 'enabled' is invalid.")),
        Some("enabled") => ServiceChange { disabled: Some(false), disabled_reason: Some(None), ..ServiceChange::default() },
        Some(_) => ServiceChange { disabled: Some(true), disabled_reason: Some(reason), ..ServiceChange::default() },
        None => ServiceChange::default(),
    };
    change.forced_down = body.get("forced_down").map(as_bool);
    if change == ServiceChange::default() {
        return Err(bad_request("No updates were requested. Fields 'status' or 'forced_down' should be specified."));
    }
    Ok(change)
}

async fn act(version: ApiVersion, api: &Catalog, action: &str, body: &Document) -> Answer {
    BY_ACTION.check(version, body).await?;
    let (host, binary) = (body["host"].as_str().unwrap_or_default(), body["binary"].as_str().unwrap_or_default());
    let mut answer = json!({"host": host, "binary": binary});
    let disable =
        |reason: Option<String>| ServiceChange { disabled: Some(true), disabled_reason: Some(reason), ..ServiceChange::default() };
    let change = match action {
        "enable" => {
            answer["status"] = json!("enabled");
            ServiceChange { disabled: Some(false), disabled_reason: Some(None), ..ServiceChange::default() }
        }
        "disable" => {
            answer["status"] = json!("disabled");
            disable(None)
        }
        "disable-log-reason" => {
            let reason = body["disabled_reason"].as_str().ok_or_else(|| bad_request("Missing disabled reason field"))?;
            answer["status"] = json!("disabled");
            answer["disabled_reason"] = json!(reason);
            disable(Some(reason.to_owned()))
        }
        "force-down" if version.at_least(11) => {
            let flag = as_bool(body.get("forced_down").ok_or_else(|| bad_request("Missing forced_down field"))?);
            answer["forced_down"] = json!(flag);
            ServiceChange { forced_down: Some(flag), ..ServiceChange::default() }
        }
        _ => return Err(not_found("Unknown action")),
    };
    is_compute(binary)?;
    let cell = cell_of(api, host, binary).await?;
    let service = api.ask(cell, |db| db.service_on(host, binary)).await?;
    check_force_up(api, cell, &service, &change).await?;
    api.ask(cell, |db| db.change_service(service.uuid, change)).await?;
    ok(&json!({"service": answer}))
}

/// Refuses to force up a host that has not been cleaned up after evacuations from it.
async fn check_force_up(api: &Catalog, cell: &CellHandle, service: &Service, change: &ServiceChange) -> Result<(), ApiError> {
    if !service.forced_down || change.forced_down != Some(false) {
        return Ok(());
    }
    let left = MigrationFilter {
        source_compute: Some(service.host.clone()),
        migration_type: Some(MigrationType::Evacuation),
        statuses: vec![MigrationStatus::Done],
        ..MigrationFilter::default()
    };
    match api.ask(cell, |db| db.migrations(left)).await?.len() {
        waiting if stands(Guard::CleanedSource) && waiting > 0 => Err(bad_request(format!(
            "Compute service of {} cannot be forced up: {waiting} servers were evacuated from it, and it has not been cleaned up since. Start \
             the host, and wait until their migrations are completed.",
            service.host
        ))),
        _ => Ok(()),
    }
}

async fn cell_of<'a>(api: &'a Catalog, host: &str, binary: &str) -> Result<&'a CellHandle, ApiError> {
    api.cell_of_host(host).await.map_err(|error| match error {
        DbError::NotFound(_) => not_found(format!("Could not find binary {binary} on host {host}.")),
        other => other.into(),
    })
}

fn is_compute(binary: &str) -> Result<(), ApiError> {
    if binary == COMPUTE {
        return Ok(());
    }
    Err(bad_request(format!("Updating a {binary} service is not supported. Only nova-compute services can be updated.")))
}
