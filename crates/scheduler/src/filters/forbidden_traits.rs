//! The host's provider must have none of the traits that the flavor forbids (`trait:NAME = forbidden`). Placement checks the required ones.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::reason;

/// See the file's description.
pub struct ForbiddenTraitsFilter;

impl HostFilter for ForbiddenTraitsFilter {
    fn name(&self) -> &'static str {
        "ForbiddenTraitsFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match request.flavor_traits("forbidden").find(|name| host.has_trait(name)) {
            Some(name) => Err(reason!("has the forbidden trait {name}")),
            None => Ok(()),
        }
    }
}
