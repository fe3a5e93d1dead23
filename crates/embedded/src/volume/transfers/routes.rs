//! Transfers of volumes between projects: `/os-volume-transfer`, and `/volume-transfers` from 3.55.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Query, Shown, is};
use crate::volume::paging::{self, id_of, listed};
use crate::volume::routes::{Call, bad_request, failed, links, not_found, require, time};
use crate::volume::{EmbeddedVolume, Transfer, fields};

/// The path in all microversions.
const OLD: &str = "os-volume-transfer";
/// The path from 3.55.
const NEW: &str = "volume-transfers";
/// The microversion with the new path and `no_snapshots`.
const WITH_SNAPSHOTS: u16 = 55;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    for path in [OLD, NEW] {
        cfg.service(web::resource(format!("/{path}")).route(web::get().to(resource::list::<Transfer>)).route(web::post().to(create)));
        cfg.service(web::resource(format!("/{path}/detail")).route(web::get().to(resource::list_details::<Transfer>)));
        let one = web::resource(format!("/{path}/{{id}}")).route(web::get().to(resource::show::<Transfer>));
        cfg.service(one.route(web::delete().to(resource::delete::<Transfer>)));
        cfg.service(web::resource(format!("/{path}/{{id}}/accept")).route(web::post().to(accept)));
    }
}

listed! {
    Transfer, "Transfer",
    "name" | "display_name" => |one| one.name.clone().unwrap_or_default(),
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /os-volume-transfer" => CreateBody,
    "volume POST /volume-transfers" => CreateBody,
    "volume POST /os-volume-transfer/{}/accept" => AcceptBody,
    "volume POST /volume-transfers/{}/accept" => AcceptBody,
};

#[derive(Deserialize, JsonSchema)]
struct CreateBody {
    transfer: NewFields,
}

#[derive(Deserialize, JsonSchema)]
struct NewFields {
    volume_id: String,
    name: Option<String>,
    no_snapshots: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct AcceptBody {
    accept: Key,
}

#[derive(Deserialize, JsonSchema)]
struct Key {
    auth_key: String,
}

/// Answers 404 to the new path before 3.55.
fn is_there(call: &Call) -> Result<(), ApiError> {
    let is_new = call.request.match_pattern().is_some_and(|path| path.contains(NEW));
    if is_new && !call.version.at_least(WITH_SNAPSHOTS) { Err(not_found("The resource", NEW)) } else { Ok(()) }
}

impl Shown for Transfer {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "transfer";
    const COLLECTION: &'static str = "transfers";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Transfer>, ApiError> {
        is_there(call)?;
        let mut transfers = call.service.transfers(paging::project(&call.caller, query)).await.map_err(failed)?;
        transfers.retain(|transfer| {
            is(query, "name", transfer.name.as_deref().unwrap_or_default()) && is(query, "volume_id", &transfer.volume_id.to_string())
        });
        Ok(transfers)
    }

    async fn show(call: &Call, id: &str) -> Result<Transfer, ApiError> {
        is_there(call)?;
        call.service.own_transfer(&call.caller.0, id_of::<Transfer>(id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        is_there(call)?;
        require(&call.caller, "member")?;
        call.service.delete_transfer(&call.caller.0, id_of::<Transfer>(id)?).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({"id": self.id, "volume_id": self.volume_id, "name": self.name, "links": links(&call.request, OLD, self.id)})
    }

    fn detail(&self, call: &Call) -> Value {
        let mut body = self.view(call);
        body["created_at"] = json!(time(self.created_at));
        // The keys of 3.55 and 3.57. An offer that was taken is gone, so the shown ones are not.
        if call.version.at_least(WITH_SNAPSHOTS) {
            body["no_snapshots"] = json!(self.no_snapshots);
        }
        if call.version.at_least(57) {
            body["source_project_id"] = json!(self.project_id);
            body["destination_project_id"] = Value::Null;
            body["accepted"] = json!(false);
        }
        body
    }
}

async fn create(call: Call, Json(CreateBody { transfer: fields }): Json<CreateBody>) -> Result<HttpResponse, ApiError> {
    is_there(&call)?;
    require(&call.caller, "member")?;
    let volume = fields::id(&fields.volume_id)?;
    let no_snapshots = match &fields.no_snapshots {
        Some(flag) if call.version.at_least(WITH_SNAPSHOTS) => fields::flag("no_snapshots", flag)?,
        Some(_) => return Err(bad_request("Additional properties are not allowed ('no_snapshots' comes with microversion 3.55).")),
        None => false,
    };
    let name = fields::text("name", fields.name)?;
    let (transfer, key) = call.service.create_transfer(&call.caller.0, volume, name, no_snapshots).await.map_err(failed)?;
    let mut body = transfer.detail(&call);
    body["auth_key"] = json!(key);
    Ok(HttpResponse::Accepted().json(json!({"transfer": body})))
}

async fn accept(call: Call, id: web::Path<String>, Json(body): Json<AcceptBody>) -> Result<HttpResponse, ApiError> {
    is_there(&call)?;
    require(&call.caller, "member")?;
    let id = id_of::<Transfer>(&id)?;
    let accepted = call.service.accept_transfer(&call.caller.0, id, &body.accept.auth_key).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().json(json!({"transfer": accepted.view(&call)})))
}
