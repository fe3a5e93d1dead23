//! Transfers of volumes between projects: `/os-volume-transfer`, and `/volume-transfers` from 3.55.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::routes::request_bodies::{RequestBody, of_type};
use crate::volume::paging::{self, Listed, Page, Query, SortValue};
use crate::volume::routes::{bad_request, failed, not_found, require, time};
use crate::volume::{EmbeddedVolume, Transfer, fields};

/// The path in all microversions.
const OLD: &str = "os-volume-transfer";
/// The path from 3.55.
const NEW: &str = "volume-transfers";
/// The microversion with the new path and `no_snapshots`.
const WITH_SNAPSHOTS: u16 = 55;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    for path in [OLD, NEW] {
        cfg.service(web::resource(format!("/{path}")).route(web::get().to(list)).route(web::post().to(create)));
        cfg.service(web::resource(format!("/{path}/detail")).route(web::get().to(list_details)));
        cfg.service(web::resource(format!("/{path}/{{id}}")).route(web::get().to(show)).route(web::delete().to(delete)));
        cfg.service(web::resource(format!("/{path}/{{id}}/accept")).route(web::post().to(accept)));
    }
}

impl Listed for Transfer {
    const COLLECTION: &'static str = "transfers";
    const KIND: &'static str = "Transfer";

    fn id(&self) -> Uuid {
        self.id
    }

    fn sort_value(key: &str) -> Option<SortValue<Transfer>> {
        match key {
            "id" => Some(|one| one.id.to_string()),
            "name" | "display_name" => Some(|one| one.name.clone().unwrap_or_default()),
            "created_at" => Some(|one| time(one.created_at)),
            _ => None,
        }
    }
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /os-volume-transfer", of_type::<CreateBody>),
    ("volume POST /volume-transfers", of_type::<CreateBody>),
    ("volume POST /os-volume-transfer/{}/accept", of_type::<AcceptBody>),
    ("volume POST /volume-transfers/{}/accept", of_type::<AcceptBody>),
];

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
fn is_there(request: &HttpRequest, version: ApiVersion) -> Result<(), ApiError> {
    let is_new = request.match_pattern().is_some_and(|path| path.contains(NEW));
    if is_new && !version.at_least(WITH_SNAPSHOTS) { Err(not_found("The resource", NEW)) } else { Ok(()) }
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|transfer| summary(&request, transfer)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

async fn list_details(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|transfer| detail(&request, version, transfer)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

/// Returns one page of the matching offers that the caller may see.
async fn page(volumes: &EmbeddedVolume, caller: &Caller, query: &Query) -> Result<Page<Transfer>, ApiError> {
    let mut known = volumes.transfers(paging::project(caller, query)).await.map_err(failed)?;
    known.retain(|transfer| {
        paging::is(query, "name", transfer.name.as_deref().unwrap_or_default())
            && paging::is(query, "volume_id", &transfer.volume_id.to_string())
    });
    paging::page(known, query)
}

async fn show(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    let transfer = volumes.own_transfer(&caller.0, transfer_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"transfer": detail(&request, version, &transfer)})))
}

async fn create(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    Json(CreateBody { transfer: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    require(&caller, "member")?;
    let volume = Uuid::parse_str(&wanted.volume_id).map_err(|_| bad_request(format!("'{}' is not a 'uuid'", wanted.volume_id)))?;
    let no_snapshots = match &wanted.no_snapshots {
        Some(flag) if version.at_least(WITH_SNAPSHOTS) => fields::flag("no_snapshots", flag)?,
        Some(_) => return Err(bad_request("Additional properties are not allowed ('no_snapshots' comes with microversion 3.55).")),
        None => false,
    };
    let name = fields::text("name", wanted.name)?;
    let (transfer, key) = volumes.create_transfer(&caller.0, volume, name, no_snapshots).await.map_err(failed)?;
    let mut body = summary(&request, &transfer);
    body["created_at"] = json!(time(transfer.created_at));
    body["auth_key"] = json!(key);
    add_later_keys(&mut body, version, &transfer);
    Ok(HttpResponse::Accepted().json(json!({"transfer": body})))
}

async fn accept(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<AcceptBody>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    require(&caller, "member")?;
    let taken = volumes.accept_transfer(&caller.0, transfer_id(&id)?, &body.accept.auth_key).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().json(json!({"transfer": summary(&request, &taken)})))
}

async fn delete(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    is_there(&request, version)?;
    require(&caller, "member")?;
    volumes.delete_transfer(&caller.0, transfer_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

/// Parses an id in a path. Other text names no transfer, so the answer is 404.
fn transfer_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found("Transfer", text))
}

fn summary(request: &HttpRequest, transfer: &Transfer) -> Value {
    let (base, id) = (base_url::of(request), transfer.id);
    let links = json!([
        {"rel": "self", "href": format!("{base}/volume/v3/{OLD}/{id}")},
        {"rel": "bookmark", "href": format!("{base}/volume/{OLD}/{id}")},
    ]);
    json!({"id": id, "volume_id": transfer.volume_id, "name": transfer.name, "links": links})
}

fn detail(request: &HttpRequest, version: ApiVersion, transfer: &Transfer) -> Value {
    let mut body = summary(request, transfer);
    body["created_at"] = json!(time(transfer.created_at));
    add_later_keys(&mut body, version, transfer);
    body
}

/// Adds the keys of 3.55 and 3.57. An offer that was taken is gone, so the shown ones are not.
fn add_later_keys(body: &mut Value, version: ApiVersion, transfer: &Transfer) {
    if version.at_least(WITH_SNAPSHOTS) {
        body["no_snapshots"] = json!(transfer.no_snapshots);
    }
    if version.at_least(57) {
        body["source_project_id"] = json!(transfer.project_id);
        body["destination_project_id"] = Value::Null;
        body["accepted"] = json!(false);
    }
}
