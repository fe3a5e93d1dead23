//! Ports.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::PortFilter;
use crate::network::query::ListQuery;
use crate::network::records::PortRecord;
use crate::network::routes::{Service, Wanted, attributes, id_of, moment, reader, refusal, wanted, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/ports").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/ports/{id}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let wanted = PortFilter {
        device_id: query.only("device_id"),
        network_id: query.only("network_id"),
        project_id: query.only("project_id").or_else(|| query.only("tenant_id")),
        name: query.only("name"),
        id: query.only("id"),
    };
    let found = service.ports(reader(&caller)?, wanted).await.map_err(refusal)?;
    query.answer(&request, "ports", found.iter().map(|port| body(port, &caller)).collect())
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.port_record(reader(&caller)?, id_of("Port", &id)?).await.map_err(refusal)?;
    Ok(query.one("port", body(&found, &caller)))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let made = match wanted(request.into_inner(), "port", "ports")? {
        Wanted::One(attributes) => {
            let made = service.add_port(writer(&caller)?, attributes).await.map_err(refusal)?;
            json!({"port": body(&made, &caller)})
        }
        Wanted::Several(all) => {
            let made = service.add_ports(writer(&caller)?, all).await.map_err(refusal)?;
            json!({"ports": made.iter().map(|one| body(one, &caller)).collect::<Vec<_>>()})
        }
    };
    Ok(HttpResponse::Created().json(made))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "port")?;
    let changed = service.update_port(writer(&caller)?, id_of("Port", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"port": body(&changed, &caller)})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.remove_port(writer(&caller)?, id_of("Port", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the API's view of a port. Only administrators see its host and its resource request.
pub(in crate::network) fn body(record: &PortRecord, caller: &Caller) -> Value {
    let port = &record.port;
    let active = port.bindings.iter().find(|binding| binding.status == "ACTIVE");
    let vnic_type = active.map_or(&port.vnic_type, |binding| &binding.vnic_type);
    let mut value = json!({
        "id": port.id,
        "name": port.name,
        "network_id": port.network_id,
        "project_id": port.project_id,
        "tenant_id": port.project_id,
        "description": record.description,
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
        "fixed_ips": port.fixed_ips,
        "security_groups": port.security_groups,
        "allowed_address_pairs": record.allowed_address_pairs,
        "extra_dhcp_opts": record.extra_dhcp_opts,
        "port_security_enabled": record.port_security_enabled,
        "qos_policy_id": record.qos_policy_id,
        "qos_network_policy_id": record.qos_network_policy_id,
        "tags": port.tags,
        "revision_number": record.revision_number,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "binding:vnic_type": vnic_type,
    });
    if let Some(map) = value.as_object_mut().filter(|_| caller.0.is_admin()) {
        let details = if active.is_some() { json!({"port_filter": true, "connectivity": "l2"}) } else { json!({}) };
        map.insert("binding:host_id".into(), json!(active.map_or("", |binding| binding.host.as_str())));
        map.insert("binding:vif_type".into(), json!(active.map_or("unbound", |binding| binding.vif_type.as_str())));
        map.insert("binding:vif_details".into(), details);
        map.insert("binding:profile".into(), active.map_or(&record.profile, |binding| &binding.profile).clone());
        map.insert("resource_request".into(), json!(port.resource_request));
    }
    value
}
