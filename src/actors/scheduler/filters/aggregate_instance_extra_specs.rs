//! Each extra spec of the flavor, scoped `aggregate_instance_extra_specs:` or without a scope, is met by a value that the
//! host's aggregates give to that key. This is what ties flavors to generations of hardware.

use super::{HostFilter, HostState, Reason, Request, extra_specs_ops};

const SCOPE: &str = "aggregate_instance_extra_specs";

/// See the file.
pub struct AggregateInstanceExtraSpecsFilter;

impl HostFilter for AggregateInstanceExtraSpecsFilter {
    fn name(&self) -> &'static str {
        "AggregateInstanceExtraSpecsFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        for (key, wanted) in &request.asked.request_spec.flavor.extra_specs {
            let key = match key.split_once(':') {
                Some((SCOPE, rest)) => rest,
                // Another part's business.
                Some(_) => continue,
                None => key,
            };
            if !host.aggregate_values(key).iter().any(|value| extra_specs_ops::matches(value, wanted)) {
                return Err(format!("no aggregate with {key} {wanted}"));
            }
        }
        Ok(())
    }
}
