//! `/flavors/{id}/os-extra_specs`: a flavor's demands on hosts.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::without;
use crate::db::DbError;
use crate::domain::reason;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, empty, not_found, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

pub(super) static CREATE: Body<NewSpecs> = Body::within("extra_specs", ALWAYS);
pub(super) static UPDATE: Body<NewSpec> = Body::whole(ALWAYS);

/// The maximum number of a flavor's extra specs.
const MOST: usize = 128;
/// The maximum length of a key and of a value, in characters.
const LONGEST: usize = 255;

rules! {
    /// As many extra specs as a flavor may have.
    ManySpecs = specs(MOST);
    /// A single extra spec.
    OneSpec = specs(1);
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewSpecs(#[schemars(with = "ManySpecs")] BTreeMap<String, Value>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewSpec(#[schemars(with = "OneSpec")] BTreeMap<String, Value>);

fn specs(most: usize) -> Value {
    json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": ["string", "number"], "maxLength": 255}},
        "additionalProperties": false,
        "maxProperties": most,
    })
}

/// Returns the values in their stored form, numbers as digits.
fn texts(specs: &BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, ApiError> {
    let text = |(key, value): (&String, &Value)| match value.as_str().map_or_else(|| value.to_string(), str::to_owned) {
        // The schema limits the length of texts but not of numbers.
        digits if digits.chars().nth(LONGEST).is_some() => {
            Err(bad_request(format!("The value of {key} has more than {LONGEST} characters.")))
        }
        text => Ok((key.clone(), text)),
    };
    specs.iter().map(text).collect()
}

/// Answers `GET`.
pub async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-extra-specs:index")?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    ok(&json!({"extra_specs": api.visible_flavor(&caller, &id).await?.flavor.extra_specs}))
}

/// Answers `GET …/{key}`.
pub async fn show(caller: Caller, api: web::Data<Catalog>, path: web::Path<(String, String)>) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-extra-specs:show")?;
    let (id, key) = path.into_inner();
    let record = api.visible_flavor(&caller, &id).await?;
    match record.flavor.extra_specs.get(&key) {
        Some(value) => ok(&json!({ key: value })),
        None => Err(not_found(format!("Flavor {id} has no extra specs with key {key}."))),
    }
}

/// Answers `POST`: sets the given specs and leaves the others.
pub async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-extra-specs:create")?;
    let NewSpecs(specs) = CREATE.read(version, &body).await?;
    merge(&api, &id, texts(&specs)?).await?;
    ok(&*body)
}

/// Answers `PUT …/{key}`.
pub async fn update(
    caller: Caller,
    version: ApiVersion,
    api: web::Data<Catalog>,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-extra-specs:update")?;
    let NewSpec(specs) = UPDATE.read(version, &body).await?;
    let (id, key) = path.into_inner();
    if !specs.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch"));
    }
    merge(&api, &id, texts(&specs)?).await?;
    ok(&*body)
}

async fn merge(api: &Catalog, id: &str, new: BTreeMap<String, String>) -> Result<(), ApiError> {
    let flavor = id.to_owned();
    let edited = api
        .api
        .edit_extra_specs(id, move |mut specs| {
            specs.extend(new);
            match specs.len() {
                0..=MOST => Ok(specs),
                _ => Err(DbError::Conflict(reason!("Flavor {flavor} would have more than {MOST} extra specs."))),
            }
        })
        .await;
    match edited {
        Err(DbError::Conflict(why)) => Err(bad_request(why)),
        edited => Ok(edited.map(|_| ())?),
    }
}

/// Answers `DELETE …/{key}`.
pub async fn delete(caller: Caller, api: web::Data<Catalog>, path: web::Path<(String, String)>) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-extra-specs:delete")?;
    let (id, key) = path.into_inner();
    let flavor = id.clone();
    api.api.edit_extra_specs(&id, move |specs| without(specs, &flavor, &key)).await?;
    empty(StatusCode::OK)
}
