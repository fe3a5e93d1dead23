//! Read-only attachments of volumes. Servers make and remove them through the compute API.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::{failed, not_found, time};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::volume::Attachment;
use crate::services::volume::embedded::EmbeddedVolume;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/attachments").route(web::get().to(list)));
    cfg.service(web::resource("/attachments/detail").route(web::get().to(list_details)));
    cfg.service(web::resource("/attachments/{id}").route(web::get().to(show)));
}

async fn list(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let known: Vec<Value> = matching(&volumes, &caller, &query).await?.iter().map(summary).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": known})))
}

async fn list_details(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let known = matching(&volumes, &caller, &query).await?;
    let known: Vec<Value> = known.iter().map(|one| detail(one, caller.0.is_admin())).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": known})))
}

/// Returns the matching attachments of volumes that the caller may see.
async fn matching(volumes: &EmbeddedVolume, caller: &Caller, query: &BTreeMap<String, String>) -> Result<Vec<Attachment>, ApiError> {
    let all = caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let project = Some(caller.0.project_id.as_str()).filter(|_| !all);
    let known = volumes.list(project).await.map_err(failed)?;
    let is = |key: &str, value: String| query.get(key).is_none_or(|wanted| *wanted == value);
    let known = known.into_iter().flat_map(|volume| volume.attachments);
    let known = known.filter(|one| {
        is("volume_id", one.volume_id.to_string())
            && is("instance_id", one.server.to_string())
            && is("status", one.status.clone())
            && is("attach_status", one.status.clone())
    });
    Ok(known.collect())
}

async fn show(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let key = uuid::Uuid::parse_str(&id).map_err(|_| not_found("Volume attachment", &id))?;
    let attachment = volumes.own_attachment(&caller.0, key).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"attachment": detail(&attachment, caller.0.is_admin())})))
}

fn summary(attachment: &Attachment) -> Value {
    json!({
        "id": attachment.id,
        "volume_id": attachment.volume_id,
        "instance": attachment.server,
        "status": attachment.status,
    })
}

/// Describes an attachment. Only administrators see the connection, because it contains paths on hosts.
fn detail(attachment: &Attachment, with_connection: bool) -> Value {
    let mut body = summary(attachment);
    body["attach_mode"] = json!("rw");
    // In Cinder's answers an unset time is an empty text.
    body["attached_at"] = json!(attachment.attached_at.map(time).unwrap_or_default());
    body["detached_at"] = json!("");
    body["connection_info"] = if with_connection { attachment.connection_info.clone() } else { json!({}) };
    body
}
