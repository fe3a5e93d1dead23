//! Subnet pools.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::network::records::SubnetPool;
use crate::network::resource::{resource, several};
use crate::network::routes::with;

resource! {
    SubnetPool, kind: "Subnet pool", path: "subnetpools", name: "subnetpool", collection: "subnetpools",
    list: subnet_pools, find: subnet_pool, create: create_subnet_pool, update: update_subnet_pool, delete: delete_subnet_pool, body: body
}
several!(SubnetPool, create_subnet_pools);

/// Neutron shows the prefix lengths as texts.
fn body(pool: &SubnetPool, _: &Caller) -> Result<Value, ApiError> {
    let more = json!({
        "default_prefixlen": pool.default_prefixlen.to_string(),
        "min_prefixlen": pool.min_prefixlen.to_string(),
        "max_prefixlen": pool.max_prefixlen.to_string(),
        "address_scope_id": null,
    });
    with(pool, more)
}
