//! The rights to set a port's attributes, as in Neutron's default policy. Many projects use a shared network, so only its owner decides
//! about addresses on it and about protection against spoofed ones.

use cellshift_domain::reason;
use serde_json::Value;
use uuid::Uuid;

use crate::ServiceError;
use crate::network::records::{Attributes, NetworkRecord, Scope};

/// The attributes that only the network's owner may set, even on another's port.
const OWNERS: &[&str] = &["mac_address", "port_security_enabled", "allowed_address_pairs"];

/// Refuses a port on a network that is not shared with the caller, or attributes that only the network's owner may set.
pub(in crate::network) fn may_create(scope: &Scope, network: &NetworkRecord, attributes: &Attributes) -> Result<(), ServiceError> {
    if scope.may_change(&network.project_id) {
        return Ok(());
    }
    if !network.shared {
        return refused("create_port");
    }
    if has_address(attributes) {
        return refused("create_port:fixed_ips:ip_address");
    }
    of_owners("create_port", attributes)
}

/// Refuses changes that only the owner of the port's network may make. A new MAC address needs the role manager in the network's project.
pub(in crate::network) fn may_update(scope: &Scope, network_owner: &str, attributes: &Attributes) -> Result<(), ServiceError> {
    let owns = scope.may_change(network_owner);
    if attributes.contains_key("mac_address") && !(scope.admin || owns && scope.manager) {
        return refused("update_port:mac_address");
    }
    if owns {
        return Ok(());
    }
    if attributes.contains_key("fixed_ips") {
        return refused("update_port:fixed_ips");
    }
    of_owners("update_port", attributes)
}

/// Refuses security groups and address pairs of a port without port security: nothing would hold them.
pub(in crate::network) fn check_port_security(secured: bool, groups: &[Uuid], pairs: &[Value]) -> Result<(), ServiceError> {
    if secured {
        return Ok(());
    }
    if !groups.is_empty() {
        let why = "Port security must be enabled and port must have an IP address in order to use security groups.";
        return Err(ServiceError::Invalid(why.into()));
    }
    match pairs.is_empty() {
        true => Ok(()),
        false => Err(ServiceError::Conflict("Port Security must be enabled in order to have allowed address pairs on a port.".into())),
    }
}

fn of_owners(action: &str, attributes: &Attributes) -> Result<(), ServiceError> {
    if let Some(name) = OWNERS.iter().find(|name| attributes.contains_key(**name)) {
        return refused(&format!("{action}:{name}"));
    }
    // Ports of the network itself belong to routers and DHCP servers; a user's port of this kind could impersonate one.
    match attributes.get("device_owner").and_then(Value::as_str) {
        Some(owner) if owner.starts_with("network:") => refused(&format!("{action}:device_owner")),
        _ => Ok(()),
    }
}

fn has_address(attributes: &Attributes) -> bool {
    attributes.get("fixed_ips").and_then(Value::as_array).into_iter().flatten().any(|fixed| fixed.get("ip_address").is_some())
}

fn refused(rule: &str) -> Result<(), ServiceError> {
    Err(ServiceError::Forbidden(reason!("rule:{rule} is disallowed by policy")))
}
