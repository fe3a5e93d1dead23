//! Answers questions of the scheduler and the hosts: host states from the cells' records and the API database, server groups from the API
//! database, which host may run a guest, and which bytes it may move.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join, join_all};
use uuid::Uuid;

use super::cell::CellHandle;
use super::compute_host::OwnershipOracle;
use super::scheduler::host_state::{HostCell, HostState, HostStates, HostsOfCells};
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::operations::Operations;
use crate::domain::aggregate::Memberships;
use crate::domain::compute_host::{HostRecord, WhichHosts};
use crate::domain::fence::Fence;
use crate::domain::host_network::VirtualFunction;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::server_group::ServerGroup;
use crate::saga::context::Context;

/// The time limit of a host's answer about its virtual functions.
const FUNCTIONS_PATIENCE: Duration = Duration::from_secs(2);

/// Reads host states, groups and owners.
#[derive(Clone)]
pub struct HostFacts {
    pub api: ApiDb,
    pub operations: Operations,
    /// Without cell0.
    pub cells: Vec<CellHandle>,
    /// The time limit of one cell.
    pub patience: Duration,
    /// The zone of hosts without an aggregate that names one.
    pub default_zone: Arc<str>,
}

impl HostFacts {
    async fn of_cell(
        &self,
        cell: &CellHandle,
        disabled: bool,
        memberships: &Memberships,
        hosts: WhichHosts,
    ) -> Result<Vec<HostState>, DbError> {
        let records = cell.health.call(self.patience, cell.db.host_records(hosts)).await?;
        let of = Arc::new(HostCell { name: cell.name.clone(), uuid: cell.uuid, disabled });
        Ok(records.into_iter().map(|record| self.host_state(cell, &of, memberships, record)).collect())
    }

    fn host_state(&self, cell: &CellHandle, of: &Arc<HostCell>, memberships: &Memberships, record: HostRecord) -> HostState {
        let host = &record.node.facts.host;
        let membership = memberships.of(host);
        HostState {
            cell: Arc::clone(of),
            up: cell.hosts.standing(host).is_up() && !record.service.forced_down,
            availability_zone: Arc::clone(membership.zone.as_ref().unwrap_or(&self.default_zone)),
            aggregates: Arc::clone(&membership.aggregates),
            in_placement: None,
            service: record.service,
            node: Arc::clone(&record.node.facts),
        }
    }

    /// Returns the transfers that the server's operation in flight has hosts make. An operation of another release may be unreadable here.
    async fn transfers_in_flight(&self, server: Uuid) -> Result<Vec<HostTransfer>, DbError> {
        let Some(saga) = self.operations.in_flight(server).await? else { return Ok(Vec::new()) };
        let context: Context = serde_json::from_str(&saga.context)?;
        Ok(context.part().transfers())
    }
}

#[async_trait]
impl HostStates for HostFacts {
    async fn host_states(&self, cells: Option<Vec<String>>, hosts: WhichHosts) -> HostsOfCells {
        let (Ok(mappings), Ok(memberships)) = join(self.api.cell_mappings(), self.api.memberships()).await else {
            return HostsOfCells { hosts: Vec::new(), silent_cells: self.cells.iter().map(|cell| cell.name.clone()).collect() };
        };
        let disabled: BTreeSet<Uuid> = mappings.iter().filter(|mapping| mapping.disabled).map(|mapping| mapping.uuid).collect();
        let scope = self.cells.iter().filter(|cell| cells.as_ref().is_none_or(|names| names.contains(&cell.name)));
        let questions = scope.map(|cell| async {
            let answer = self.of_cell(cell, disabled.contains(&cell.uuid), &memberships, hosts.clone()).await;
            (cell.name.clone(), answer)
        });
        let mut all = HostsOfCells::default();
        for (name, answer) in join_all(questions).await {
            match answer {
                Ok(hosts) => all.hosts.extend(hosts),
                Err(error) => {
                    log::warn!(cell = name.as_str(); "the scheduler goes without this cell: {error}");
                    all.silent_cells.push(name);
                }
            }
        }
        all
    }

    async fn free_functions(&self, hosts: &[HostState]) -> BTreeMap<String, Vec<VirtualFunction>> {
        let questions = hosts.iter().filter(|host| host.up).filter_map(|host| {
            let cell = self.cells.iter().find(|cell| cell.name == host.cell.name)?;
            Some(async { (host.name().clone(), cell.hosts.query(host.name(), HostQuery::FreeFunctions, FUNCTIONS_PATIENCE).await) })
        });
        let answers = join_all(questions).await.into_iter();
        let functions = answers.filter_map(|(host, answer)| match answer {
            Ok(HostAnswer::FreeFunctions(functions)) => Some((host, functions)),
            _ => None,
        });
        functions.collect()
    }

    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, Reason> {
        self.api.placed_group(group).await.map_err(|error| reason!("{error}"))
    }

    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, Reason> {
        let mut hosts = BTreeMap::new();
        for server in servers {
            let owner = self.operations.ownership(*server).await.map_err(|error| reason!("{error}"))?.and_then(|row| row.owner);
            hosts.insert(*server, owner.map(|(_, host)| host).into_iter().collect());
        }
        Ok(hosts)
    }
}

#[async_trait]
impl OwnershipOracle for HostFacts {
    async fn may_run(&self, cell: &str, host: &str, server: Uuid) -> Option<(i64, i64)> {
        match self.operations.may_run(server, cell.to_owned(), host.to_owned()).await {
            Ok(answer) => answer,
            Err(error) => {
                log::warn!(server:% = server, host; "who owns the server cannot be told now: {error}");
                None
            }
        }
    }

    async fn is_latest(&self, fence: Fence) -> Option<bool> {
        let answer = self.operations.is_latest(fence).await;
        answer.inspect_err(|error| log::warn!(server:% = fence.server; "whether a start is late cannot be told now: {error}")).ok()
    }

    async fn forgotten(&self, servers: Vec<Uuid>) -> Vec<Uuid> {
        self.operations.forgotten(servers).await.unwrap_or_else(|error| {
            log::warn!("a host remembers servers that are gone for now: {error}");
            Vec::new()
        })
    }

    async fn may_move(&self, server: Uuid, transfer: &HostTransfer) -> Option<bool> {
        let transfers = self.transfers_in_flight(server).await;
        let transfers = transfers.inspect_err(|why| log::warn!(server:% = server; "which bytes its hosts move cannot be told now: {why}"));
        transfers.ok().map(|transfers| transfers.contains(transfer))
    }
}
