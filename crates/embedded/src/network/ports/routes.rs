//! Ports.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::network::query::ListQuery;
use crate::network::records::{PortRecord, Scope};
use crate::network::resource::{Resource, several, single};
use crate::network::routes::moment;
use crate::network::{EmbeddedNetwork, PortFilter};

impl Resource for PortRecord {
    const KIND: &'static str = "Port";
    const PATH: &'static str = "/network/v2.0/ports";
    const NAME: &'static str = "port";
    const COLLECTION: &'static str = "ports";

    async fn list(service: &EmbeddedNetwork, scope: Scope, query: &ListQuery) -> Result<Vec<PortRecord>, ServiceError> {
        let filter = PortFilter {
            device_id: query.only("device_id"),
            network_id: query.only("network_id"),
            project_id: query.only("project_id").or_else(|| query.only("tenant_id")),
            name: query.only("name"),
            id: query.only("id"),
        };
        service.ports(scope, filter).await
    }

    single!(PortRecord, find: port_record, create: add_port, update: update_port, delete: remove_port, body: body);
}
several!(PortRecord, add_ports);

/// Returns the API's view of a port. Only administrators see its host and its resource request.
fn body(record: &PortRecord, caller: &Caller) -> Result<Value, ApiError> {
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
    Ok(value)
}
