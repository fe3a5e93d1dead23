//! The hint `query`: an expression over a host's properties, as in [`cellshift_domain::host_query`].

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::scheduler_hints::query;

/// See the file's description.
pub struct JsonFilter;

impl HostFilter for JsonFilter {
    fn name(&self) -> &'static str {
        "JsonFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        let Some(query) = query(&request.demand.request_spec.scheduler_hints).map_err(Reason::public)? else { return Ok(()) };
        match query.holds(&|path| host.attribute(path)) {
            true => Ok(()),
            false => Err("does not answer the query".into()),
        }
    }
}
