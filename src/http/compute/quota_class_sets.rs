//! `/os-quota-class-sets`: default quotas. Only the class `default` has an effect.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answer, bad_request, ok};
use super::body::Body;
use super::body::rules::rules;
use super::catalog::Catalog;
use super::query::Query;
use super::quota_sets::{is_gone, settable, stored, visible};
use super::schema::Schema;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/os-quota-class-sets/{class}").route(web::get().to(show)).route(web::put().to(update)));
}

const GROUPS: &[&str] = &["server_groups", "server_group_members"];

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("PUT /os-quota-class-sets/{}", &UPDATE.schema)];

static UPDATE: Body<ClassLimits> = Body::within("quota_class_set", &[1, 50, 57]);

rules! {
    /// The limits of a class.
    ClassSet = settable(50);
}

#[derive(Deserialize, JsonSchema)]
struct ClassLimits(#[schemars(with = "ClassSet")] BTreeMap<String, Value>);

/// True for keys that an answer leaves out. Version 2.50 added groups to answers and removed network resources; groups could be set before.
fn unshown(resource: &str, version: ApiVersion) -> bool {
    match version.at_least(50) {
        true => is_gone(resource, version),
        false => GROUPS.contains(&resource),
    }
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, class: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-quota-class-sets:show")?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let mut set = shown(&api, &class, version).await?;
    set.insert("id".to_owned(), json!(class.as_str()));
    ok(&json!({"quota_class_set": set}))
}

async fn update(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, class: web::Path<String>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-quota-class-sets:update")?;
    if class.len() > 255 {
        return Err(bad_request("quota_class_name has more than 255 characters."));
    }
    let ClassLimits(limits) = UPDATE.read(version, &body).await?;
    api.api.set_quota_class(&class, stored(limits)?).await?;
    ok(&json!({"quota_class_set": shown(&api, &class, version).await?}))
}

async fn shown(api: &Catalog, class: &str, version: ApiVersion) -> Result<Map<String, Value>, ApiError> {
    let limits = api.api.quota_class(&api.default_limits, class).await?;
    Ok(visible(&limits, |resource| unshown(resource, version)))
}
