//! `/flavors`: the sizes of servers, and the projects that may use them.

mod access;
mod extra_specs;
mod list;
mod view;

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, empty, no_such_resource, not_found, ok};
use super::catalog::Catalog;
use super::query::Query;
use super::schema::{self, Schema, as_bool, as_integer};
use crate::db::DbError;
use crate::domain::flavor::{Flavor, FlavorRecord};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/flavors").route(web::get().to(list::brief)).route(web::post().to(create)))
        .service(web::resource("/flavors/detail").route(web::get().to(list::detailed)))
        .service(web::resource("/flavors/{id}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)))
        .service(
            web::resource("/flavors/{id}/os-extra_specs")
                .route(web::get().to(extra_specs::list))
                .route(web::post().to(extra_specs::create)),
        )
        .service(
            web::resource("/flavors/{id}/os-extra_specs/{key}")
                .route(web::get().to(extra_specs::show))
                .route(web::put().to(extra_specs::update))
                .route(web::delete().to(extra_specs::delete)),
        )
        .service(web::resource("/flavors/{id}/os-flavor-access").route(web::get().to(access::list)))
        .service(web::resource("/flavors/{id}/action").route(web::post().to(access::action)));
}

impl Catalog {
    /// Returns the flavor if the caller may know of it, else 404.
    async fn visible_flavor(&self, caller: &Caller, id: &str) -> Result<FlavorRecord, ApiError> {
        let record = self.api.flavor(id).await?;
        let known = record.flavor.is_public || self.is_admin(caller) || self.api.may_use_flavor(id, &caller.0.project_id).await?;
        if known { Ok(record) } else { Err(not_found(format!("Flavor {id} could not be found."))) }
    }
}

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[
    ("POST /flavors", &CREATE),
    ("PUT /flavors/{}", &UPDATE),
    ("POST /flavors/{}/action#addTenantAccess", &access::ADD),
    ("POST /flavors/{}/action#removeTenantAccess", &access::REMOVE),
    ("POST /flavors/{}/os-extra_specs", &extra_specs::CREATE),
    ("PUT /flavors/{}/os-extra_specs/{}", &extra_specs::UPDATE),
];

static CREATE: Schema = Schema::new(&[1, 55, 102], |minor| create_schema(minor >= 55, minor < 102));
static UPDATE: Schema =
    Schema::fixed(|_| schema::wrapped("flavor", &schema::object(&json!({"description": description()}), &["description"])));

fn description() -> Value {
    json!({"type": ["string", "null"], "maxLength": 65535, "pattern": r"^[^\p{C}]*$"})
}

fn create_schema(described: bool, rxtx: bool) -> Value {
    let mut flavor = json!({
        "name": schema::name(),
        "id": {"type": ["string", "number", "null"], "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )$"},
        "ram": schema::integer(1),
        "vcpus": schema::integer(1),
        "disk": schema::integer(0),
        "OS-FLV-EXT-DATA:ephemeral": schema::integer(0),
        "swap": schema::integer(0),
        "os-flavor-access:is_public": schema::boolean(),
    });
    if described {
        flavor["description"] = description();
    }
    if rxtx {
        flavor["rxtx_factor"] = json!({"type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?$", "minimum": 0, "exclusiveMinimum": true, "maximum": 3.40282e38});
    }
    schema::wrapped("flavor", &schema::object(&flavor, &["name", "ram", "vcpus", "disk"]))
}

async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-manage:create")?;
    CREATE.check(version, &body).await?;
    let flavor = asked_for(&body["flavor"], || api.env.uuid().to_string())?;
    let record = api.api.create_flavor_with_factor(flavor, rxtx_factor(&body["flavor"])?).await?;
    ok(&json!({"flavor": view::full(&request, version, &record, view::shows_extra_specs(&api, &caller, version))}))
}

fn asked_for(body: &Value, new_id: impl FnOnce() -> String) -> Result<Flavor, ApiError> {
    let number = |field: &str| body.get(field).map_or(Ok(0), |value| as_integer(value, field));
    let id = match body.get("id") {
        None | Some(Value::Null) => new_id(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    Ok(Flavor {
        id,
        name: body["name"].as_str().unwrap_or_default().to_owned(),
        vcpus: number("vcpus")?,
        memory_mb: number("ram")?,
        root_gb: number("disk")?,
        ephemeral_gb: number("OS-FLV-EXT-DATA:ephemeral")?,
        swap_mb: number("swap")?,
        extra_specs: BTreeMap::new(),
        is_public: body.get("os-flavor-access:is_public").is_none_or(as_bool),
        disabled: false,
        description: body.get("description").and_then(Value::as_str).map(str::to_owned),
    })
}

fn rxtx_factor(body: &Value) -> Result<f64, ApiError> {
    let factor = match body.get("rxtx_factor") {
        None => Some(1.0),
        Some(Value::String(text)) => text.parse::<f64>().ok(),
        Some(number) => number.as_f64(),
    };
    factor.filter(|factor| *factor > 0.0 && factor.is_finite()).ok_or_else(|| bad_request("Invalid input for field/attribute rxtx_factor."))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let record = api.visible_flavor(&caller, &id).await?;
    ok(&json!({"flavor": view::full(&request, version, &record, view::shows_extra_specs(&api, &caller, version))}))
}

async fn update(
    caller: Caller,
    version: ApiVersion,
    api: web::Data<Catalog>,
    request: HttpRequest,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    if version.at_most(54) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-flavor-manage:update")?;
    UPDATE.check(version, &body).await?;
    let description = body["flavor"]["description"].as_str().map(str::to_owned);
    let record = api.api.set_flavor_description(&id, description).await?;
    ok(&json!({"flavor": view::full(&request, version, &record, view::shows_extra_specs(&api, &caller, version))}))
}

async fn delete(caller: Caller, api: web::Data<Catalog>, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-manage:delete")?;
    api.api.delete_flavor(&id).await?;
    empty(StatusCode::ACCEPTED)
}

/// Returns the extra specs without `key`. [`DbError::NotFound`] with Nova's message if the flavor does not have it.
fn without(mut specs: BTreeMap<String, String>, flavor: &str, key: &str) -> Result<BTreeMap<String, String>, DbError> {
    match specs.remove(key) {
        Some(_) => Ok(specs),
        None => Err(DbError::NotFound(format!("Flavor {flavor} extra spec {key}"))),
    }
}
