//! Users' access keys and secrets in the form of EC2 (`/users/{id}/credentials/OS-EC2`).

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::Ec2Credential;
use crate::identity::application_credentials::routes::{own_token, owns};
use crate::identity::rights::{reads_system, require};
use crate::identity::routes::{Call, collection, failed, link};
use crate::request_bodies::{RequestBody, bodies};

pub fn configure(cfg: &mut web::ServiceConfig) {
    let all = web::resource("/users/{user}/credentials/OS-EC2");
    cfg.service(all.route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/users/{user}/credentials/OS-EC2/{access}");
    cfg.service(one.route(web::get().to(show)).route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! { "identity POST /users/{}/credentials/OS-EC2" => Body };

#[derive(Deserialize, JsonSchema)]
struct Body {
    tenant_id: String,
}

async fn list(call: Call, user: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require("identity:ec2_list_credentials", owns(&call.caller, &user) || reads_system(&call.caller))?;
    let credentials = call.service.ec2_credentials(&user).await.map_err(failed)?;
    let credentials = credentials.iter().map(|one| render(&call.request, one)).collect();
    Ok(HttpResponse::Ok().json(collection(&call.request, "credentials", credentials)))
}

async fn create(call: Call, user: web::Path<String>, Json(Body { tenant_id }): Json<Body>) -> Result<HttpResponse, ApiError> {
    require("identity:ec2_create_credential", owns(&call.caller, &user) || call.caller.0.is_admin())?;
    let token = own_token(&call).await?;
    let credential = call.service.create_ec2_credential(token.as_ref(), &user, &tenant_id).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"credential": render(&call.request, &credential)})))
}

async fn show(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (user, access) = path.into_inner();
    require("identity:ec2_get_credential", owns(&call.caller, &user) || reads_system(&call.caller))?;
    let credential = call.service.ec2_credential(&user, &access).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"credential": render(&call.request, &credential)})))
}

async fn delete(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (user, access) = path.into_inner();
    require("identity:ec2_delete_credential", owns(&call.caller, &user) || call.caller.0.is_admin())?;
    let token = own_token(&call).await?;
    call.service.delete_ec2_credential(token.as_ref(), &user, &access).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(request: &HttpRequest, one: &Ec2Credential) -> Value {
    json!({
        "user_id": one.user_id,
        "tenant_id": one.project_id,
        "access": one.access,
        "secret": one.secret,
        "trust_id": null,
        "links": link(request, &format!("users/{}/credentials/OS-EC2/{}", one.user_id, one.access)),
    })
}
