//! The volume API (Cinder v3), under `/volume`: one file per resource.

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, web};
use cellshift_domain::moment;
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::{ApiError, ErrorForm, Message};
use cellshift_web::roles;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::request_bodies::RequestBody;
use crate::volume::{
    EmbeddedVolume, attachments, backups, default_types, messages, metadata, processes, qos_specs, quotas, snapshots, transfers, versions,
    volume_types, volumes, zones,
};
use crate::{ServiceError, resource};

/// The bodies of requests, by their requests. Those of an action are the parameters below its name.
pub const BODIES: &[&[RequestBody]] = &[
    volumes::routes::BODIES,
    volumes::actions::BODIES,
    snapshots::routes::BODIES,
    backups::routes::BODIES,
    metadata::BODIES,
    attachments::routes::BODIES,
    transfers::routes::BODIES,
    volume_types::routes::BODIES,
    default_types::routes::BODIES,
    qos_specs::routes::BODIES,
    processes::routes::BODIES,
    quotas::routes::BODIES,
];

/// The parameters of an action that has none.
#[derive(JsonSchema)]
pub(super) struct NoFields {}

/// The parameters of an action that sets a status.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Status {
    pub(super) status: String,
}

/// Registers the volume API. It needs [`EmbeddedVolume`](crate::volume::EmbeddedVolume) as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/volume").configure(versions::configure).service(
            web::scope("/v3")
                .wrap(from_fn(roles::by_method))
                .configure(versions::configure_v3)
                .configure(volumes::routes::configure)
                .configure(snapshots::routes::configure)
                .configure(backups::routes::configure)
                .configure(metadata::configure)
                .configure(volumes::actions::configure)
                .configure(attachments::routes::configure)
                .configure(volume_types::routes::configure)
                .configure(default_types::routes::configure)
                .configure(qos_specs::routes::configure)
                .configure(messages::routes::configure)
                .configure(processes::routes::configure)
                .configure(transfers::routes::configure)
                .configure(quotas::routes::configure)
                .configure(zones::configure),
        ),
    );
}

/// A request to the volume API, and its sender.
pub(super) type Call = resource::Call<EmbeddedVolume>;

/// Converts a service's error. In this API a conflict with a volume's state is a 400.
pub(super) fn failed(error: ServiceError) -> ApiError {
    let status = matches!(error, ServiceError::Conflict(_)).then_some(StatusCode::BAD_REQUEST);
    let mut api = ApiError::from_service(ErrorForm::Compute, error);
    api.status = status.unwrap_or(api.status);
    api
}

/// Converts a service's error where a conflict is a 409: a name that is taken, or an attachment of the compute service.
pub(super) fn conflicting(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Compute, error)
}

pub(super) fn bad_request(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, message)
}

pub(super) fn not_found(what: &str, id: &str) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, format!("{what} {id} could not be found."))
}

/// Returns the only action of a body, with its parameters.
pub(super) fn named_action(body: Map<String, Value>) -> Result<(String, Value), ApiError> {
    let mut fields = body.into_iter();
    match (fields.next(), fields.next()) {
        (Some(action), None) => Ok(action),
        _ => Err(bad_request("The body must name one action.")),
    }
}

/// Parses the parameters of an action.
pub(super) fn parameters<T: DeserializeOwned>(action: &str, value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| bad_request(format!("{action}: {error}.")))
}

pub(super) fn require(caller: &Caller, role: &str) -> Result<(), ApiError> {
    match caller.0.has_role(role) || caller.0.is_admin() {
        true => Ok(()),
        false => {
            Err(ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, format!("Policy doesn't allow this: it needs the role {role}.")))
        }
    }
}

pub(super) fn time(time: chrono::DateTime<chrono::Utc>) -> String {
    moment::micros(time)
}

/// Returns the links of a thing, whose collection has this path.
pub(super) fn links(request: &HttpRequest, path: &str, id: Uuid) -> Value {
    let base = base_url::of(request);
    json!([
        {"rel": "self", "href": format!("{base}/volume/v3/{path}/{id}")},
        {"rel": "bookmark", "href": format!("{base}/volume/{path}/{id}")},
    ])
}
