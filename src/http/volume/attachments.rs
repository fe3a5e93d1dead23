//! Attachments, to look at: who holds which volume from where. Servers make and end them through the compute API.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::{failed, not_found, time};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::volume::Attachment;
use crate::services::volume::embedded::EmbeddedVolume;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    for path in ["/attachments", "/attachments/detail"] {
        cfg.service(web::resource(path).route(web::get().to(list)));
    }
    cfg.service(web::resource("/attachments/{id}").route(web::get().to(show)));
}

async fn list(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let all = caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let project = Some(caller.0.project_id.as_str()).filter(|_| !all);
    let known = volumes.list(project).await.map_err(failed)?;
    let is = |key: &str, value: String| query.get(key).is_none_or(|wanted| *wanted == value);
    let known = known.iter().flat_map(|volume| &volume.attachments);
    let known = known.filter(|one| is("volume_id", one.volume_id.to_string()) && is("instance_id", one.server.to_string()));
    let known: Vec<Value> = known.map(|one| render(one, false)).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": known})))
}

async fn show(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let key = uuid::Uuid::parse_str(&id).map_err(|_| not_found("Volume attachment", &id))?;
    let attachment = volumes.own_attachment(&caller.0, key).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"attachment": render(&attachment, caller.0.is_admin())})))
}

/// The connection tells paths on hosts, so it is for administrators.
fn render(attachment: &Attachment, with_connection: bool) -> Value {
    let mut body = json!({
        "id": attachment.id,
        "volume_id": attachment.volume_id,
        "instance": attachment.server,
        "status": attachment.status,
        "attach_mode": "rw",
        "attached_at": attachment.attached_at.map(time),
        "detached_at": null,
    });
    if with_connection {
        body["connection_info"] = attachment.connection_info.clone();
    }
    body
}
