//! Volume types with their extra specs, and the access of projects to types that are not public.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::auth::{Caller, known_project};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::ServiceError;
use crate::identity::Authenticator;
use crate::request_bodies::{RequestBody, given, of_type};
use crate::resource::Query;
use crate::volume::fields;

use crate::volume::routes::{Call, bad_request, conflicting, failed, named_action, not_found, parameters, require};
use crate::volume::{DEFAULT_OF_PROJECT, TypeUpdate, VolumeType};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/types").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/types/{id}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/types/{id}/action").route(web::post().to(act)));
    cfg.service(web::resource("/types/{id}/os-volume-type-access").route(web::get().to(access)));
    cfg.service(web::resource("/types/{id}/extra_specs").route(web::get().to(specs)).route(web::post().to(add_specs)));
    let spec = web::resource("/types/{id}/extra_specs/{key}").route(web::get().to(spec)).route(web::put().to(set_spec));
    cfg.service(spec.route(web::delete().to(remove_spec)));
}

type Specs = BTreeMap<String, String>;

/// The maximum number of a type's extra specs.
const MOST_SPECS: usize = 128;

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /types", of_type::<CreateBody>),
    ("volume PUT /types/{}", of_type::<UpdateBody>),
    ("volume POST /types/{}/extra_specs", of_type::<SpecsBody>),
    ("volume PUT /types/{}/extra_specs/{}", of_type::<Specs>),
    ("volume POST /types/{}/action#addProjectAccess", of_type::<ProjectAccess>),
    ("volume POST /types/{}/action#removeProjectAccess", of_type::<ProjectAccess>),
];

#[derive(Deserialize, JsonSchema)]
struct CreateBody {
    volume_type: NewFields,
}

#[derive(Deserialize, JsonSchema)]
struct NewFields {
    name: String,
    description: Option<String>,
    #[serde(rename = "os-volume-type-access:is_public")]
    is_public: Option<Value>,
    extra_specs: Option<Specs>,
}

#[derive(Deserialize, JsonSchema)]
struct UpdateBody {
    volume_type: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
struct ChangedFields {
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    description: Option<Option<String>>,
    is_public: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct ProjectAccess {
    project: String,
}

#[derive(Deserialize, JsonSchema)]
struct SpecsBody {
    extra_specs: Specs,
}

async fn list(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let mut types = call.service.types(&call.caller.0).await.map_err(failed)?;
    let public = match query.get("is_public").filter(|_| call.caller.0.is_admin()) {
        None => Some(true),
        Some(word) if word.eq_ignore_ascii_case("none") => None,
        Some(word) => Some(fields::flag("is_public", &json!(word))?),
    };
    // Others than administrators see all types that they may use.
    types.retain(|known| !call.caller.0.is_admin() || public.is_none_or(|public| known.is_public == public));
    let types: Vec<Value> = types.iter().map(|known| render(known, &call.caller)).collect();
    Ok(HttpResponse::Ok().json(json!({"volume_types": types})))
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let known = type_of(&call, &id).await?;
    Ok(HttpResponse::Ok().json(json!({"volume_type": render(&known, &call.caller)})))
}

/// Returns the type of a path. Accepts ids, and `default`, because clients try a name first and expect a 404.
async fn type_of(call: &Call, id: &str) -> Result<VolumeType, ApiError> {
    let known = call.service.usable_type(&call.caller.0, id).await.map_err(failed)?;
    if id == DEFAULT_OF_PROJECT || known.id.to_string() == id { Ok(known) } else { Err(not_found("Volume type", id)) }
}

async fn create(
    call: Call,
    env: web::Data<Env>,
    Json(CreateBody { volume_type: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let extra_specs = wanted.extra_specs.unwrap_or_default();
    check_specs(&extra_specs)?;
    let new = VolumeType {
        id: env.uuid(),
        name: name(wanted.name)?,
        description: fields::text("description", wanted.description)?,
        is_public: wanted.is_public.map_or(Ok(true), |value| fields::flag("os-volume-type-access:is_public", &value))?,
        extra_specs,
        qos_specs_id: None,
    };
    let made = call.service.create_type(new).await.map_err(conflicting)?;
    Ok(HttpResponse::Ok().json(json!({"volume_type": created(&made)})))
}

async fn update(
    call: Call,
    id: web::Path<String>,
    Json(UpdateBody { volume_type: wanted }): Json<UpdateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    if wanted.name.is_none() && wanted.description.is_none() && wanted.is_public.is_none() {
        return Err(bad_request("Specify volume type name, description, is_public or a combination thereof."));
    }
    let id = type_of(&call, &id).await?.id;
    let update = TypeUpdate {
        name: wanted.name.map(name).transpose()?,
        description: wanted.description.map(|text| fields::text("description", text)).transpose()?,
        is_public: wanted.is_public.map(|value| fields::flag("is_public", &value)).transpose()?,
    };
    let changed = call.service.update_type(id, update).await.map_err(conflicting)?;
    Ok(HttpResponse::Ok().json(json!({"volume_type": updated(&changed)})))
}

async fn delete(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let id = type_of(&call, &id).await?.id;
    call.service.delete_type(id).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn act(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let id = type_of(&call, &id).await?.id;
    let (name, value) = named_action(body)?;
    let ProjectAccess { project } = parameters(&name, value)?;
    match name.as_str() {
        "addProjectAccess" => {
            known_project(&**identity, &call.caller, ErrorForm::Compute, &project).await?;
            call.service.grant_type(id, &project).await.map_err(conflicting)?;
        }
        "removeProjectAccess" => call.service.revoke_type(id, &project).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}

async fn access(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let known = type_of(&call, &id).await?;
    if known.is_public {
        return Err(not_found("Access list of public volume type", &id));
    }
    let projects = call.service.projects_of_type(known.id).await.map_err(failed)?;
    let access: Vec<Value> = projects.into_iter().map(|project| json!({"volume_type_id": known.id, "project_id": project})).collect();
    Ok(HttpResponse::Ok().json(json!({"volume_type_access": access})))
}

async fn specs(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let known = type_of(&call, &id).await?;
    Ok(HttpResponse::Ok().json(json!({"extra_specs": known.extra_specs})))
}

async fn spec(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    let known = type_of(&call, &id).await?;
    let value = known.extra_specs.get(&key).ok_or_else(|| no_spec(known.id, &key)).map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({key: value})))
}

async fn add_specs(call: Call, id: web::Path<String>, Json(body): Json<SpecsBody>) -> Result<HttpResponse, ApiError> {
    let added = body.extra_specs.clone();
    merge(&call, &id, body.extra_specs).await?;
    Ok(HttpResponse::Ok().json(json!({"extra_specs": added})))
}

async fn set_spec(call: Call, path: web::Path<(String, String)>, Json(body): Json<Specs>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    if body.len() != 1 || !body.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch: the body must have the key of the URI alone."));
    }
    merge(&call, &id, body.clone()).await?;
    Ok(HttpResponse::Ok().json(body))
}

async fn merge(call: &Call, id: &str, added: Specs) -> Result<(), ApiError> {
    require(&call.caller, "admin")?;
    check_specs(&added)?;
    let id = type_of(call, id).await?.id;
    let change = move |specs: &mut Specs| {
        specs.extend(added);
        // Checks the old and new specs together.
        check_specs(specs).map_err(|error| ServiceError::Invalid(error.message))
    };
    call.service.change_extra_specs(id, change).await.map_err(failed).map(drop)
}

async fn remove_spec(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let (id, key) = path.into_inner();
    let id = type_of(&call, &id).await?.id;
    let change = move |specs: &mut Specs| specs.remove(&key).map(drop).ok_or_else(|| no_spec(id, &key));
    call.service.change_extra_specs(id, change).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

fn no_spec(id: Uuid, key: &str) -> ServiceError {
    ServiceError::NotFound(format!("Volume Type {id} has no extra specs with key {key}."))
}

fn name(name: String) -> Result<String, ApiError> {
    let name = fields::text("name", Some(name))?.unwrap_or_default();
    if name.is_empty() { Err(bad_request("Invalid input for field/attribute name: it is empty.")) } else { Ok(name) }
}

/// Checks the keys of extra specs as Cinder does, and their number.
fn check_specs(specs: &Specs) -> Result<(), ApiError> {
    let is_key = |key: &String| {
        (1..=255).contains(&key.len()) && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:. ".contains(letter))
    };
    match specs.keys().find(|key| !is_key(key)) {
        Some(key) => Err(bad_request(format!(
            "Key Names can only contain alphanumeric characters, underscores, periods, colons and hyphens, unlike '{key:.40}'."
        ))),
        None if specs.len() > MOST_SPECS => Err(bad_request(format!("A type has at most {MOST_SPECS} extra specs."))),
        None if specs.values().any(|value| value.len() > 255) => Err(bad_request("The value of an extra spec has at most 255 characters.")),
        None => Ok(()),
    }
}

/// Writes a type as the answer to an update has it.
fn updated(known: &VolumeType) -> Value {
    json!({
        "id": known.id,
        "name": known.name,
        "description": known.description,
        "is_public": known.is_public,
        "extra_specs": known.extra_specs,
    })
}

/// Writes a type as the answer to its creation has it.
fn created(known: &VolumeType) -> Value {
    let mut body = updated(known);
    body["os-volume-type-access:is_public"] = json!(known.is_public);
    body
}

/// Writes a type as lists and shows have it.
fn render(known: &VolumeType, caller: &Caller) -> Value {
    let mut body = created(known);
    if caller.0.is_admin() {
        body["qos_specs_id"] = json!(known.qos_specs_id);
    }
    body
}
