//! The host's compute service must be up and enabled.

use super::{HostFilter, HostState, Reason, Request};

/// See the file's description.
pub struct ComputeFilter;

impl HostFilter for ComputeFilter {
    fn name(&self) -> &'static str {
        "ComputeFilter"
    }

    fn passes(&self, host: &HostState, _: &Request) -> Result<(), Reason> {
        if host.service.disabled {
            return Err(match &host.service.disabled_reason {
                Some(reason) => format!("disabled: {reason}"),
                None => "disabled".to_owned(),
            });
        }
        if host.service.forced_down {
            return Err("forced down".to_owned());
        }
        if host.up { Ok(()) } else { Err("down".to_owned()) }
    }

    fn judges_forced_host(&self) -> bool {
        true
    }
}
