//! The scheduler hints of a new server are followed or refused.

use crate::domain::context::RequestContext;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::scheduler_hints::{self, DIFFERENT_HOST, Hints, SAME_HOST};
use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::ComputeApi;
use crate::http::error::ApiError;

/// Answers 400 for a hint that no enabled filter follows, or that names a server the caller may not name.
pub async fn check(api: &ComputeApi, caller: &RequestContext, hints: &Hints) -> Result<(), ApiError> {
    scheduler_hints::check(hints, &api.options.scheduler_filters).map_err(bad_request)?;
    for hint in [SAME_HOST, DIFFERENT_HOST] {
        let servers = scheduler_hints::servers_named(hints, hint);
        let mappings = api.registry.api().instance_mappings_of(servers.clone()).await?;
        let is_own = |mapping: &InstanceMapping| {
            mapping.queued_for_delete != Some(true) && (mapping.project_id == caller.project_id || caller.is_admin())
        };
        let unknown = servers.iter().find(|server| !mappings.iter().any(|mapping| mapping.instance_uuid == **server && is_own(mapping)));
        if let Some(server) = unknown {
            return Err(bad_request(format!("Instance {server}, which the scheduler hint {hint} names, could not be found.")));
        }
    }
    Ok(())
}
