//! `/flavors`: the sizes of servers, and the projects that may use them.

mod access;
mod extra_specs;
mod list;
mod view;

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, empty, no_such_resource, not_found, ok};
use super::body::rules::{Name, rules};
use super::body::{ALWAYS, Body, Flag, Integer};
use super::catalog::Catalog;
use super::query::Query;
use super::schema::Schema;
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
        let is_visible = record.flavor.is_public || self.is_admin(caller) || self.api.may_use_flavor(id, &caller.0.project_id).await?;
        if is_visible { Ok(record) } else { Err(not_found(format!("Flavor {id} could not be found."))) }
    }
}

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[
    ("POST /flavors", &CREATE.schema),
    ("PUT /flavors/{}", &UPDATE.schema),
    ("POST /flavors/{}/action#addTenantAccess", &access::ADD.schema),
    ("POST /flavors/{}/action#removeTenantAccess", &access::REMOVE.schema),
    ("POST /flavors/{}/os-extra_specs", &extra_specs::CREATE.schema),
    ("PUT /flavors/{}/os-extra_specs/{}", &extra_specs::UPDATE.schema),
];

static CREATE: Body<NewFlavor> = Body::within("flavor", &[1, 55, 102]);
static UPDATE: Body<FlavorChange> = Body::within("flavor", ALWAYS);

rules! {
    /// An id that the caller chooses; null for one that is made here.
    FlavorId = json!({"type": ["string", "number", "null"], "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )$"});
    /// A description, or null.
    Description = json!({"type": ["string", "null"], "maxLength": 65535, "pattern": r"^[^\p{C}]*$"});
    /// The factor of a network's rate, which is kept and shown.
    RxtxFactor = json!({"type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?$", "minimum": 0, "exclusiveMinimum": true, "maximum": 3.40282e38});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewFlavor {
    #[schemars(with = "Name")]
    name: String,
    #[serde(default)]
    #[schemars(with = "FlavorId")]
    id: Value,
    ram: Integer<1>,
    vcpus: Integer<1>,
    disk: Integer<0>,
    #[serde(default, rename = "OS-FLV-EXT-DATA:ephemeral")]
    ephemeral: Integer<0>,
    #[serde(default)]
    swap: Integer<0>,
    #[serde(default, rename = "os-flavor-access:is_public")]
    #[schemars(with = "Flag")]
    is_public: Option<Flag>,
    #[serde(default)]
    #[schemars(with = "Description", extend("since" = 55))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(with = "RxtxFactor", extend("until" = 102))]
    rxtx_factor: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlavorChange {
    #[schemars(with = "Description")]
    description: Option<String>,
}

async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-manage:create")?;
    let new = CREATE.read(version, &body).await?;
    let factor = new.rxtx_factor.clone();
    let flavor = new.flavor(|| api.env.uuid().to_string())?;
    let record = api.api.create_flavor_with_factor(flavor, rxtx_factor(factor)?).await?;
    ok(&json!({"flavor": view::full(&request, version, &record, view::shows_extra_specs(&api, &caller, version))}))
}

impl NewFlavor {
    fn flavor(self, new_id: impl FnOnce() -> String) -> Result<Flavor, ApiError> {
        let id = match self.id {
            Value::Null => new_id(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(Flavor {
            id,
            name: self.name,
            vcpus: self.vcpus.stored("vcpus")?,
            memory_mb: self.ram.stored("ram")?,
            root_gb: self.disk.stored("disk")?,
            ephemeral_gb: self.ephemeral.stored("OS-FLV-EXT-DATA:ephemeral")?,
            swap_mb: self.swap.stored("swap")?,
            extra_specs: BTreeMap::new(),
            is_public: self.is_public.is_none_or(|flag| flag.0),
            disabled: false,
            description: self.description,
        })
    }
}

fn rxtx_factor(factor: Option<Value>) -> Result<f64, ApiError> {
    let factor = match factor {
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
    let change = UPDATE.read(version, &body).await?;
    let record = api.api.set_flavor_description(&id, change.description).await?;
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
