//! The scheduler's sources of what it knows of compute hosts.

use std::collections::BTreeMap;

use async_trait::async_trait;
pub use cellshift_scheduler::host_state::{HostCell, HostState, is_attribute};
use uuid::Uuid;

use crate::domain::compute_host::WhichHosts;
use crate::domain::host_network::VirtualFunction;
use crate::domain::reason::Reason;
use crate::domain::server_group::ServerGroup;

/// The hosts of the cells that answered.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostsOfCells {
    /// In any order.
    pub hosts: Vec<HostState>,
    /// Cells that failed or did not answer in time. None of their hosts is considered (INVARIANTS C2).
    pub silent_cells: Vec<String>,
}

/// The source of host states: the cells' records and the API database.
#[async_trait]
pub trait HostStates: Send + Sync {
    /// Returns these hosts of the named cells, or of all cells, as the cells' records are now. Bounded in time: a cell that fails or does not
    /// answer is skipped.
    async fn host_states(&self, cells: Option<Vec<String>>, hosts: WhichHosts) -> HostsOfCells;

    /// Returns the virtual functions (SR-IOV) that no port has, by host. Bounded in time: a host that does not answer has no entry.
    async fn free_functions(&self, hosts: &[HostState]) -> BTreeMap<String, Vec<VirtualFunction>>;

    /// Returns a server group with all members and the hosts that own them over **all** cells, even silent ones, because the ownership rows
    /// of the API database name them. A member without a host has none. None if there is no such group. The scheduler adds the hosts on
    /// which members hold claims.
    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, Reason>;

    /// Returns the hosts that own these servers over all cells, in the same way. A server without a host, or one that is gone, has none.
    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, Reason>;
}
