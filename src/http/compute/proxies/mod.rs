//! Proxies of the compute API to the network service, as they were before clients asked it themselves. They end with microversion 2.35.

mod floating_ips;
mod networks;
mod security_group_rules;
mod security_groups;

use actix_web::web;

use super::answer::no_such_resource;
use crate::domain::context::RequestContext;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::network::EmbeddedNetwork;
use crate::services::network::records::Scope;

/// The last microversion with proxies.
const LAST: u16 = 35;

type Network = web::Data<EmbeddedNetwork>;

/// Registers the proxies' routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    networks::routes(config);
    floating_ips::routes(config);
    security_groups::routes(config);
    security_group_rules::routes(config);
}

/// Answers 404 to a microversion that has no proxies.
fn is_there(version: ApiVersion) -> Result<(), ApiError> {
    if version.at_most(LAST) { Ok(()) } else { Err(no_such_resource()) }
}

/// Returns the rights with which a caller reaches the network service.
pub fn scope_of(caller: &RequestContext) -> Scope {
    Scope { project_id: caller.project_id.clone(), admin: caller.is_admin(), manager: caller.has_role("manager") }
}
