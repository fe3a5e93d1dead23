//! Regions: the one that is built in, and those that administrators add.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::rights::require_admin;
use crate::identity::routes::{bad_request, collection, failed, given, link, not_found};
use crate::identity::{EmbeddedIdentity, Region, RegionFields};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/regions").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/regions/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::put().to(create_with_id)).route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[
    ("identity POST /regions", of_type::<Body>),
    ("identity PATCH /regions/{}", of_type::<Body>),
    ("identity PUT /regions/{}", of_type::<Body>),
];

#[derive(Deserialize, JsonSchema)]
struct Body {
    region: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    id: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "given")]
    parent_region_id: Option<Option<String>>,
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    _: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let mut regions = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.regions;
    let parent = query.get("parent_region_id");
    regions.retain(|region| parent.is_none() || region.parent_region_id.as_ref() == parent);
    let regions = regions.iter().map(|region| render(&request, region)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "regions", regions)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    _: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let regions = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.regions;
    let region = regions.iter().find(|region| region.id == *id).ok_or_else(|| not_found("region", &id))?;
    Ok(HttpResponse::Ok().json(json!({"region": render(&request, region)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { region }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_region", &caller)?;
    let fields = RegionFields { description: region.description, parent_region_id: region.parent_region_id };
    let created = identity.create_region(region.id, fields).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"region": render(&request, &created)})))
}

/// Answers 400 to a body that names another region than its path.
fn keeps_id(region: &Fields, id: &str) -> Result<(), ApiError> {
    match &region.id {
        Some(other) if other != id => Err(bad_request("Invalid input for field 'id': it differs from the id in the path.")),
        _ => Ok(()),
    }
}

/// Makes a region with the id of the path.
async fn create_with_id(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { region }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_region", &caller)?;
    keeps_id(&region, &id)?;
    let fields = RegionFields { description: region.description, parent_region_id: region.parent_region_id };
    let created = identity.create_region(Some(id.into_inner()), fields).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"region": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { region }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_region", &caller)?;
    keeps_id(&region, &id)?;
    let fields = RegionFields { description: region.description, parent_region_id: region.parent_region_id };
    let updated = identity.update_region(&id, fields).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"region": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_region", &caller)?;
    identity.delete_region(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(request: &HttpRequest, region: &Region) -> Value {
    json!({
        "id": region.id,
        "description": region.description,
        "parent_region_id": region.parent_region_id,
        "links": link(request, &format!("regions/{}", region.id)),
    })
}
