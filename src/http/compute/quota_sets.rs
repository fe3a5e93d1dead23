//! `/os-quota-sets`: the quotas of projects and of their users.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answer, bad_request, empty, ok};
use super::body::rules::rules;
use super::body::{Body, Flag};
use super::catalog::Catalog;
use super::query::Query;
use super::quota_usage::{self, Counted, tell_missing};
use super::schema::{self, Schema, as_integer};
use crate::domain::quota::{DEFAULT_CLASS, DEFAULTS, Limits, endless, left_by};
use crate::http::auth::{Caller, require_project};
use crate::http::call::Call;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::services::identity::Authenticator;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/os-quota-sets/{project}")
                .route(web::get().to(show))
                .route(web::put().to(update))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/os-quota-sets/{project}/defaults").route(web::get().to(defaults)))
        .service(web::resource("/os-quota-sets/{project}/detail").route(web::get().to(detail)));
}

/// Resources of the network service; removed in 2.36.
const NETWORK: &[&str] = &["fixed_ips", "floating_ips", "security_group_rules", "security_groups"];
/// Resources of injected files; removed in 2.57.
const INJECTED: &[&str] = &["injected_files", "injected_file_content_bytes", "injected_file_path_bytes"];

/// True if the microversion no longer has the resource.
pub fn is_gone(resource: &str, version: ApiVersion) -> bool {
    (version.at_least(36) && NETWORK.contains(&resource)) || (version.at_least(57) && INJECTED.contains(&resource))
}

/// Describes an object with a limit for each resource. Those of the network service are there until a minor version.
pub fn settable(network_until: u16) -> Value {
    let mut fields = Map::new();
    for (resource, _) in DEFAULTS {
        let mut limit = json!({"type": ["integer", "string"], "pattern": "^-?[0-9]+$", "minimum": -1, "maximum": i32::MAX});
        if NETWORK.contains(resource) {
            limit["until"] = json!(network_until);
        }
        if INJECTED.contains(resource) {
            limit["until"] = json!(57);
        }
        fields.insert((*resource).to_owned(), limit);
    }
    schema::object(&Value::Object(fields), &[])
}

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("PUT /os-quota-sets/{}", &UPDATE.schema)];

static UPDATE: Body<QuotaChange> = Body::within("quota_set", &[1, 36, 57]);

rules! {
    /// The limits of a project or of a user.
    QuotaSet = settable(36);
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct QuotaChange {
    /// True to set limits below what is used.
    #[serde(default)]
    force: Flag,
    #[serde(flatten)]
    #[schemars(with = "QuotaSet")]
    limits: BTreeMap<String, Value>,
}

/// Parses the limits in a body. -1 means no limit; a lower number is refused.
pub fn stored(limits: BTreeMap<String, Value>) -> Result<Limits, ApiError> {
    let stored = |(resource, value): (String, Value)| match as_integer(&value, &resource)? {
        limit @ ..-1 => Err(bad_request(format!("Invalid input for field/attribute {resource}. Value: {limit}. It is below -1."))),
        limit => Ok((resource, i64::from(limit))),
    };
    limits.into_iter().map(stored).collect()
}

/// Returns the limits that the microversion has, as an object.
pub fn visible(limits: &Limits, gone: impl Fn(&str) -> bool) -> Map<String, Value> {
    limits.iter().filter(|(resource, _)| !gone(resource)).map(|(resource, limit)| (resource.clone(), json!(limit))).collect()
}

fn query_of(request: &HttpRequest, version: ApiVersion) -> Result<Option<String>, ApiError> {
    let query = Query::of(request)?;
    if version.at_least(75) {
        query.only(&["user_id"])?;
    }
    match query.get("user_id") {
        Some(user) if user.is_empty() || user.chars().nth(255).is_some() => Err(bad_request("user_id has 1 to 255 characters.")),
        user => Ok(user.map(str::to_owned)),
    }
}

/// Answers 403 if the caller may not act on the project's quotas, and 400 if the project does not exist. Deleting quotas of a deleted
/// project stays possible, because it only needs the rule.
async fn check_project(call: &Call<dyn Authenticator>, action: &str, project: &str) -> Result<(), ApiError> {
    call.catalog.allow_on_project(&call.caller, &format!("os_compute_api:os-quota-sets:{action}"), project)?;
    require_project(&**call.api, &call.caller, ErrorForm::Compute, project).await
}

async fn show(call: Call<dyn Authenticator>, project: web::Path<String>) -> Answer {
    let (_, limits) = limits_of_request(&call, "show", &project).await?;
    answer(Some(&project), visible(&limits, |resource| is_gone(resource, call.version)))
}

async fn detail(call: Call<dyn Authenticator>, project: web::Path<String>) -> Answer {
    let (user, limits) = limits_of_request(&call, "detail", &project).await?;
    let Counted { usage, missing } = quota_usage::count(&call.catalog, &project, user.as_deref()).await?;
    let present = limits.iter().filter(|(resource, _)| !is_gone(resource, call.version));
    let figures = present.map(|(resource, limit)| {
        let used = usage.get(resource.as_str()).copied().unwrap_or(0);
        (resource.clone(), json!({"limit": limit, "in_use": used, "reserved": 0}))
    });
    tell_missing(answer(Some(&project), figures.collect()), &missing)
}

/// Returns the user that the request names, and the limits of that user, or of the project.
async fn limits_of_request(call: &Call<dyn Authenticator>, action: &str, project: &str) -> Result<(Option<String>, Limits), ApiError> {
    check_project(call, action, project).await?;
    let user = query_of(&call.request, call.version)?;
    let limits = call.catalog.limits_of(project, user.as_deref()).await?.of_user();
    Ok((user, limits))
}

async fn defaults(call: Call<dyn Authenticator>, project: web::Path<String>) -> Answer {
    check_project(&call, "defaults", &project).await?;
    let limits = call.catalog.api.quota_class(&call.catalog.default_limits, DEFAULT_CLASS).await?;
    answer(Some(&project), visible(&limits, |resource| is_gone(resource, call.version)))
}

async fn update(call: Call<dyn Authenticator>, project: web::Path<String>, body: Document) -> Answer {
    check_project(&call, "update", &project).await?;
    let Call { request, catalog, version, .. } = call;
    let QuotaChange { force, limits } = UPDATE.read(version, &body).await?;
    let user = query_of(&request, version)?;
    let limits = stored(limits)?;
    if !force.0 {
        check_bounds(&catalog, &project, user.as_deref(), &limits).await?;
    }
    catalog.api.set_quotas(&project, user.as_deref(), limits).await?;
    let limits = catalog.limits_of(&project, user.as_deref()).await?.of_user();
    answer(None, visible(&limits, |resource| is_gone(resource, version)))
}

/// Answers 400 if a limit is below what is used, or below the limits of the project's users together, or if a user's limit is above what the
/// other users' limits leave of the project's.
async fn check_bounds(api: &Catalog, project: &str, user: Option<&str>, limits: &Limits) -> Result<(), ApiError> {
    let used = quota_usage::count(api, project, user).await?.usage;
    let of_project = api.limits_of(project, None).await?.project;
    let of_users = api.api.quotas_of_users(project).await?;
    for (resource, limit) in limits {
        let others = of_users.iter().filter(|(other, of, _)| of == resource && Some(other.as_str()) != user);
        let others: Vec<i64> = others.map(|(_, _, limit)| *limit).filter(|limit| *limit >= 0).collect();
        let used = used.get(resource.as_str()).copied().unwrap_or(0);
        let least = if user.is_some() { used } else { used.max(others.iter().sum()) };
        if endless(*limit) < least {
            return Err(bad_request(format!(
                "Quota limit {limit} for {resource} must be greater than or equal to already used and reserved {least}."
            )));
        }
        let most = left_by(of_project.get(resource).copied().unwrap_or(-1), &others);
        if user.is_some() && endless(*limit) > endless(most) {
            return Err(bad_request(format!("Quota limit {limit} for {resource} must be less than or equal to {most}.")));
        }
    }
    Ok(())
}

async fn delete(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, project: web::Path<String>) -> Answer {
    api.allow_on_project(&caller, "os_compute_api:os-quota-sets:delete", &project)?;
    let user = query_of(&request, version)?;
    api.api.delete_quotas(&project, user.as_deref()).await?;
    empty(StatusCode::ACCEPTED)
}

fn answer(project: Option<&str>, mut set: Map<String, Value>) -> Answer {
    if let Some(project) = project {
        set.insert("id".to_owned(), json!(project));
    }
    ok(&json!({"quota_set": set}))
}
