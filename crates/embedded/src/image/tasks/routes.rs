//! The tasks of imports.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm};
use serde_json::{Value, json};

use crate::image::ImageService;
use crate::image::ImageTask;
use crate::image::routes::{Call, failed, image_id, time};
use crate::resource::Query;

/// The number of tasks in a page unless the query asks for another.
const PAGE: usize = 25;
/// The maximum number of tasks in a page.
const PAGE_MAX: usize = 1000;

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/tasks").route(web::get().to(of_image)))
        .service(web::resource("/v2/tasks").route(web::get().to(list)))
        .service(web::resource("/v2/tasks/{id}").route(web::get().to(show)));
}

async fn of_image(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let id = image_id(&id)?;
    call.service.visible_image(&call.caller.0, id).await.map_err(failed)?;
    let tasks: Vec<Value> = call.service.tasks_of(id).await.map_err(failed)?.iter().map(whole).collect();
    Ok(HttpResponse::Ok().json(json!({"tasks": tasks})))
}

async fn list(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    require_admin(&call.caller, "get_tasks")?;
    let refuse = |message: String| ApiError::new(ErrorForm::Image, StatusCode::BAD_REQUEST, message);
    let limit = match query.get("limit") {
        None => PAGE,
        Some(text) => text.parse().map_err(|_| refuse(format!("limit param must be an integer, not {text:.40}")))?,
    };
    let marker = match query.get("marker") {
        None => None,
        Some(id) => Some(call.service.find_task(id).await.map_err(failed)?),
    };
    let limit = limit.min(PAGE_MAX);
    let tasks = call.service.tasks(marker, limit).await.map_err(failed)?;
    let mut body = json!({
        "tasks": tasks.iter().map(brief).collect::<Vec<Value>>(), "schema": "/v2/schemas/tasks", "first": "/v2/tasks",
    });
    if let Some(last) = tasks.last().filter(|_| tasks.len() == limit) {
        body["next"] = json!(format!("/v2/tasks?marker={}&limit={limit}", last.id));
    }
    Ok(HttpResponse::Ok().json(body))
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin(&call.caller, "get_task")?;
    Ok(HttpResponse::Ok().json(whole(&call.service.find_task(&id).await.map_err(failed)?)))
}

fn require_admin(caller: &Caller, action: &str) -> Result<(), ApiError> {
    let message = format!("You are not authorized to complete {action} action.");
    if caller.0.is_admin() { Ok(()) } else { Err(ApiError::new(ErrorForm::Image, StatusCode::FORBIDDEN, message)) }
}

fn brief(task: &ImageTask) -> Value {
    json!({
        "id": task.id,
        "type": "api_image_import",
        "status": "success",
        "owner": task.owner,
        "image_id": task.image_id,
        "user_id": task.user_id,
        "request_id": task.request_id,
        "created_at": time(task.created_at),
        "updated_at": time(task.created_at),
        "expires_at": time(task.expires_at),
        "self": format!("/v2/tasks/{}", task.id),
        "schema": "/v2/schemas/task",
    })
}

fn whole(task: &ImageTask) -> Value {
    let mut view = brief(task);
    view["input"] = json!({"image_id": task.image_id, "import_req": {"method": {"name": task.method}}});
    view["result"] = json!({"image_id": task.image_id});
    view["message"] = json!("");
    view
}
