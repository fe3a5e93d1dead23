//! The identity API (Keystone v3), under `/identity`: its routes, and what the handlers of its resources share.

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, web};
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::{ApiError, ErrorForm, Message};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::{
    CatalogService, DEFAULT_DOMAIN, Domain, EmbeddedIdentity, Endpoint, Project, Role, UserCredential, application_credentials,
    assignments, credentials, domains, endpoints, groups, projects, regions, roles, services, tokens, users, versions,
};
use crate::ServiceError;
use crate::request_bodies::RequestBody;
use crate::resource::{self, Answers, Entry, Query, Shown};

/// The bodies of requests, by their requests.
pub const BODIES: &[&[RequestBody]] = &[
    tokens::routes::BODIES,
    users::routes::BODIES,
    groups::routes::BODIES,
    projects::routes::BODIES,
    projects::tags::BODIES,
    application_credentials::routes::BODIES,
    credentials::routes::BODIES,
    credentials::ec2_routes::BODIES,
    roles::routes::BODIES,
    domains::routes::BODIES,
    services::routes::BODIES,
    endpoints::routes::BODIES,
    regions::routes::BODIES,
];

/// Registers the identity API. It takes an [`crate::identity::EmbeddedIdentity`] as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/identity").configure(versions::configure).service(
            web::scope("/v3")
                .configure(versions::configure_v3)
                .configure(tokens::routes::configure)
                .configure(assignments::routes::configure)
                .configure(resource::configure::<Project>)
                .configure(projects::tags::configure)
                .configure(application_credentials::routes::configure)
                .configure(resource::configure::<UserCredential>)
                .configure(credentials::ec2_routes::configure)
                .configure(groups::routes::configure)
                .configure(users::routes::configure)
                .configure(resource::configure::<Role>)
                .configure(resource::configure::<Domain>)
                .configure(resource::configure::<CatalogService>)
                .configure(resource::configure::<Endpoint>)
                .configure(regions::routes::configure),
        ),
    );
}

/// Refuses options of an account that are switched on: nothing here heeds them. Clients send those that are off.
pub(super) fn without_options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let options = Option::<Map<String, Value>>::deserialize(deserializer)?.unwrap_or_default();
    let is_off = |value: &Value| value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty);
    match options.iter().find(|(_, value)| !is_off(value)) {
        Some((name, _)) => Err(D::Error::custom(format!("this service has no option {name:.60}"))),
        None => Ok(()),
    }
}

/// A request to the identity API, and its sender.
pub(super) type Call = resource::Call<EmbeddedIdentity>;

impl<R: Shown<Service = EmbeddedIdentity>> Answers<R> for EmbeddedIdentity {
    const DELETED: StatusCode = StatusCode::NO_CONTENT;
    const UPDATE: Method = Method::PATCH;

    fn listed(call: &Call, _: &Query, all: Vec<R>, _: Entry<R, EmbeddedIdentity>) -> Result<Value, ApiError> {
        Ok(listed(call, &all))
    }
}

/// Converts a service's error.
pub(super) fn failed(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Identity, error)
}

pub(super) fn bad_request(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Identity, StatusCode::BAD_REQUEST, message)
}

pub(super) fn not_found(what: &str, id: &str) -> ApiError {
    ApiError::new(ErrorForm::Identity, StatusCode::NOT_FOUND, format!("Could not find {what}: {id}."))
}

/// Returns the domain of a new account without a `domain_id`: the token's own, or that of its project.
pub(super) fn home(caller: &Caller) -> String {
    let domain = [&caller.0.domain_id, &caller.0.project_domain_id].into_iter().find(|id| !id.is_empty());
    domain.cloned().unwrap_or_else(|| DEFAULT_DOMAIN.to_owned())
}

/// Answers 400 to an update that would move an account to another domain.
pub(super) fn stays_in_domain(requested: Option<&str>, domain_id: &str) -> Result<(), ApiError> {
    match requested {
        Some(other) if other != domain_id => Err(bad_request("Invalid input for field 'domain_id': it cannot be changed.")),
        _ => Ok(()),
    }
}

/// Returns the link of an entity in a collection (`projects/…`).
pub(super) fn link(request: &HttpRequest, path: &str) -> Value {
    json!({"self": format!("{}/identity/v3/{path}", base_url::of(request))})
}

/// Wraps a whole collection; collections have no pages.
pub(super) fn collection(request: &HttpRequest, name: &str, entities: Vec<Value>) -> Value {
    let own = format!("{}{}", base_url::of(request), request.uri());
    json!({name: entities, "links": {"self": own, "previous": null, "next": null}})
}

/// Returns the body of a list of resources, be it their own or that of another.
pub(super) fn listed<R: Shown<Service = EmbeddedIdentity>>(call: &Call, all: &[R]) -> Value {
    collection(&call.request, R::COLLECTION, all.iter().map(|one| one.view(call)).collect())
}

/// True if the query has the flag, with a value other than `0` and `false`.
pub(super) fn is_set(query: &Query, name: &str) -> bool {
    query.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// True unless the query asks for the other value of a flag.
pub(super) fn is_flag(query: &Query, name: &str, value: bool) -> bool {
    query.get(name).is_none_or(|text| (text != "0" && !text.eq_ignore_ascii_case("false")) == value)
}
