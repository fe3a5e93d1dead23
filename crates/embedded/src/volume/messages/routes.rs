//! Messages to users, from 3.3 on.

use actix_web::http::StatusCode;
use actix_web::web;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::resource::{self, Query, Shown, is};
use crate::volume::paging::{Listed, id_of, listed};
use crate::volume::routes::{Call, failed, links, not_found, require, time};
use crate::volume::{EmbeddedVolume, Message};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/messages").route(web::get().to(resource::list::<Message>)));
    let one = web::resource("/messages/{id}").route(web::get().to(resource::show::<Message>));
    cfg.service(one.route(web::delete().to(resource::delete::<Message>)));
}

/// The microversion that brought messages.
const FIRST: u16 = 3;
/// Cinder's identifier and text of this message.
const NO_BACKEND: (&str, &str) = ("VOLUME_VOLUME_001_003", "schedule allocate volume:Could not find any available weighted backend.");

listed! {
    Message, "Message",
    "request_id" => |one| one.request_id.clone(),
    "resource_uuid" => |one| one.volume_id.to_string(),
}

/// Parses an id in a path. Before the first microversion with messages there is none.
fn message_id(call: &Call, text: &str) -> Result<Uuid, ApiError> {
    if call.version.at_least(FIRST) { id_of::<Message>(text) } else { Err(not_found(Message::KIND, text)) }
}

impl Shown for Message {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "message";
    const COLLECTION: &'static str = "messages";
    const DELETED: StatusCode = StatusCode::NO_CONTENT;

    async fn list(call: &Call, query: &Query) -> Result<Vec<Message>, ApiError> {
        if !call.version.at_least(FIRST) {
            return Err(not_found("Resource", "messages"));
        }
        let mut messages = call.service.messages(&call.caller.0).await.map_err(failed)?;
        messages.retain(|message| {
            is(query, "resource_uuid", &message.volume_id.to_string())
                && is(query, "request_id", &message.request_id)
                && is(query, "resource_type", "VOLUME")
                && is(query, "message_level", "ERROR")
                && is(query, "event_id", NO_BACKEND.0)
        });
        Ok(messages)
    }

    async fn show(call: &Call, id: &str) -> Result<Message, ApiError> {
        call.service.message(&call.caller.0, message_id(call, id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require(&call.caller, "member")?;
        call.service.delete_message(&call.caller.0, message_id(call, id)?).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "event_id": NO_BACKEND.0,
            "user_message": NO_BACKEND.1,
            "message_level": "ERROR",
            "created_at": time(self.created_at),
            "guaranteed_until": time(self.guaranteed_until),
            "request_id": self.request_id,
            "resource_type": "VOLUME",
            "resource_uuid": self.volume_id,
            "links": links(&call.request, "messages", self.id),
        })
    }
}
