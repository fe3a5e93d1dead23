//! Resource providers.

use std::collections::BTreeSet;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::auth::Caller;
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
use crate::placement::routes::{Service, admit, invalid, provider_id, refusal};
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
struct Wanted {
    name: String,
    uuid: Option<Uuid>,
    /// Distinguishes an absent parent from null, which means none.
    #[serde(default, deserialize_with = "crate::placement::allocations::bodies::present")]
    parent_provider_uuid: Option<Option<Uuid>>,
}

async fn list(service: Service, caller: Caller, version: ApiVersion, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let filters = Parameters::of(&request, FILTERS, version)?;
    let (name, uuid, in_tree) = (filters.one("name")?, filters.uuid("uuid")?, filters.uuid("in_tree")?);
    let resources = filters.one("resources")?.map(query::amounts).transpose()?.unwrap_or_default();
    let mut traits = Traits::default();
    query::traits(&mut traits, "required", &filters.all("required"), version)?;
    let members = query::members("member_of", &filters.all("member_of"), version)?;
    query::exist(&service, &[&traits], resources.keys().collect()).await?;
    let tree = crate::placement::routes::tree(&service).await?;
    let root = in_tree.map(|uuid| tree.root(uuid));
    let kept = tree.providers.iter().filter(|provider| {
        let aggregates: BTreeSet<Uuid> = provider.aggregates.iter().map(|aggregate| aggregate.id()).collect();
        name.is_none_or(|name| name == provider.name)
            && uuid.is_none_or(|uuid| uuid == provider.uuid)
            && root.is_none_or(|root| tree.root(provider.uuid) == root)
            && traits.are_met_by(provider.traits.iter())
            && members.of.iter().all(|any| !any.is_disjoint(&aggregates))
            && members.not_of.is_disjoint(&aggregates)
            && resources.iter().all(|(class, amount)| provider.has_room(class, *amount))
    });
    let bodies: Vec<Value> = kept.map(|provider| shown(provider, &tree, version)).collect();
    Ok(HttpResponse::Ok().json(json!({"resource_providers": bodies})))
}

async fn show(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (provider, _) = service.provider(provider_id(&uuid)?).await.map_err(refusal)?;
    let tree = crate::placement::routes::tree(&service).await?;
    Ok(HttpResponse::Ok().json(shown(&provider, &tree, version)))
}

async fn create(
    service: Service,
    env: web::Data<Env>,
    caller: Caller,
    version: ApiVersion,
    request: HttpRequest,
    body: Unread,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let document = body::read(body, &CREATE, version).await?;
    let wanted: Wanted = body::parsed(&document)?;
    let uuid = wanted.uuid.unwrap_or_else(|| env.uuid());
    let identity = Identity { uuid, name: wanted.name, parent: wanted.parent_provider_uuid.flatten() };
    if identity.parent == Some(uuid) {
        let what = format!("Unable to create resource provider \"{}\", {uuid}", identity.name);
        return Err(invalid(format!("{what}: parent provider UUID cannot be same as UUID. Unable to create a loop.")));
    }
    let (provider, _) = service.create_provider(identity).await.map_err(refusal)?;
    let location = ("Location", format!("{}/placement/resource_providers/{uuid}", base_url::of(&request)));
    if !version.at_least(20) {
        return Ok(HttpResponse::Created().insert_header(location).finish());
    }
    let tree = crate::placement::routes::tree(&service).await?;
    Ok(HttpResponse::Ok().insert_header(location).json(shown(&provider, &tree, version)))
}

async fn update(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    body: Unread,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    body::is_json(&body)?;
    let uuid = provider_id(&uuid)?;
    let (_, parent) = service.provider(uuid).await.map_err(refusal)?;
    let document = body::read(body, &UPDATE, version).await?;
    let wanted: Wanted = body::parsed(&document)?;
    let new_parent = wanted.parent_provider_uuid.unwrap_or(parent);
    if parent.is_some() && new_parent != parent && !version.at_least(MOVES) {
        let what = if new_parent.is_some() { "re-parenting" } else { "un-parenting" };
        return Err(invalid(format!("Unable to save resource provider {uuid}: {what} a provider is not currently allowed.")));
    }
    let (provider, _) = service.update_provider(Identity { uuid, name: wanted.name, parent: new_parent }).await.map_err(refusal)?;
    let tree = crate::placement::routes::tree(&service).await?;
    Ok(HttpResponse::Ok().json(shown(&provider, &tree, version)))
}

async fn delete(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    service.delete_provider(provider_id(&uuid)?).await.map_err(refusal)?;
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
