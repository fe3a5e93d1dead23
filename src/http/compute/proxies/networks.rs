//! `/os-networks` and `/os-tenant-networks`: the ids and names of the networks that a caller may use.

use actix_web::web;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Network, is_there, scope_of};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, not_found, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::servers::network_error;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;
use crate::services::network::Network as UsableNetwork;
use crate::services::proxies::NetworkProxy;

/// Fields of networks that the compute service once kept itself, and that are null now.
const NULLS: &[&str] = &["cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6"];
/// Further fields of this kind, for administrators.
const ADMIN_NULLS: &[&str] = &[
    "created_at",
    "updated_at",
    "deleted_at",
    "deleted",
    "injected",
    "bridge",
    "vlan",
    "vpn_public_address",
    "vpn_public_port",
    "vpn_private_address",
    "dhcp_start",
    "project_id",
    "host",
    "bridge_interface",
    "multi_host",
    "priority",
    "rxtx_base",
    "mtu",
    "dhcp_server",
    "enable_dhcp",
    "share_address",
];

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-networks").route(web::get().to(index)))
        .service(web::resource("/os-networks/{id}").route(web::get().to(show)))
        .service(web::resource("/os-tenant-networks").route(web::get().to(index_of_tenant)))
        .service(web::resource("/os-tenant-networks/{id}").route(web::get().to(show_of_tenant)));
}

async fn index(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>) -> Answer {
    let networks = all(&network, &catalog, &caller, version, "os_compute_api:os-networks:list").await?;
    let admin = catalog.is_admin(&caller);
    ok(&json!({"networks": networks.iter().map(|network| view(network, admin)).collect::<Vec<_>>()}))
}

async fn show(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    let usable = one(&network, &catalog, &caller, version, "os_compute_api:os-networks:show", &id).await?;
    ok(&json!({"network": view(&usable, catalog.is_admin(&caller))}))
}

async fn index_of_tenant(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>) -> Answer {
    let networks = all(&network, &catalog, &caller, version, "os_compute_api:os-tenant-networks:list").await?;
    ok(&json!({"networks": networks.iter().map(tenant_view).collect::<Vec<_>>()}))
}

async fn show_of_tenant(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    let usable = one(&network, &catalog, &caller, version, "os_compute_api:os-tenant-networks:show", &id).await?;
    ok(&json!({"network": tenant_view(&usable)}))
}

async fn all(
    network: &Network,
    catalog: &Catalog,
    caller: &Caller,
    version: ApiVersion,
    rule: &str,
) -> Result<Vec<UsableNetwork>, ApiError> {
    is_there(version)?;
    catalog.allow(caller, rule)?;
    network.usable_networks(scope_of(&caller.0)).await.map_err(network_error)
}

async fn one(
    network: &Network,
    catalog: &Catalog,
    caller: &Caller,
    version: ApiVersion,
    rule: &str,
    id: &str,
) -> Result<UsableNetwork, ApiError> {
    is_there(version)?;
    catalog.allow(caller, rule)?;
    let absent = || not_found("Network not found");
    let id = Uuid::parse_str(id).map_err(|_| absent())?;
    network.usable_network(scope_of(&caller.0), id).await.map_err(|error| match error {
        ServiceError::NotFound(_) => absent(),
        other => network_error(other),
    })
}

fn view(network: &UsableNetwork, admin: bool) -> Value {
    let nulls = NULLS.iter().chain(ADMIN_NULLS.iter().filter(|_| admin));
    let mut view: Map<String, Value> = nulls.map(|field| ((*field).to_owned(), Value::Null)).collect();
    view.insert("id".into(), json!(network.id));
    view.insert("label".into(), json!(network.name));
    Value::Object(view)
}

/// Nova writes Python's `None` as the block of a project's network.
fn tenant_view(network: &UsableNetwork) -> Value {
    json!({"id": network.id, "cidr": "None", "label": network.name})
}
