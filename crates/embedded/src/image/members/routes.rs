//! The projects with which an image is shared.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::image::ImageMember;
use crate::image::routes::{Call, failed, image_id, time};
use crate::request_bodies::{RequestBody, bodies};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/members").route(web::get().to(list)).route(web::post().to(add)));
    let one = web::resource("/v2/images/{id}/members/{member}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(remove)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "image POST /v2/images/{}/members" => NewMember,
    "image PUT /v2/images/{}/members/{}" => Status,
};

#[derive(Deserialize, JsonSchema)]
struct NewMember {
    member: String,
}

#[derive(Deserialize, JsonSchema)]
struct Status {
    status: String,
}

async fn list(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let members = call.service.members(&call.caller.0, image_id(&id)?).await.map_err(failed)?;
    let members: Vec<Value> = members.iter().map(render).collect();
    Ok(HttpResponse::Ok().json(json!({"members": members, "schema": "/v2/schemas/members"})))
}

async fn add(call: Call, id: web::Path<String>, Json(body): Json<NewMember>) -> Result<HttpResponse, ApiError> {
    let member = call.service.add_member(&call.caller.0, image_id(&id)?, &body.member).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(render(&member)))
}

async fn show(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, member_id) = path.into_inner();
    let members = call.service.members(&call.caller.0, image_id(&id)?).await.map_err(failed)?;
    let member = members.iter().find(|member| member.member_id == member_id);
    let missing = || ApiError::new(ErrorForm::Image, StatusCode::NOT_FOUND, format!("{member_id} is no member of image {id}."));
    Ok(HttpResponse::Ok().json(render(member.ok_or_else(missing)?)))
}

async fn update(call: Call, path: web::Path<(String, String)>, Json(body): Json<Status>) -> Result<HttpResponse, ApiError> {
    let (id, member) = path.into_inner();
    let member = call.service.set_member_status(&call.caller.0, image_id(&id)?, &member, &body.status).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(render(&member)))
}

async fn remove(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, member) = path.into_inner();
    call.service.remove_member(&call.caller.0, image_id(&id)?, &member).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(member: &ImageMember) -> Value {
    json!({
        "member_id": member.member_id,
        "image_id": member.image_id,
        "status": member.status,
        "created_at": time(member.created_at),
        "updated_at": time(member.updated_at),
        "schema": "/v2/schemas/member",
    })
}
