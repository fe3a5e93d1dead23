//! The host's cell must be enabled. A disabled cell takes no new servers, but its servers may move within it: a request that is confined to
//! the cell passes (INVARIANTS C1), and a request that may choose among cells does not (INVARIANTS C2).

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::reason;
use cellshift_domain::scheduling::OperationKind;

/// See the file's description.
pub struct CellEnabledFilter;

impl HostFilter for CellEnabledFilter {
    fn name(&self) -> &'static str {
        "CellEnabledFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        // A shelved server has no host, and its record is in the cell that it is confined to.
        let shelved = request.demand.operation == OperationKind::Unshelve;
        let within = shelved || request.demand.source.as_ref().is_some_and(|source| source.cell == host.cell.name);
        if host.cell.disabled && !(within && request.confined_to() == Some(&host.cell.name)) {
            return Err(reason!("cell {} is disabled", host.cell.name));
        }
        Ok(())
    }

    fn judges_forced_host(&self) -> bool {
        true
    }
}
