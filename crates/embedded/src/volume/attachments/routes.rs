//! The attachments of volumes: those that servers have through the compute API, which are only read here, and those that users make
//! themselves, in steps since 3.27.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::request_bodies::{RequestBody, bodies};

use crate::resource::Query;
use crate::volume::routes::{Call, NoFields, bad_request, conflicting, failed, named_action, not_found, time};
use crate::volume::{AttachMode, Attachment, Connector, DirectAttachment, NewAttachment, Volume};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/attachments").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/attachments/detail").route(web::get().to(list_details)));
    let one = web::resource("/attachments/{id}").route(web::get().to(show));
    cfg.service(one.route(web::put().to(update)).route(web::delete().to(delete)));
    cfg.service(web::resource("/attachments/{id}/action").route(web::post().to(act)));
}

/// The first minor versions of the API with attachments, of their completion, and of the mode of an attachment.
const SINCE: u16 = 27;
const COMPLETED_SINCE: u16 = 44;
const MODE_SINCE: u16 = 54;
/// The maximum length of a host's name or a mount point, in characters.
const LONGEST: usize = 255;

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /attachments" => Body<New>,
    "volume PUT /attachments/{}" => Body<Update>,
    "volume POST /attachments/{}/action#os-complete" => NoFields,
};

#[derive(Deserialize, JsonSchema)]
struct Body<T> {
    attachment: T,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct New {
    #[schemars(with = "String")]
    volume_uuid: Uuid,
    #[schemars(with = "Option<String>")]
    instance_uuid: Option<Uuid>,
    #[serde(default, deserialize_with = "none_if_empty")]
    connector: Option<ConnectorFields>,
    mode: Option<AttachMode>,
}

/// Reads a connector. Cinder takes an empty one for none, and openstacksdk sends that.
fn none_if_empty<'de, D: Deserializer<'de>>(body: D) -> Result<Option<ConnectorFields>, D::Error> {
    let fields = Option::<Map<String, Value>>::deserialize(body)?.filter(|fields| !fields.is_empty());
    fields.map(|fields| ConnectorFields::deserialize(Value::Object(fields)).map_err(D::Error::custom)).transpose()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Update {
    connector: ConnectorFields,
}

/// The facts about an initiator that are kept; the others say how to connect it, and nothing is connected.
#[derive(Deserialize, JsonSchema)]
struct ConnectorFields {
    host: Option<String>,
    mountpoint: Option<String>,
    mode: Option<AttachMode>,
}

impl ConnectorFields {
    fn read(self) -> Result<Connector, ApiError> {
        let fits = |text: &str| !text.is_empty() && text.chars().nth(LONGEST).is_none();
        let ConnectorFields { host, mountpoint, mode } = self;
        let host = host.filter(|host| fits(host));
        let host = host.ok_or_else(|| bad_request(format!("A connector has a host of 1 to {LONGEST} characters.")))?;
        if mountpoint.as_deref().is_some_and(|path| !fits(path)) {
            return Err(bad_request(format!("The mountpoint of a connector has 1 to {LONGEST} characters.")));
        }
        Ok(Connector { host, mountpoint, mode })
    }
}

async fn create(call: Call, Json(Body { attachment: new }): Json<Body<New>>) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    if new.mode.is_some() && !call.version.at_least(MODE_SINCE) {
        return Err(bad_request(format!("Additional properties are not allowed ('mode' was unexpected) before 3.{MODE_SINCE}.")));
    }
    let connector = new.connector.map(ConnectorFields::read).transpose()?;
    let new_attachment =
        NewAttachment { volume: new.volume_uuid, server: new.instance_uuid, connector, mode: new.mode.unwrap_or_default() };
    let attachment = call.service.begin_attachment(&call.caller.0, new_attachment).await.map_err(conflicting)?;
    Ok(HttpResponse::Ok().json(json!({"attachment": detail(&AttachmentOfVolume::Directly(attachment), true)})))
}

async fn update(
    call: Call,
    id: web::Path<String>,
    Json(Body { attachment: Update { connector } }): Json<Body<Update>>,
) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    let attachment = call.service.connect_attachment(&call.caller.0, key(&id)?, connector.read()?).await.map_err(conflicting)?;
    Ok(HttpResponse::Ok().json(json!({"attachment": detail(&AttachmentOfVolume::Directly(attachment), true)})))
}

async fn act(call: Call, id: web::Path<String>, Json(body): Json<Map<String, Value>>) -> Result<HttpResponse, ApiError> {
    since(&call, COMPLETED_SINCE)?;
    match named_action(body)?.0.as_str() {
        "os-complete" => call.service.complete_recorded(&call.caller.0, key(&id)?).await.map_err(conflicting)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::NoContent().finish())
}

async fn delete(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    let volume = call.service.remove_recorded(&call.caller.0, key(&id)?).await.map_err(conflicting)?;
    let left: Vec<Value> = of_volume(volume).map(|one| detail(&one, call.caller.0.is_admin())).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": left})))
}

/// Answers 404 before the minor version that brought a request.
fn since(call: &Call, minor: u16) -> Result<(), ApiError> {
    let missing = || ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, "The resource could not be found.");
    if call.version.at_least(minor) { Ok(()) } else { Err(missing()) }
}

fn key(id: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(id).map_err(|_| not_found("Volume attachment", id))
}

/// An attachment of either kind.
enum AttachmentOfVolume {
    ByCompute(Attachment),
    Directly(DirectAttachment),
}

async fn list(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    let views: Vec<Value> = matching(&call, &query).await?.iter().map(summary).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": views})))
}

async fn list_details(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    let attachments = matching(&call, &query).await?;
    let attachments: Vec<Value> = attachments.iter().map(|one| detail(one, call.caller.0.is_admin())).collect();
    Ok(HttpResponse::Ok().json(json!({"attachments": attachments})))
}

/// Returns the matching attachments of volumes that the caller may see.
async fn matching(call: &Call, query: &Query) -> Result<Vec<AttachmentOfVolume>, ApiError> {
    let all =
        call.caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let project = Some(call.caller.0.project_id.as_str()).filter(|_| !all);
    let volumes = call.service.list(project).await.map_err(failed)?;
    let attachments = volumes.into_iter().flat_map(of_volume);
    let is = |one: &Value, parameter: &str, key: &str| query.get(parameter).is_none_or(|text| one[key].as_str() == Some(text));
    let matches = |one: &AttachmentOfVolume| {
        let one = summary(one);
        is(&one, "volume_id", "volume_id")
            && is(&one, "instance_id", "instance")
            && is(&one, "status", "status")
            && is(&one, "attach_status", "status")
    };
    Ok(attachments.filter(matches).collect())
}

fn of_volume(volume: Volume) -> impl Iterator<Item = AttachmentOfVolume> {
    let by_compute = volume.attachments.into_iter().map(AttachmentOfVolume::ByCompute);
    by_compute.chain(volume.direct_attachments.into_iter().map(AttachmentOfVolume::Directly))
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    since(&call, SINCE)?;
    let key = key(&id)?;
    let attachment = match call.service.own_direct_attachment(&call.caller.0, key).await.map_err(failed)? {
        Some(attachment) => AttachmentOfVolume::Directly(attachment),
        None => AttachmentOfVolume::ByCompute(call.service.own_attachment(&call.caller.0, key).await.map_err(failed)?),
    };
    Ok(HttpResponse::Ok().json(json!({"attachment": detail(&attachment, call.caller.0.is_admin())})))
}

fn summary(attachment: &AttachmentOfVolume) -> Value {
    match attachment {
        AttachmentOfVolume::ByCompute(one) => {
            json!({"id": one.id, "volume_id": one.volume_id, "instance": one.server, "status": one.status})
        }
        AttachmentOfVolume::Directly(one) => {
            json!({"id": one.id, "volume_id": one.volume_id, "instance": one.server, "status": one.status})
        }
    }
}

/// Describes an attachment. Only administrators see the connection, because it contains paths on hosts.
fn detail(attachment: &AttachmentOfVolume, with_connection: bool) -> Value {
    let mut body = summary(attachment);
    let (mode, attached_at, connection) = match attachment {
        AttachmentOfVolume::ByCompute(one) => (AttachMode::default(), one.attached_at, one.connection_info.clone()),
        AttachmentOfVolume::Directly(one) => (one.mode, one.attached_at, connection_of(one)),
    };
    body["attach_mode"] = json!(mode);
    // In Cinder's answers an unset time is an empty text.
    body["attached_at"] = json!(attached_at.map(time).unwrap_or_default());
    body["detached_at"] = json!("");
    body["connection_info"] = if with_connection { connection } else { json!({}) };
    body
}

/// Returns the facts of a user's connection: nothing is connected, so they name no way to the bytes.
fn connection_of(attachment: &DirectAttachment) -> Value {
    match &attachment.host {
        None => json!({}),
        Some(_) => {
            json!({"driver_volume_type": "local", "attachment_id": attachment.id, "access_mode": attachment.mode, "encrypted": false})
        }
    }
}
