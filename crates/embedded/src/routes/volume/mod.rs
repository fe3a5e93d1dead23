//! The volume API (Cinder v3), under `/volume`: one file per resource.

mod actions;
mod attaching;
mod attachments;
#[cfg(test)]
mod backup_tests;
mod backups;
mod default_types;
mod fields;
mod messages;
mod metadata;
mod paging;
mod qos_specs;
mod quotas;
mod services;
#[cfg(test)]
mod snapshot_tests;
mod snapshots;
#[cfg(test)]
mod tests;
mod transfers;
#[cfg(test)]
mod type_tests;
mod uploads;
mod versions;
mod view;
#[cfg(test)]
mod view_tests;
mod volume_types;
mod volumes;
mod zones;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use cellshift_domain::moment;
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::roles;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::request_bodies::RequestBody;
use crate::ServiceError;

/// The bodies of requests, by their requests. Those of an action are the parameters below its name.
pub const BODIES: &[&[RequestBody]] = &[
    volumes::BODIES,
    actions::BODIES,
    snapshots::BODIES,
    backups::BODIES,
    metadata::BODIES,
    attachments::BODIES,
    transfers::BODIES,
    volume_types::BODIES,
    default_types::BODIES,
    qos_specs::BODIES,
    services::BODIES,
    quotas::BODIES,
];

/// The parameters of an action that has none.
#[derive(JsonSchema)]
struct NoFields {}

/// The parameters of an action that sets a status.
#[derive(Deserialize, JsonSchema)]
struct Status {
    status: String,
}

/// Registers the volume API. It needs [`crate::volume::embedded::EmbeddedVolume`] as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/volume").configure(versions::configure).service(
            web::scope("/v3")
                .wrap(from_fn(roles::by_method))
                .configure(versions::configure_v3)
                .configure(volumes::configure)
                .configure(snapshots::configure)
                .configure(backups::configure)
                .configure(metadata::configure)
                .configure(actions::configure)
                .configure(attachments::configure)
                .configure(volume_types::configure)
                .configure(default_types::configure)
                .configure(qos_specs::configure)
                .configure(messages::configure)
                .configure(services::configure)
                .configure(transfers::configure)
                .configure(quotas::configure)
                .configure(zones::configure),
        ),
    );
}

/// Converts a service's error. In this API a conflict with a volume's state is a 400.
fn failed(error: ServiceError) -> ApiError {
    let status = matches!(error, ServiceError::Conflict(_)).then_some(StatusCode::BAD_REQUEST);
    let mut api = ApiError::from_service(ErrorForm::Compute, error);
    api.status = status.unwrap_or(api.status);
    api
}

/// Converts a service's error where a conflict is a 409: a name that is taken, or an attachment of the compute service.
fn conflicting(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Compute, error)
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, message)
}

fn not_found(what: &str, id: &str) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, format!("{what} {id} could not be found."))
}

/// Parses an id in a path. Other text names no volume, so the answer is 404.
fn volume_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found("Volume", text))
}

/// Returns the only action of a body, with its parameters.
fn named_action(body: Map<String, Value>) -> Result<(String, Value), ApiError> {
    let mut named = body.into_iter();
    match (named.next(), named.next()) {
        (Some(action), None) => Ok(action),
        _ => Err(bad_request("The body must name one action.")),
    }
}

/// Parses the parameters of an action.
fn parameters<T: DeserializeOwned>(action: &str, value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| bad_request(format!("{action}: {error}.")))
}

fn require(caller: &Caller, role: &str) -> Result<(), ApiError> {
    match caller.0.has_role(role) || caller.0.is_admin() {
        true => Ok(()),
        false => {
            Err(ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, format!("Policy doesn't allow this: it needs the role {role}.")))
        }
    }
}

fn time(time: chrono::DateTime<chrono::Utc>) -> String {
    moment::micros(time)
}
