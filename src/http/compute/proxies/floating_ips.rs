//! `/os-floating-ips` and `/os-floating-ip-pools`: a project's floating IPs. A pool is an external network.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Network, is_there, scope_of};
use crate::domain::context::RequestContext;
use crate::domain::reason::ReasonCode;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, forbidden, not_found, ok};
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::servers::network_error;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::services::ServiceError;
use crate::services::network::Network as Pool;
use crate::services::proxies::{FloatingIp, NetworkProxy};

/// The pool of a request that names none, as in Nova without configuration.
const DEFAULT_POOL: &str = "nova";

/// `POST /os-floating-ips`, whose body may be null.
pub(super) static CREATE: Body<Option<NewFloatingIp>> = Body::whole(ALWAYS);

/// Fields that are not known are allowed, as in Nova.
#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct NewFloatingIp {
    /// The name or the id of a pool.
    #[serde(default)]
    pool: Option<String>,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-floating-ip-pools").route(web::get().to(pools)))
        .service(web::resource("/os-floating-ips").route(web::get().to(index)).route(web::post().to(create)))
        .service(web::resource("/os-floating-ips/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

async fn pools(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-floating-ip-pools")?;
    let names: Vec<Value> = external(&network, &caller.0).await?.iter().map(|pool| json!({"name": name_of(pool)})).collect();
    ok(&json!({"floating_ip_pools": names}))
}

async fn index(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-floating-ips:list")?;
    let pools = pools_by_id(&network, &caller.0).await?;
    let visible = network.visible_floating_ips(scope_of(&caller.0)).await.map_err(network_error)?;
    // An administrator's list has their own project's floating IPs only.
    let own = visible.iter().filter(|floating| floating.project_id == caller.0.project_id);
    ok(&json!({"floating_ips": own.map(|floating| view(floating, &pools)).collect::<Vec<_>>()}))
}

async fn show(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-floating-ips:show")?;
    let floating = find(&network, &caller.0, &id).await?;
    ok(&json!({"floating_ip": view(&floating, &pools_by_id(&network, &caller.0).await?)}))
}

async fn create(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, body: Document) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-floating-ips:create")?;
    let NewFloatingIp { pool: named } = CREATE.read(version, &body).await?.unwrap_or_default();
    let name = named.as_deref().unwrap_or(DEFAULT_POOL);
    let pools = external(&network, &caller.0).await?;
    let pool = pools.iter().find(|pool| pool.id.to_string() == name || pool.name == name);
    let pool = pool.ok_or_else(|| not_found("Floating IP pool not found."))?;
    let made = network.take_floating_ip(scope_of(&caller.0), pool.id).await.map_err(|error| refused(error, named.as_deref()))?;
    ok(&json!({"floating_ip": view(&made, &BTreeMap::from([(pool.id, name_of(pool))]))}))
}

async fn delete(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-floating-ips:delete")?;
    let floating = find(&network, &caller.0, &id).await?;
    network.release_floating_ip(scope_of(&caller.0), floating.id).await.map_err(network_error)?;
    empty(StatusCode::ACCEPTED)
}

async fn find(network: &Network, caller: &RequestContext, id: &str) -> Result<FloatingIp, ApiError> {
    let absent = || not_found(format!("Floating IP not found for ID {id}"));
    let uuid = Uuid::parse_str(id).map_err(|_| absent())?;
    network.visible_floating_ip(scope_of(caller), uuid).await.map_err(|error| match error {
        ServiceError::NotFound(_) => absent(),
        other => network_error(other),
    })
}

async fn external(network: &Network, caller: &RequestContext) -> Result<Vec<Pool>, ApiError> {
    let networks = network.usable_networks(scope_of(caller)).await.map_err(network_error)?;
    Ok(networks.into_iter().filter(|network| network.external).collect())
}

async fn pools_by_id(network: &Network, caller: &RequestContext) -> Result<BTreeMap<Uuid, String>, ApiError> {
    Ok(external(network, caller).await?.iter().map(|pool| (pool.id, name_of(pool))).collect())
}

fn name_of(pool: &Pool) -> String {
    if pool.name.is_empty() { pool.id.to_string() } else { pool.name.clone() }
}

fn refused(error: ServiceError, pool: Option<&str>) -> ApiError {
    let within = |pool: &str| format!(" in pool {pool}");
    match error {
        ServiceError::Conflict(why) if why.code() == Some(ReasonCode::QuotaExceeded) => {
            forbidden(format!("IP allocation over quota{}.", pool.map(within).unwrap_or_default()))
        }
        ServiceError::Conflict(_) => not_found(format!("No more floating IPs{}.", pool.map_or_else(|| " available".to_owned(), within))),
        ServiceError::Invalid(why) => bad_request(why),
        other => network_error(other),
    }
}

fn view(floating: &FloatingIp, pools: &BTreeMap<Uuid, String>) -> Value {
    let pool = pools.get(&floating.network_id).cloned();
    json!({
        "id": floating.id,
        "ip": floating.address,
        "fixed_ip": floating.fixed_address,
        "instance_id": floating.device_id,
        "pool": pool.unwrap_or_else(|| floating.network_id.to_string()),
    })
}
