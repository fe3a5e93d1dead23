//! Disables and enables a service, and forces its host down.

use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::view;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::migration::{MigrationFilter, MigrationStatus, MigrationType};
use crate::domain::service::{Service, ServiceChange};
use crate::env::guard::{Guard, stands};
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, not_found, ok};
use crate::http::compute::body::rules::{HostName, Word, rules};
use crate::http::compute::body::{ALWAYS, Body, Flag};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::zones::{COMPUTE, Zones};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

pub(super) static BY_ACTION: Body<HostAction> = Body::whole(&[1, 11]);
pub(super) static BY_UUID: Body<NewState> = Body::whole(ALWAYS);

rules! {
    /// A service's status.
    Status = json!({"enum": ["enabled", "disabled"]});
}

/// The service that an action below 2.53 changes, and the action's values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HostAction {
    #[schemars(with = "HostName")]
    host: String,
    #[schemars(with = "Word")]
    binary: String,
    #[serde(default)]
    #[schemars(with = "Word")]
    disabled_reason: Option<String>,
    #[serde(default)]
    #[schemars(with = "Flag", extend("since" = 11))]
    forced_down: Option<Flag>,
}

/// The state that a service gets from 2.53 on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewState {
    #[serde(default)]
    #[schemars(with = "Status")]
    status: Option<String>,
    #[serde(default)]
    #[schemars(with = "Word")]
    disabled_reason: Option<String>,
    #[serde(default)]
    #[schemars(with = "Flag")]
    forced_down: Option<Flag>,
}

/// Answers `PUT /os-services/{id}`. From 2.53 on the id is a service's; before, the id is an action on the service in the body.
pub async fn update(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-services:update")?;
    if version.at_least(53) { one(version, &api, &id, &body).await } else { act(version, &api, &id, &body).await }
}

async fn one(version: ApiVersion, api: &Catalog, id: &str, body: &Document) -> Answer {
    let uuid = Uuid::parse_str(id).map_err(|_| bad_request(format!("Invalid uuid {id}")))?;
    let state = BY_UUID.read(version, body).await?;
    let (cell, service) = api.find(|cell| cell.service(uuid)).await?;
    is_compute(&service.binary)?;
    let change = state.change()?;
    check_force_up(api, cell, &service, &change).await?;
    api.ask(cell, |db| db.change_service(uuid, change)).await?;
    let service = api.ask(cell, |db| db.service(uuid)).await?;
    let zones = Zones::read(api).await?;
    ok(&json!({"service": view(api, &service, zones.of_service(&service), version)}))
}

impl NewState {
    fn change(self) -> Result<ServiceChange, ApiError> {
        let reason = self.disabled_reason;
        let mut change = match self.status.as_deref() {
            Some("enabled") if reason.is_some() => {
                return Err(bad_request("Specifying 'disabled_reason' with status 'enabled' is invalid."));
            }
            Some("enabled") => ServiceChange { disabled: Some(false), disabled_reason: Some(None), ..ServiceChange::default() },
            Some(_) => ServiceChange { disabled: Some(true), disabled_reason: Some(reason), ..ServiceChange::default() },
            None => ServiceChange::default(),
        };
        change.forced_down = self.forced_down.map(|flag| flag.0);
        if change == ServiceChange::default() {
            return Err(bad_request("No updates were requested. Fields 'status' or 'forced_down' should be specified."));
        }
        Ok(change)
    }
}

async fn act(version: ApiVersion, api: &Catalog, action: &str, body: &Document) -> Answer {
    let HostAction { host, binary, disabled_reason, forced_down } = BY_ACTION.read(version, body).await?;
    let (host, binary) = (host.as_str(), binary.as_str());
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
            let reason = disabled_reason.ok_or_else(|| bad_request("Missing disabled reason field"))?;
            answer["status"] = json!("disabled");
            answer["disabled_reason"] = json!(reason);
            disable(Some(reason))
        }
        "force-down" if version.at_least(11) => {
            let Flag(flag) = forced_down.ok_or_else(|| bad_request("Missing forced_down field"))?;
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
