//! The attachments of volumes, for reading: those that servers have through the compute API, and those that users have recorded.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::{failed, not_found, time};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::volume::embedded::EmbeddedVolume;
use crate::services::volume::{AttachMode, Attachment, DirectAttachment};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/attachments").route(web::get().to(list)));
    cfg.service(web::resource("/attachments/detail").route(web::get().to(list_details)));
    cfg.service(web::resource("/attachments/{id}").route(web::get().to(show)));
}

/// An attachment of either kind.
enum Known {
    ByCompute(Attachment),
    Directly(DirectAttachment),
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
async fn matching(volumes: &EmbeddedVolume, caller: &Caller, query: &BTreeMap<String, String>) -> Result<Vec<Known>, ApiError> {
    let all = caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let project = Some(caller.0.project_id.as_str()).filter(|_| !all);
    let known = volumes.list(project).await.map_err(failed)?;
    let known = known.into_iter().flat_map(|volume| {
        let by_compute = volume.attachments.into_iter().map(Known::ByCompute);
        by_compute.chain(volume.direct_attachments.into_iter().map(Known::Directly))
    });
    let is = |one: &Value, parameter: &str, key: &str| query.get(parameter).is_none_or(|wanted| one[key].as_str() == Some(wanted));
    let asked = |one: &Known| {
        let one = summary(one);
        is(&one, "volume_id", "volume_id")
            && is(&one, "instance_id", "instance")
            && is(&one, "status", "status")
            && is(&one, "attach_status", "status")
    };
    Ok(known.filter(asked).collect())
}

async fn show(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let key = uuid::Uuid::parse_str(&id).map_err(|_| not_found("Volume attachment", &id))?;
    let known = match volumes.own_direct_attachment(&caller.0, key).await.map_err(failed)? {
        Some(attachment) => Known::Directly(attachment),
        None => Known::ByCompute(volumes.own_attachment(&caller.0, key).await.map_err(failed)?),
    };
    Ok(HttpResponse::Ok().json(json!({"attachment": detail(&known, caller.0.is_admin())})))
}

fn summary(attachment: &Known) -> Value {
    match attachment {
        Known::ByCompute(one) => json!({"id": one.id, "volume_id": one.volume_id, "instance": one.server, "status": one.status}),
        Known::Directly(one) => json!({"id": one.id, "volume_id": one.volume_id, "instance": one.server, "status": "attached"}),
    }
}

/// Describes an attachment. Only administrators see the connection, because it contains paths on hosts.
fn detail(attachment: &Known, with_connection: bool) -> Value {
    let mut body = summary(attachment);
    let (mode, attached_at, connection) = match attachment {
        Known::ByCompute(one) => (AttachMode::default(), one.attached_at, one.connection_info.clone()),
        Known::Directly(one) => (one.mode, Some(one.attached_at), json!({})),
    };
    body["attach_mode"] = json!(mode);
    // In Cinder's answers an unset time is an empty text.
    body["attached_at"] = json!(attached_at.map(time).unwrap_or_default());
    body["detached_at"] = json!("");
    body["connection_info"] = if with_connection { connection } else { json!({}) };
    body
}
