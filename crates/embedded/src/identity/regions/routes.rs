//! The API's view of regions, and who may read and change them. A region can also be created with the id of its path.

use actix_web::{HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fields;
use crate::identity::rights::require_admin;
use crate::identity::routes::{Call, bad_request, failed, link, not_found};
use crate::identity::{EmbeddedIdentity, Region};
use crate::request_bodies::{RequestBody, of_type};
use crate::resource::{self, Editable, Query, Shown};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(resource::all::<Region>()).service(resource::one::<Region>().route(web::put().to(create_with_id)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[
    ("identity POST /regions", of_type::<Body>),
    ("identity PATCH /regions/{}", of_type::<Body>),
    ("identity PUT /regions/{}", of_type::<Body>),
];

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    region: Fields,
}

impl Shown for Region {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "region";
    const COLLECTION: &'static str = "regions";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Region>, ApiError> {
        let mut regions = call.service.catalog(&base_url::of(&call.request)).await.map_err(failed)?.regions;
        let parent = query.get("parent_region_id");
        regions.retain(|region| parent.is_none() || region.parent_region_id.as_ref() == parent);
        Ok(regions)
    }

    async fn show(call: &Call, id: &str) -> Result<Region, ApiError> {
        let regions = call.service.catalog(&base_url::of(&call.request)).await.map_err(failed)?.regions;
        regions.into_iter().find(|region| region.id == id).ok_or_else(|| not_found("region", id))
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require_admin("identity:delete_region", &call.caller)?;
        call.service.delete_region(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "description": self.description,
            "parent_region_id": self.parent_region_id,
            "links": link(&call.request, &format!("regions/{}", self.id)),
        })
    }
}

impl Editable for Region {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { region }: Body) -> Result<Region, ApiError> {
        require_admin("identity:create_region", &call.caller)?;
        call.service.create_region(region).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { region }: Body) -> Result<Region, ApiError> {
        require_admin("identity:update_region", &call.caller)?;
        keeps_id(&region, id)?;
        call.service.update_region(id, region).await.map_err(failed)
    }
}

/// Creates a region with the id of the path.
async fn create_with_id(call: Call, id: web::Path<String>, Json(Body { region }): Json<Body>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_region", &call.caller)?;
    keeps_id(&region, &id)?;
    let region = Fields { id: Some(id.into_inner()), ..region };
    let created = call.service.create_region(region).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(created.body(&call)))
}

/// Answers 400 to a body that names another region than its path.
fn keeps_id(region: &Fields, id: &str) -> Result<(), ApiError> {
    match &region.id {
        Some(other) if other != id => Err(bad_request("Invalid input for field 'id': it differs from the id in the path.")),
        _ => Ok(()),
    }
}
