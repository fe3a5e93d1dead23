//! Resource providers.

use std::collections::BTreeSet;

use actix_web::{HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::{Schema, object};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::placement::body;
use crate::placement::candidates::Traits;
use crate::placement::query::{self, Parameters};
use crate::placement::routes::{Call, invalid, provider_id, refusal};
use crate::placement::tree::Tree;
use crate::placement::{Identity, Provider};

/// The minor version from which providers form trees.
const TREES: u16 = 14;
/// The minor version from which a provider may get another parent, or none.
const MOVES: u16 = 37;
/// The filters of the list, each with its minor version.
const FILTERS: &[(&str, u16)] = &[("name", 0), ("uuid", 0), ("member_of", 3), ("resources", 4), ("in_tree", TREES), ("required", 18)];

pub(in crate::placement) static CREATE: Schema = Schema::new(&[0, TREES], |minor| identity(minor, true));
pub(in crate::placement) static UPDATE: Schema = Schema::new(&[0, TREES], |minor| identity(minor, false));

fn identity(minor: u16, is_new: bool) -> Value {
    let mut properties = json!({"name": {"type": "string", "minLength": 1, "maxLength": 200}});
    if is_new {
        properties["uuid"] = json!({"type": "string", "format": "uuid"});
    }
    if minor >= TREES {
        properties["parent_provider_uuid"] = json!({"type": ["string", "null"], "format": "uuid"});
    }
    object(&properties, &["name"])
}

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/resource_providers").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/resource_providers/{uuid}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)),
    );
}

#[derive(Deserialize)]
struct Body {
    name: String,
    uuid: Option<Uuid>,
    /// Distinguishes an absent parent from null, which means none.
    #[serde(default, deserialize_with = "crate::request_bodies::nullable")]
    parent_provider_uuid: Option<Option<Uuid>>,
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let filters = Parameters::of(&call.request, FILTERS, call.version)?;
    let (name, uuid, in_tree) = (filters.one("name")?, filters.uuid("uuid")?, filters.uuid("in_tree")?);
    let resources = filters.one("resources")?.map(query::amounts).transpose()?.unwrap_or_default();
    let mut traits = Traits::default();
    query::traits(&mut traits, "required", &filters.all("required"), call.version)?;
    let members = query::members("member_of", &filters.all("member_of"), call.version)?;
    query::exist(&call.service, &[&traits], resources.keys().collect()).await?;
    let tree = call.tree().await?;
    let root = in_tree.map(|uuid| tree.root(uuid));
    let providers = tree.providers.iter().filter(|provider| {
        let aggregates: BTreeSet<Uuid> = provider.aggregates.iter().map(|aggregate| aggregate.id()).collect();
        name.is_none_or(|name| name == provider.name)
            && uuid.is_none_or(|uuid| uuid == provider.uuid)
            && root.is_none_or(|root| tree.root(provider.uuid) == root)
            && traits.are_met_by(provider.traits.iter())
            && members.of.iter().all(|any| !any.is_disjoint(&aggregates))
            && members.not_of.is_disjoint(&aggregates)
            && resources.iter().all(|(class, amount)| provider.has_room(class, *amount))
    });
    let bodies: Vec<Value> = providers.map(|provider| shown(provider, &tree, call.version)).collect();
    Ok(HttpResponse::Ok().json(json!({"resource_providers": bodies})))
}

async fn show(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (provider, _) = call.provider(&uuid).await?;
    let tree = call.tree().await?;
    Ok(HttpResponse::Ok().json(shown(&provider, &tree, call.version)))
}

async fn create(call: Call, env: web::Data<Env>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let document = body::read(body, &CREATE, call.version).await?;
    let Body { name, uuid, parent_provider_uuid } = body::parsed(&document)?;
    let uuid = uuid.unwrap_or_else(|| env.uuid());
    let identity = Identity { uuid, name, parent: parent_provider_uuid.flatten() };
    if identity.parent == Some(uuid) {
        let what = format!("Unable to create resource provider \"{}\", {uuid}", identity.name);
        return Err(invalid(format!("{what}: parent provider UUID cannot be same as UUID. Unable to create a loop.")));
    }
    let (provider, _) = call.service.create_provider(identity).await.map_err(refusal)?;
    let location = ("Location", format!("{}/placement/resource_providers/{uuid}", base_url::of(&call.request)));
    if !call.version.at_least(20) {
        return Ok(HttpResponse::Created().insert_header(location).finish());
    }
    let tree = call.tree().await?;
    Ok(HttpResponse::Ok().insert_header(location).json(shown(&provider, &tree, call.version)))
}

async fn update(call: Call, uuid: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (Provider { uuid, .. }, parent, document) = call.change_of_provider(&uuid, body, &UPDATE).await?;
    let Body { name, parent_provider_uuid, .. } = body::parsed(&document)?;
    let new_parent = parent_provider_uuid.unwrap_or(parent);
    if parent.is_some() && new_parent != parent && !call.version.at_least(MOVES) {
        let what = if new_parent.is_some() { "re-parenting" } else { "un-parenting" };
        return Err(invalid(format!("Unable to save resource provider {uuid}: {what} a provider is not currently allowed.")));
    }
    let (provider, _) = call.service.update_provider(Identity { uuid, name, parent: new_parent }).await.map_err(refusal)?;
    let tree = call.tree().await?;
    Ok(HttpResponse::Ok().json(shown(&provider, &tree, call.version)))
}

async fn delete(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    call.service.delete_provider(provider_id(&uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn shown(provider: &Provider, tree: &Tree, version: ApiVersion) -> Value {
    let uuid = provider.uuid;
    let own = format!("/placement/resource_providers/{uuid}");
    let mut links = vec![json!({"rel": "self", "href": own})];
    for (rel, since) in [("inventories", 0), ("usages", 0), ("aggregates", 1), ("traits", 6), ("allocations", 11)] {
        if version.at_least(since) {
            links.push(json!({"rel": rel, "href": format!("{own}/{rel}")}));
        }
    }
    let mut value = json!({"uuid": uuid, "name": provider.name, "generation": provider.generation, "links": links});
    if version.at_least(TREES) {
        value["parent_provider_uuid"] = json!(tree.parent(uuid));
        value["root_provider_uuid"] = json!(tree.root(uuid));
    }
    value
}
