//! The addresses of networks: how many there are, and how many ports have. Only administrators see them.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::network::query::ListQuery;
use crate::network::records::{IpAvailability, SubnetIps};
use crate::network::routes::{Call, administrator, error, id_of, reader, refusal};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/network-ip-availabilities").route(web::get().to(list)))
        .service(web::resource("/network/v2.0/network-ip-availabilities/{id}").route(web::get().to(show)));
}

/// A network in the answer. Its numbers may be larger than a `Value` takes, because an IPv6 subnet has that many addresses.
#[derive(Serialize)]
struct View<'a> {
    network_id: Uuid,
    network_name: &'a str,
    project_id: &'a str,
    tenant_id: &'a str,
    total_ips: u128,
    used_ips: u64,
    subnet_ip_availability: Vec<&'a SubnetIps>,
}

#[derive(Serialize)]
struct Several<'a> {
    network_ip_availabilities: Vec<View<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    network_ip_availability: View<'a>,
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&call.request)?;
    reader(&call.caller)?;
    // As in Neutron, a list has only what its reader may see.
    let availabilities = if call.caller.0.is_admin() { call.service.ip_availabilities().await.map_err(refusal)? } else { Vec::new() };
    let version = query.only("ip_version");
    let mut views = Vec::new();
    for network in &availabilities {
        if query.matches(&attributes(network))? {
            views.push(view(network, version.as_deref()));
        }
    }
    Ok(HttpResponse::Ok().json(Several { network_ip_availabilities: views }))
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    reader(&call.caller)?;
    let id = id_of("Network", &id)?;
    let unknown = || error(actix_web::http::StatusCode::NOT_FOUND, format!("Network {id} could not be found."));
    administrator(&call.caller).map_err(|_| unknown())?;
    let availabilities = call.service.ip_availabilities().await.map_err(refusal)?;
    let network = availabilities.iter().find(|network| network.network_id == id).ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(One { network_ip_availability: view(network, None) }))
}

/// The attributes that filters apply to.
fn attributes(network: &IpAvailability) -> Value {
    let versions: Vec<i32> = network.subnets.iter().map(|subnet| subnet.ip_version).collect();
    json!({
        "network_id": network.network_id,
        "network_name": network.network_name,
        "project_id": network.project_id,
        "tenant_id": network.project_id,
        "ip_version": versions,
    })
}

/// Shows a network with its subnets of this IP version, or with all of them.
fn view<'a>(network: &'a IpAvailability, version: Option<&str>) -> View<'a> {
    let of_version = |subnet: &&SubnetIps| version.is_none_or(|version| subnet.ip_version.to_string() == version);
    let subnets: Vec<&SubnetIps> = network.subnets.iter().filter(of_version).collect();
    View {
        network_id: network.network_id,
        network_name: &network.network_name,
        project_id: &network.project_id,
        tenant_id: &network.project_id,
        total_ips: subnets.iter().fold(0, |sum: u128, subnet| sum.saturating_add(subnet.total_ips)),
        used_ips: subnets.iter().map(|subnet| subnet.used_ips).sum(),
        subnet_ip_availability: subnets,
    }
}
