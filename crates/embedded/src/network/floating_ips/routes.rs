//! Floating IPs.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::network::Port;
use crate::network::records::FloatingIpRecord;
use crate::network::resource::resource;
use crate::network::routes::with;

resource! {
    FloatingIpRecord, kind: "Floating IP", path: "floatingips", name: "floatingip", collection: "floatingips",
    list: floating_ips, find: floating_ip, create: create_floating_ip, update: update_floating_ip, delete: delete_floating_ip, body: body
}

/// Returns the API's view of a floating IP, which is ACTIVE while it leads to a port.
fn body(floating: &FloatingIpRecord, _: &Caller) -> Result<Value, ApiError> {
    let status = if floating.port_id.is_some() { "ACTIVE" } else { "DOWN" };
    with(floating, json!({"status": status, "port_details": floating.port_details.as_ref().map(details)}))
}

fn details(port: &Port) -> Value {
    json!({
        "name": port.name,
        "network_id": port.network_id,
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
    })
}
