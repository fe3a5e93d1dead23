//! QoS specs of volume types, for administrators. As in Cinder, types are associated by GET.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ServiceError;
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Editable, Query, Shown, is};
use crate::volume::paging::{id_of, listed};
use crate::volume::routes::{Call, bad_request, conflicting, failed, links, not_found, require};
use crate::volume::{EmbeddedVolume, QosSpecs, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure::<QosSpecs>(cfg);
    cfg.service(web::resource("/qos-specs/{id}/delete_keys").route(web::put().to(delete_keys)));
    cfg.service(web::resource("/qos-specs/{id}/associations").route(web::get().to(associations)));
    cfg.service(web::resource("/qos-specs/{id}/associate").route(web::get().to(associate)));
    cfg.service(web::resource("/qos-specs/{id}/disassociate").route(web::get().to(disassociate)));
    cfg.service(web::resource("/qos-specs/{id}/disassociate_all").route(web::get().to(disassociate_all)));
}

/// The sides that are to heed specs: the store of volumes, the hosts, or both.
const CONSUMERS: [&str; 3] = ["back-end", "front-end", "both"];
/// The key that names the consumer beside the specs.
const CONSUMER: &str = "consumer";
/// The maximum number of specs under one name, and the maximum length of a key or a value.
const MOST: usize = 128;
const LONGEST: usize = 255;

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /qos-specs" => Body,
    "volume PUT /qos-specs/{}" => Body,
    "volume PUT /qos-specs/{}/delete_keys" => Keys,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    qos_specs: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
struct Keys {
    keys: Vec<String>,
}

listed! {
    QosSpecs, "QoS spec",
    "name" => |one| one.name.clone(),
    "consumer" => |one| one.consumer.clone(),
}

/// Returns the type that the query names.
fn type_in(query: &Query) -> Result<Uuid, ApiError> {
    let text = query.get("vol_type_id").filter(|id| !id.is_empty()).ok_or_else(|| bad_request("Volume Type id must not be None."))?;
    Uuid::parse_str(text).map_err(|_| not_found("Volume type", text))
}

impl Shown for QosSpecs {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "qos_specs";
    const COLLECTION: &'static str = "qos_specs";
    const PATH: &'static str = "qos-specs";

    async fn list(call: &Call, query: &Query) -> Result<Vec<QosSpecs>, ApiError> {
        require(&call.caller, "admin")?;
        let mut specs = call.service.list_qos().await.map_err(failed)?;
        specs.retain(|specs| {
            is(query, "id", &specs.id.to_string()) && is(query, "name", &specs.name) && is(query, CONSUMER, &specs.consumer)
        });
        Ok(specs)
    }

    async fn show(call: &Call, id: &str) -> Result<QosSpecs, ApiError> {
        call.service.qos(administered(call, id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        let id = administered(call, id)?;
        let force = call.query().get("force").map_or(Ok(false), |word| fields::flag("force", &json!(word)))?;
        call.service.delete_qos(id, force).await.map_err(failed)
    }

    fn view(&self, _: &Call) -> Value {
        json!({"id": self.id, "name": self.name, "consumer": self.consumer, "specs": self.specs})
    }

    /// The links are beside the specs.
    fn body(&self, call: &Call) -> Value {
        json!({"qos_specs": self.view(call), "links": links(&call.request, "qos-specs", self.id)})
    }
}

impl Editable for QosSpecs {
    type New = Body;
    type Change = Body;
    const CREATED: StatusCode = StatusCode::OK;

    async fn create(call: &Call, Body { qos_specs: mut specs }: Body) -> Result<QosSpecs, ApiError> {
        require(&call.caller, "admin")?;
        let name = fields::text("name", specs.remove("name"))?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| bad_request("Invalid input for field/attribute name: QoS specs need a name."))?;
        let consumer = consumer_in(&mut specs)?.unwrap_or_else(|| CONSUMERS[0].to_owned());
        check(&specs)?;
        call.service.create_qos(name, consumer, specs).await.map_err(conflicting)
    }

    /// Returns the specs with the request's pairs alone, which Cinder answers.
    async fn update(call: &Call, id: &str, Body { qos_specs }: Body) -> Result<QosSpecs, ApiError> {
        let id = administered(call, id)?;
        let mut specs = qos_specs.clone();
        let consumer = consumer_in(&mut specs)?;
        check(&specs)?;
        let change = move |stored: &mut QosSpecs| {
            stored.consumer = consumer.unwrap_or(std::mem::take(&mut stored.consumer));
            stored.specs.extend(specs);
            // Checks the old and new specs together.
            check(&stored.specs).map_err(|error| ServiceError::Invalid(Reason::public(error.message)))
        };
        let updated = call.service.change_qos(id, change).await.map_err(failed)?;
        Ok(QosSpecs { specs: qos_specs, ..updated })
    }

    fn updated(&self, _: &Call) -> Value {
        json!({"qos_specs": self.specs})
    }
}

/// Parses an id in a path. Refuses callers that are not administrators.
fn administered(call: &Call, id: &str) -> Result<Uuid, ApiError> {
    require(&call.caller, "admin")?;
    id_of::<QosSpecs>(id)
}

/// Deletes all of these keys, or none if one is missing.
async fn delete_keys(call: Call, id: web::Path<String>, Json(Keys { keys }): Json<Keys>) -> Result<HttpResponse, ApiError> {
    let id = administered(&call, &id)?;
    if keys.len() > MOST {
        return Err(bad_request(format!("There are at most {MOST} specs.")));
    }
    let change = move |stored: &mut QosSpecs| {
        keys.iter().try_for_each(|key| match stored.specs.remove(key) {
            Some(_) => Ok(()),
            None => Err(ServiceError::NotFound(reason!("QoS spec {id} has no spec with key {key:.255}."))),
        })
    };
    call.service.change_qos(id, change).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn associations(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let types = call.service.types_of_qos(administered(&call, &id)?).await.map_err(failed)?;
    let types: Vec<Value> = types.iter().map(|one| json!({"association_type": "volume_type", "name": one.name, "id": one.id})).collect();
    Ok(HttpResponse::Ok().json(json!({"qos_associations": types})))
}

async fn associate(call: Call, id: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let id = administered(&call, &id)?;
    call.service.associate_qos(id, type_in(&query)?).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn disassociate(call: Call, id: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let id = administered(&call, &id)?;
    call.service.disassociate_qos(id, Some(type_in(&query)?)).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn disassociate_all(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.service.disassociate_qos(administered(&call, &id)?, None).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

/// Takes the consumer out of a body's specs.
fn consumer_in(specs: &mut BTreeMap<String, String>) -> Result<Option<String>, ApiError> {
    match specs.remove(CONSUMER) {
        Some(other) if !CONSUMERS.contains(&other.as_str()) => {
            Err(bad_request(format!("Invalid qos specs: consumer must be one of {}, unlike {other:.40}.", CONSUMERS.join(", "))))
        }
        consumer => Ok(consumer),
    }
}

fn check(specs: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let is_long = |text: &str| text.chars().nth(LONGEST).is_some();
    // The characters that Cinder takes.
    let is_name = |key: &str| key.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:. -".contains(letter)) && !key.is_empty();
    match specs.iter().find(|(key, value)| !is_name(key) || is_long(key) || is_long(value)) {
        Some((key, _)) => Err(bad_request(format!(
            "Invalid qos specs: the key {key:.40} must have 1 to {LONGEST} letters, digits, blanks or _:.- and its value at most {LONGEST} characters."
        ))),
        None if specs.len() > MOST => Err(bad_request(format!("Invalid qos specs: there are at most {MOST} under one name."))),
        None => Ok(()),
    }
}
