//! The API's view of regions, and who may read and change them. A region can also be created with the id of its path.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fields;
use crate::identity::Region;
use crate::identity::catalog::routes::{editable, shown, whole};
use crate::identity::rights::{anybody, require, require_admin};
use crate::identity::routes::{Call, bad_request, failed, link, not_found};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Editable, Query, Shown};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(resource::all::<Region>()).service(resource::one::<Region>().route(web::put().to(create_with_id)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /regions" => Body,
    "identity PATCH /regions/{}" => Body,
    "identity PUT /regions/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    region: Fields,
}

impl Shown for Region {
    async fn list(call: &Call, query: &Query) -> Result<Vec<Region>, ApiError> {
        let mut regions = whole(call).await?.regions;
        let parent = query.get("parent_region_id");
        regions.retain(|region| parent.is_none() || region.parent_region_id.as_ref() == parent);
        Ok(regions)
    }

    shown!(Region, "region" in regions, reads: anybody, delete: delete_region);

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "description": self.description,
            "parent_region_id": self.parent_region_id,
            "links": link(&call.request, &format!("regions/{}", self.id)),
        })
    }
}

editable!(Region, "region", field: region, create: create_region, update: update_region, check: keeps_id);

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
