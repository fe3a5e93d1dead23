//! Security groups.

use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::network::records::SecurityGroup;
use crate::network::resource::resource;
use crate::network::routes::with;

resource! {
    SecurityGroup, kind: "Security group", path: "security-groups", name: "security_group", collection: "security_groups",
    list: security_groups, find: security_group, create: create_security_group, update: update_security_group,
    delete: delete_security_group, body: body
}

fn body(group: &SecurityGroup, _: &Caller) -> Result<Value, ApiError> {
    let rules = group.security_group_rules.iter().map(super::rule_routes::body).collect::<Result<Vec<_>, _>>()?;
    with(group, json!({"security_group_rules": rules, "shared": false}))
}
