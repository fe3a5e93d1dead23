//! Volume types with their extra specs, and the access of projects to types that are not public.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::collections::BTreeMap;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, web};
use cellshift_web::auth::require_project;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::ServiceError;
use crate::identity::Authenticator;
use crate::request_bodies::{RequestBody, bodies, nullable};
use crate::resource::{self, Answers, Editable, Entry, Query, Shown};
use crate::volume::routes::{Call, bad_request, conflicting, failed, named_action, not_found, parameters, require};
use crate::volume::{DEFAULT_OF_PROJECT, EmbeddedVolume, TypeUpdate, VolumeType, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure::<VolumeType>(cfg);
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
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /types" => CreateBody,
    "volume PUT /types/{}" => UpdateBody,
    "volume POST /types/{}/extra_specs" => SpecsBody,
    "volume PUT /types/{}/extra_specs/{}" => Specs,
    "volume POST /types/{}/action#addProjectAccess" => ProjectAccess,
    "volume POST /types/{}/action#removeProjectAccess" => ProjectAccess,
};

#[derive(Deserialize, JsonSchema)]
pub struct CreateBody {
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
pub struct UpdateBody {
    volume_type: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
struct ChangedFields {
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
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

impl Answers<VolumeType> for EmbeddedVolume {
    const DELETED: StatusCode = StatusCode::ACCEPTED;
    const UPDATE: Method = Method::PUT;

    fn listed(call: &Call, _: &Query, all: Vec<VolumeType>, entry: Entry<VolumeType, EmbeddedVolume>) -> Result<Value, ApiError> {
        Ok(json!({VolumeType::COLLECTION: all.iter().map(|one| entry(one, call)).collect::<Vec<_>>()}))
    }
}

impl Shown for VolumeType {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "volume_type";
    const COLLECTION: &'static str = "volume_types";
    const PATH: &'static str = "types";

    async fn list(call: &Call, query: &Query) -> Result<Vec<VolumeType>, ApiError> {
        let mut types = call.service.types(&call.caller.0).await.map_err(failed)?;
        let public = match query.get("is_public").filter(|_| call.caller.0.is_admin()) {
            None => Some(true),
            Some(word) if word.eq_ignore_ascii_case("none") => None,
            Some(word) => Some(fields::flag("is_public", &json!(word))?),
        };
        // Others than administrators see all types that they may use.
        types.retain(|one| !call.caller.0.is_admin() || public.is_none_or(|public| one.is_public == public));
        Ok(types)
    }

    /// Takes ids, and `default`, because clients try a name first and expect a 404.
    async fn show(call: &Call, id: &str) -> Result<VolumeType, ApiError> {
        let volume_type = call.service.usable_type(&call.caller.0, id).await.map_err(failed)?;
        if id == DEFAULT_OF_PROJECT || volume_type.id.to_string() == id { Ok(volume_type) } else { Err(not_found("Volume type", id)) }
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require(&call.caller, "admin")?;
        let id = VolumeType::show(call, id).await?.id;
        call.service.delete_type(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        let mut view = with_access(self);
        if call.caller.0.is_admin() {
            view["qos_specs_id"] = json!(self.qos_specs_id);
        }
        view
    }
}

impl Editable for VolumeType {
    type New = CreateBody;
    type Change = UpdateBody;
    const CREATED: StatusCode = StatusCode::OK;

    async fn create(call: &Call, CreateBody { volume_type: fields }: CreateBody) -> Result<VolumeType, ApiError> {
        require(&call.caller, "admin")?;
        let extra_specs = fields.extra_specs.unwrap_or_default();
        check_specs(&extra_specs)?;
        let new = VolumeType {
            id: call.service.env.uuid(),
            name: name(fields.name)?,
            description: fields::text("description", fields.description)?,
            is_public: fields.is_public.map_or(Ok(true), |value| fields::flag("os-volume-type-access:is_public", &value))?,
            extra_specs,
            qos_specs_id: None,
        };
        call.service.create_type(new).await.map_err(conflicting)
    }

    async fn update(call: &Call, id: &str, UpdateBody { volume_type: fields }: UpdateBody) -> Result<VolumeType, ApiError> {
        require(&call.caller, "admin")?;
        if fields.name.is_none() && fields.description.is_none() && fields.is_public.is_none() {
            return Err(bad_request("Specify volume type name, description, is_public or a combination thereof."));
        }
        let id = VolumeType::show(call, id).await?.id;
        let update = TypeUpdate {
            name: fields.name.map(name).transpose()?,
            description: fields.description.map(|text| fields::text("description", text)).transpose()?,
            is_public: fields.is_public.map(|value| fields::flag("is_public", &value)).transpose()?,
        };
        call.service.update_type(id, update).await.map_err(conflicting)
    }

    fn created(&self, _: &Call) -> Value {
        json!({"volume_type": with_access(self)})
    }

    fn updated(&self, _: &Call) -> Value {
        json!({"volume_type": without_access(self)})
    }
}

async fn act(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let id = VolumeType::show(&call, &id).await?.id;
    let (name, value) = named_action(body)?;
    let ProjectAccess { project } = parameters(&name, value)?;
    match name.as_str() {
        "addProjectAccess" => {
            require_project(&**identity, &call.caller, ErrorForm::Compute, &project).await?;
            call.service.grant_type(id, &project).await.map_err(conflicting)?;
        }
        "removeProjectAccess" => call.service.revoke_type(id, &project).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}

async fn access(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let private = VolumeType::show(&call, &id).await?;
    if private.is_public {
        return Err(not_found("Access list of public volume type", &id));
    }
    let projects = call.service.projects_of_type(private.id).await.map_err(failed)?;
    let access: Vec<Value> = projects.into_iter().map(|project| json!({"volume_type_id": private.id, "project_id": project})).collect();
    Ok(HttpResponse::Ok().json(json!({"volume_type_access": access})))
}

async fn specs(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let VolumeType { extra_specs, .. } = VolumeType::show(&call, &id).await?;
    Ok(HttpResponse::Ok().json(json!({"extra_specs": extra_specs})))
}

async fn spec(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    let VolumeType { id, extra_specs, .. } = VolumeType::show(&call, &id).await?;
    let value = extra_specs.get(&key).ok_or_else(|| no_spec(id, &key)).map_err(failed)?;
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
    let id = VolumeType::show(call, id).await?.id;
    let change = move |specs: &mut Specs| {
        specs.extend(added);
        // Checks the old and new specs together.
        check_specs(specs).map_err(|error| ServiceError::Invalid(Reason::public(error.message)))
    };
    call.service.change_extra_specs(id, change).await.map_err(failed).map(drop)
}

async fn remove_spec(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let (id, key) = path.into_inner();
    let id = VolumeType::show(&call, &id).await?.id;
    let change = move |specs: &mut Specs| specs.remove(&key).map(drop).ok_or_else(|| no_spec(id, &key));
    call.service.change_extra_specs(id, change).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

fn no_spec(id: Uuid, key: &str) -> ServiceError {
    ServiceError::NotFound(reason!("Volume Type {id} has no extra specs with key {key}."))
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

fn without_access(one: &VolumeType) -> Value {
    json!({
        "id": one.id,
        "name": one.name,
        "description": one.description,
        "is_public": one.is_public,
        "extra_specs": one.extra_specs,
    })
}

fn with_access(one: &VolumeType) -> Value {
    let mut view = without_access(one);
    view["os-volume-type-access:is_public"] = json!(one.is_public);
    view
}
