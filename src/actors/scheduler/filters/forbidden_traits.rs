//! The host's provider has none of the traits that the flavor forbids (`trait:NAME = forbidden`). Required ones are
//! placement's business.

use super::{HostFilter, HostState, Reason, Request};

/// See the file.
pub struct ForbiddenTraitsFilter;

impl HostFilter for ForbiddenTraitsFilter {
    fn name(&self) -> &'static str {
        "ForbiddenTraitsFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match request.flavor_traits("forbidden").find(|name| host.traits.contains(*name)) {
            Some(name) => Err(format!("has the forbidden trait {name}")),
            None => Ok(()),
        }
    }
}
