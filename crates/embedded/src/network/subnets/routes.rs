//! Subnets.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::network::records::SubnetRecord;
use crate::network::resource::{resource, several};
use crate::network::routes::with;

resource! {
    SubnetRecord, kind: "Subnet", path: "subnets", name: "subnet", collection: "subnets",
    list: subnets, find: subnet, create: create_subnet, update: update_subnet, delete: delete_subnet, body: body
}
several!(SubnetRecord, create_subnets);

fn body(subnet: &SubnetRecord, _: &Caller) -> Result<Value, ApiError> {
    with(subnet, json!({"ipv6_address_mode": null, "ipv6_ra_mode": null, "segment_id": null, "service_types": []}))
}
