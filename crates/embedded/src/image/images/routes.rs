//! Lists, makes, shows, changes (by JSON patch) and deletes images.

use actix_web::{HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::{Json, Unread, unsupported};
use serde_json::{Map, Value, json};

use super::attributes::{self, Operation, Step};
use super::listing;
use crate::image::ImageService;
use crate::image::routes::{Call, failed, image_id};
use crate::request_bodies::{RequestBody, of_type};

/// The forms of patches: that of RFC 6902, and the older one.
const PATCH_TYPE: &str = "application/openstack-images-v2.1-json-patch";
const OLDER_PATCH_TYPE: &str = "application/openstack-images-v2.0-json-patch";

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] =
    &[("image POST /v2/images", attributes::fields_of_new), ("image PATCH /v2/images/{}", of_type::<Vec<Operation>>)];

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/v2/images/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

async fn list(call: Call, query: web::Query<Vec<(String, String)>>) -> Result<HttpResponse, ApiError> {
    let listing_query = listing::read(query.into_inner())?;
    let images = call.service.list(&call.caller.0, listing_query.filter.clone()).await.map_err(failed)?;
    let (page, next) = listing::page(images, &listing_query)?;
    let page: Vec<Value> = page.iter().map(attributes::render).collect();
    let mut body = json!({"images": page, "schema": "/v2/schemas/images", "first": listing_query.link(None)});
    if let Some(marker) = next {
        body["next"] = json!(listing_query.link(Some(marker)));
    }
    Ok(HttpResponse::Ok().json(body))
}

async fn create(call: Call, Json(body): Json<Map<String, Value>>) -> Result<HttpResponse, ApiError> {
    let new = attributes::read_new(body).map_err(failed)?;
    let image = call.service.create(&call.caller.0, new).await.map_err(failed)?;
    let location = format!("{}/image/v2/images/{}", base_url::of(&call.request), image.id);
    Ok(HttpResponse::Created().insert_header(("Location", location)).json(attributes::render(&image)))
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let image = call.service.visible_image(&call.caller.0, image_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(attributes::render(&image)))
}

async fn update(call: Call, id: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    let is_older = match body.media_type() {
        Some(PATCH_TYPE) => false,
        Some(OLDER_PATCH_TYPE) => true,
        other => return Err(unsupported(ErrorForm::Image, other, PATCH_TYPE)),
    };
    let patch: Vec<Step> = body.parsed().await?;
    let steps = patch.into_iter().map(|step| step.operation(is_older)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let change = move |image: &mut _| steps.into_iter().try_for_each(|operation| attributes::apply(operation, image));
    let image = call.service.update(&call.caller.0, image_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(attributes::render(&image)))
}

async fn delete(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.service.delete_own(&call.caller.0, image_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}
