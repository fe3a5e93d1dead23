//! Messages to users, from 3.3 on.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::volume::paging::{self, Listed, Query, SortValue};
use crate::volume::routes::{failed, not_found, require, time};
use crate::volume::{EmbeddedVolume, Message};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/messages").route(web::get().to(list)));
    cfg.service(web::resource("/messages/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

/// The microversion that brought messages.
const FIRST: u16 = 3;
/// Cinder's identifier and text of this message.
const NO_BACKEND: (&str, &str) = ("VOLUME_VOLUME_001_003", "schedule allocate volume:Could not find any available weighted backend.");

impl Listed for Message {
    const COLLECTION: &'static str = "messages";
    const KIND: &'static str = "Message";

    fn id(&self) -> Uuid {
        self.id
    }

    fn sort_value(key: &str) -> Option<SortValue<Message>> {
        match key {
            "id" => Some(|one| one.id.to_string()),
            "request_id" => Some(|one| one.request_id.clone()),
            "resource_uuid" => Some(|one| one.volume_id.to_string()),
            "created_at" => Some(|one| time(one.created_at)),
            _ => None,
        }
    }
}

/// Parses an id in a path. Before the first microversion with messages there is none.
fn message_id(version: ApiVersion, text: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::parse_str(text).ok().filter(|_| version.at_least(FIRST));
    id.ok_or_else(|| not_found("Message", text))
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    if !version.at_least(FIRST) {
        return Err(not_found("Resource", "messages"));
    }
    let mut known = volumes.messages(&caller.0).await.map_err(failed)?;
    known.retain(|one| {
        paging::is(&query, "resource_uuid", &one.volume_id.to_string())
            && paging::is(&query, "request_id", &one.request_id)
            && paging::is(&query, "resource_type", "VOLUME")
            && paging::is(&query, "message_level", "ERROR")
            && paging::is(&query, "event_id", NO_BACKEND.0)
    });
    let page = paging::page(known, &query)?;
    let shown = page.entries.iter().map(|one| view(&request, one)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

async fn show(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let message = volumes.message(&caller.0, message_id(version, &id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"message": view(&request, &message)})))
}

async fn delete(
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    volumes.delete_message(&caller.0, message_id(version, &id)?).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn view(request: &HttpRequest, message: &Message) -> Value {
    let (base, id) = (base_url::of(request), message.id);
    json!({
        "id": id,
        "event_id": NO_BACKEND.0,
        "user_message": NO_BACKEND.1,
        "message_level": "ERROR",
        "created_at": time(message.created_at),
        "guaranteed_until": time(message.guaranteed_until),
        "request_id": message.request_id,
        "resource_type": "VOLUME",
        "resource_uuid": message.volume_id,
        "links": [
            {"rel": "self", "href": format!("{base}/volume/v3/messages/{id}")},
            {"rel": "bookmark", "href": format!("{base}/volume/messages/{id}")},
        ],
    })
}
