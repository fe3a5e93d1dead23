//! Each extra spec of the flavor with the scope `aggregate_instance_extra_specs:` must match a value that the host's aggregates give to
//! that key. This ties flavors to generations of hardware. Keys without a scope are ignored: they may mean something else.

use super::{HostFilter, HostState, Reason, Request, extra_specs_ops};
use cellshift_domain::reason;

const SCOPE: &str = "aggregate_instance_extra_specs:";

/// See the file's description.
pub struct AggregateInstanceExtraSpecsFilter;

impl HostFilter for AggregateInstanceExtraSpecsFilter {
    fn name(&self) -> &'static str {
        "AggregateInstanceExtraSpecsFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        for (key, condition) in &request.demand.request_spec.flavor.extra_specs {
            let Some(key) = key.strip_prefix(SCOPE) else { continue };
            if !host.aggregate_values(key).iter().any(|value| extra_specs_ops::matches(value, condition)) {
                return Err(reason!("no aggregate with {key} {condition}"));
            }
        }
        Ok(())
    }
}
