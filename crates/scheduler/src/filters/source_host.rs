//! A move leaves its host, unless it may stay (INVARIANTS C4): a cold migration may if the node supports that.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::scheduling::OperationKind;

/// The trait of nodes whose hypervisor can migrate a server to its own host.
pub const SAME_HOST_COLD_MIGRATE: &str = "COMPUTE_SAME_HOST_COLD_MIGRATE";

/// See the file's description.
pub struct SourceHostFilter;

impl HostFilter for SourceHostFilter {
    fn name(&self) -> &'static str {
        "SourceHostFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        let at_home = request.demand.source.as_ref().is_some_and(|source| source.host == *host.name());
        let may_stay = match request.demand.operation {
            OperationKind::Create | OperationKind::Unshelve => true,
            OperationKind::Resize | OperationKind::LiveMigrate | OperationKind::Evacuate => false,
            OperationKind::Migrate => host.has_trait(SAME_HOST_COLD_MIGRATE),
        };
        if at_home && !may_stay { Err("the server is on it".into()) } else { Ok(()) }
    }
}
