//! The host must match the flavor's extra specs with the scope `capabilities:`, and those without a scope that name a known property of
//! hosts. Other keys belong to other filters.

use super::{HostFilter, HostState, Reason, Request, extra_specs_ops};
use crate::host_state::is_attribute;
use cellshift_domain::reason;

/// The width of a host's physical addresses has a key of its own.
const ADDRESS_BITS: &str = "hw:maxphysaddr_bits";

/// See the file's description.
pub struct ComputeCapabilitiesFilter;

impl HostFilter for ComputeCapabilitiesFilter {
    fn name(&self) -> &'static str {
        "ComputeCapabilitiesFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        for (key, condition) in &request.demand.request_spec.flavor.extra_specs {
            let (path, condition) = match key.split_once(':') {
                _ if key == ADDRESS_BITS => ("cpu_info:maxphysaddr:bits", format!(">= {condition}")),
                Some(("capabilities", path)) => (path, condition.clone()),
                None if is_attribute(key) => (key.as_str(), condition.clone()),
                _ => continue,
            };
            let path: Vec<&str> = path.split(':').collect();
            let met = host.attribute(&path).is_some_and(|value| extra_specs_ops::matches(&text(&value), &condition));
            if !met {
                return Err(reason!("has no {} {condition}", path.join(":")));
            }
        }
        Ok(())
    }
}

/// Returns the value in the form that operators of extra specs compare.
fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Bool(true) => "True".to_owned(),
        serde_json::Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}
