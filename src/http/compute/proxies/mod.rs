//! Proxies of the compute API to the network, image and volume services, as they were before clients asked these themselves. They end with
//! microversion 2.35.

mod floating_ips;
mod image_metadata;
mod images;
mod networks;
mod security_group_rules;
mod security_groups;
mod snapshots;
mod volumes;

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::answer::{forbidden, no_such_resource, not_found};
use super::query::Query;
use super::schema::Schema;
use crate::domain::context::RequestContext;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;
use crate::services::proxies::{ImageProxy, NetworkProxy, Scope, VolumeProxy};

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[
    ("POST /os-floating-ips", &floating_ips::CREATE.schema),
    ("POST /os-security-groups", &security_groups::GROUP.schema),
    ("POST /os-security-group-rules", &security_group_rules::CREATE.schema),
    ("POST /os-snapshots", &snapshots::CREATE.schema),
    ("POST /os-volumes", &volumes::CREATE.schema),
];

/// The last microversion with proxies.
const LAST: u16 = 35;

type Network = web::Data<dyn NetworkProxy>;
type Images = web::Data<dyn ImageProxy>;
type Volumes = web::Data<dyn VolumeProxy>;

/// Registers the proxies' routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    // `/images/detail` and its like come before `/images/{id}`.
    image_metadata::routes(config);
    images::routes(config);
    volumes::routes(config);
    snapshots::routes(config);
    networks::routes(config);
    floating_ips::routes(config);
    security_groups::routes(config);
    security_group_rules::routes(config);
}

/// Answers 404 to a microversion that has no proxies.
fn is_there(version: ApiVersion) -> Result<(), ApiError> {
    if version.at_most(LAST) { Ok(()) } else { Err(no_such_resource()) }
}

/// Returns the rights with which a caller reaches the network service.
pub fn scope_of(caller: &RequestContext) -> Scope {
    Scope { project_id: caller.project_id.clone(), admin: caller.is_admin(), manager: caller.has_role("manager") }
}

/// Cuts the requested part out of a list without markers.
fn limited<T>(all: Vec<T>, query: &Query, most: usize) -> Result<Vec<T>, ApiError> {
    let (offset, limit) = (query.number("offset")?.unwrap_or(0), query.limit(most)?);
    Ok(all.into_iter().skip(offset).take(limit).collect())
}

/// Parses the id of a volume. Other text names no volume, so the answer is 404.
fn volume_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found(format!("Volume {text} could not be found.")))
}

/// Parses the id of a snapshot. Other text names no snapshot, so the answer is 404.
fn snapshot_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found(format!("Snapshot {text} could not be found.")))
}

/// Converts an error of the volume service: a state that does not allow the change is 400 here, and a quota is 403.
fn of_volumes(error: ServiceError) -> ApiError {
    match error {
        ServiceError::OverLimit(why) => forbidden(why),
        other => {
            let is_conflict = matches!(other, ServiceError::Conflict(_));
            let mut api = ApiError::from_service(ErrorForm::Compute, other);
            if is_conflict {
                api.status = StatusCode::BAD_REQUEST;
            }
            api
        }
    }
}
