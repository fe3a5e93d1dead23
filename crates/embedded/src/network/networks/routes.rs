//! Networks.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::network::records::NetworkRecord;
use crate::network::resource::{resource, several};
use crate::network::routes::with;

resource! {
    NetworkRecord, kind: "Network", path: "networks", name: "network", collection: "networks",
    list: networks, find: network_record, create: create_network, update: update_network, delete: delete_network, body: body
}
several!(NetworkRecord, create_networks);

fn body(network: &NetworkRecord, caller: &Caller) -> Result<Value, ApiError> {
    let status = if network.admin_state_up { "ACTIVE" } else { "DOWN" };
    let mut value = with(
        network,
        json!({
            "status": status,
            "availability_zones": [],
            "availability_zone_hints": [],
            "ipv4_address_scope": null,
            "ipv6_address_scope": null,
        }),
    )?;
    if let Some(map) = value.as_object_mut().filter(|_| !caller.0.is_admin()) {
        map.retain(|name, _| !name.starts_with("provider:"));
    }
    Ok(value)
}
