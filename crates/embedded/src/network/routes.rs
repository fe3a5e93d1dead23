//! The Network API v2.0: the list of its routes, and what the handlers of all resources share: roles, ids, bodies and errors.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::web;
use cellshift_domain::reason::ReasonCode;
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm, Message};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::records::{Attributes, FloatingIpRecord, NetworkRecord, PortRecord, Scope, SecurityGroup, SubnetPool, SubnetRecord};
use super::{
    EmbeddedNetwork, agents, availability_zones, bindings, extensions, ip_availability, qos, quotas, request_bodies, routers,
    security_groups, tags, versions,
};
use crate::request_bodies::RequestBody;
use crate::{ServiceError, resource};

/// The maximum number of resources that one request makes.
pub(super) const SEVERAL_MAX: usize = 256;

/// A request to the network API, and its sender.
pub(super) type Call = resource::Call<EmbeddedNetwork>;

/// The bodies that types describe, by their requests.
pub const BODIES: &[&[RequestBody]] = &[tags::BODIES];

/// Returns the fields of the bodies that the service's tables of attributes describe, by their requests.
pub fn attribute_bodies() -> impl Iterator<Item = (String, BTreeSet<String>)> {
    request_bodies::all().into_iter().map(|(request, fields)| (format!("network {request}"), fields))
}

/// Registers all routes under `/network`. Handlers need `web::Data<EmbeddedNetwork>` and `web::Data<dyn AgentHosts>`
/// ([`agents::AgentHosts`]).
pub fn configure(cfg: &mut web::ServiceConfig) {
    versions::configure(cfg);
    extensions::configure(cfg);
    super::resource::configure_several::<NetworkRecord>(cfg);
    super::resource::configure_several::<SubnetRecord>(cfg);
    super::resource::configure_several::<SubnetPool>(cfg);
    ip_availability::routes::configure(cfg);
    bindings::routes::configure(cfg);
    super::resource::configure_several::<PortRecord>(cfg);
    super::resource::configure::<SecurityGroup>(cfg);
    security_groups::rule_routes::configure(cfg);
    qos::routes::configure(cfg);
    quotas::routes::configure(cfg);
    routers::routes::configure(cfg);
    agents::configure(cfg);
    super::resource::configure::<FloatingIpRecord>(cfg);
    availability_zones::configure(cfg);
    tags::configure(cfg);
}

pub(super) fn refusal(error: ServiceError) -> ApiError {
    let over_quota = matches!(&error, ServiceError::Conflict(why) if why.code() == Some(ReasonCode::QuotaExceeded));
    let mut answer = ApiError::from_service(ErrorForm::Network, error);
    answer.code = over_quota.then_some("OverQuota");
    answer
}

pub(super) fn error(status: StatusCode, message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Network, status, message)
}

/// Makes the error of a path that names no resource.
pub(super) fn no_such_resource() -> ApiError {
    ApiError::unrouted(ErrorForm::Network, StatusCode::NOT_FOUND, "The resource could not be found.")
}

/// Returns the scope of resources that the caller may see. 403 without a role that may read.
pub(super) fn reader(caller: &Caller) -> Result<Scope, ApiError> {
    in_role(caller, "reader", "Reading needs the role reader: disallowed by policy")
}

/// Returns the scope of resources that the caller may change. 403 for a mere reader.
pub(super) fn writer(caller: &Caller) -> Result<Scope, ApiError> {
    in_role(caller, "member", "Changing something needs the role member: disallowed by policy")
}

pub(super) fn in_role(caller: &Caller, role: &str, otherwise: &str) -> Result<Scope, ApiError> {
    let admin = caller.0.is_admin();
    if admin || caller.0.has_role(role) {
        return Ok(Scope { project_id: caller.0.project_id.clone(), admin, manager: caller.0.has_role("manager") });
    }
    Err(error(StatusCode::FORBIDDEN, otherwise))
}

pub(super) fn administrator(caller: &Caller) -> Result<Scope, ApiError> {
    if caller.0.is_admin() {
        return reader(caller);
    }
    Err(error(StatusCode::FORBIDDEN, "This is for administrators only: disallowed by policy"))
}

/// Parses an id in a path. A name is answered as an unknown id, because clients try a name there first.
pub(super) fn id_of(what: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| error(StatusCode::NOT_FOUND, format!("{what} {text} could not be found.")))
}

/// Returns the attributes under the resource's name in a request body.
pub(super) fn attributes(body: Value, name: &str) -> Result<Attributes, ApiError> {
    match body {
        Value::Object(mut map) => match map.remove(name) {
            Some(Value::Object(attributes)) => Ok(attributes),
            _ => Err(error(StatusCode::BAD_REQUEST, format!("Invalid request: the body holds one object named '{name}'"))),
        },
        _ => Err(error(StatusCode::BAD_REQUEST, "Invalid request: the body is not a JSON object")),
    }
}

/// The resources that a request makes.
pub(super) enum Creation {
    One(Attributes),
    Several(Vec<Attributes>),
}

/// Returns the attributes of one resource under its name, or those of several in a list under their name. A list is made as a whole, or not
/// at all.
pub(super) fn creation(body: Value, one: &str, several: &str) -> Result<Creation, ApiError> {
    let list = match body.get(several) {
        None => return attributes(body, one).map(Creation::One),
        Some(value) => value.as_array().filter(|list| (1..=SEVERAL_MAX).contains(&list.len())),
    };
    let all = list.and_then(|list| list.iter().map(|item| item.as_object().cloned()).collect::<Option<Vec<_>>>());
    let wrong = || error(StatusCode::BAD_REQUEST, format!("Invalid request: '{several}' is a list of 1 to {SEVERAL_MAX} objects"));
    all.map(Creation::Several).ok_or_else(wrong)
}

/// Returns the attributes of a request body that names no resource.
pub(super) fn unnamed(body: Value) -> Result<Attributes, ApiError> {
    match body {
        Value::Object(attributes) => Ok(attributes),
        _ => Err(error(StatusCode::BAD_REQUEST, "Invalid request: the body is not a JSON object")),
    }
}

/// Formats a moment in whole seconds, as Neutron does.
pub(super) fn moment(at: DateTime<Utc>) -> String {
    cellshift_domain::moment::seconds(at)
}

/// Returns a resource's attributes with more attributes, its moments, and the old name of its project id.
pub(super) fn with(thing: &impl serde::Serialize, more: Value) -> Result<Value, ApiError> {
    let mut value = serde_json::to_value(thing).map_err(|e| error(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    if let (Some(own), Value::Object(more)) = (value.as_object_mut(), more) {
        own.extend(more);
        if let Some(project) = own.get("project_id").cloned() {
            own.insert("tenant_id".to_owned(), project);
        }
        for name in ["created_at", "updated_at"] {
            if let Some(exact) = own.get(name).and_then(Value::as_str).and_then(|text| text.parse::<DateTime<Utc>>().ok()) {
                own.insert(name.to_owned(), json!(moment(exact)));
            }
        }
    }
    Ok(value)
}
