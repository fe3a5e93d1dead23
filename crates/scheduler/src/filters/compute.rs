//! The host's compute service must be up and enabled.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::reason;

/// See the file's description.
pub struct ComputeFilter;

impl HostFilter for ComputeFilter {
    fn name(&self) -> &'static str {
        "ComputeFilter"
    }

    fn passes(&self, host: &HostState, _: &Request) -> Result<(), Reason> {
        if host.service.disabled {
            return Err(match &host.service.disabled_reason {
                Some(reason) => reason!("disabled: {reason}"),
                None => "disabled".into(),
            });
        }
        if host.service.forced_down {
            return Err("forced down".into());
        }
        if host.up { Ok(()) } else { Err("down".into()) }
    }

    fn judges_forced_host(&self) -> bool {
        true
    }
}
