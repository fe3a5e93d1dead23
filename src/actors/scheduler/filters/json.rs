//! The hint `query`: an expression over what is known of a host, as [`crate::domain::host_query`] has it.

use super::{HostFilter, HostState, Reason, Request};
use crate::domain::scheduler_hints::query;

/// See the file.
pub struct JsonFilter;

impl HostFilter for JsonFilter {
    fn name(&self) -> &'static str {
        "JsonFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        let Some(query) = query(&request.asked.request_spec.scheduler_hints)? else { return Ok(()) };
        match query.holds(&|path| host.attribute(path)) {
            true => Ok(()),
            false => Err("does not answer the query".to_owned()),
        }
    }
}
