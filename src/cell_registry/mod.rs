//! All cells together: finds, lists and edits servers in any cell (NOVA-DIFFERENCES L22, L32, L33).
//!
//! The instance mapping alone decides which copy of a server in a move is shown: a record counts if it lies in the mapped cell, hidden or
//! not, and never otherwise.

mod edit;
mod last_known;
mod list;
mod silent;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use uuid::Uuid;

use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::host_mappings::HostMapping;
use crate::db::cell::CellDb;
use crate::db::cell::instance_list::{InstanceDetails, InstanceView};
use crate::domain::block_device::BlockDevice;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_fault::InstanceFault;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::network_info::NetworkInfo;
use crate::domain::server::TaskState;
use crate::domain::service::Service;
pub use last_known::LastKnown;
use last_known::LastKnownServers;
pub use list::{ListError, ListQuery, ServerList};
pub use silent::{LookupError, SilentCell, SilentServer};

/// The number of times that a look-up follows a server that moves meanwhile.
const CHASES: usize = 8;

/// A handle over all cells and the API database. Cheap to clone.
#[derive(Clone)]
pub struct CellRegistry {
    inner: Arc<Inner>,
}

/// The time limits after which the registry takes a participant for down.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The time limit of a cell's part of a list or look-up.
    pub cell: Duration,
    /// The time since a compute service was last seen.
    pub service: Duration,
}

struct Inner {
    api: ApiDb,
    patience: Patience,
    cells: BTreeMap<String, CellHandle>,
    last_known: LastKnownServers,
}

/// A server and its cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Located {
    /// The cell's name; none for a build request.
    pub cell: Option<String>,
    pub instance: Instance,
}

/// A server with all records that the API shows.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerRecord {
    /// The cell's name; none for a build request.
    pub cell: Option<String>,
    pub instance: Instance,
    pub metadata: BTreeMap<String, String>,
    /// Sorted.
    pub tags: Vec<String>,
    pub network: NetworkInfo,
    /// In the order of their attachment.
    pub block_devices: Vec<BlockDevice>,
    /// The newest fault.
    pub fault: Option<InstanceFault>,
}

/// The state of a server's host, as the API shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostStatus {
    /// The server has no host.
    None,
    Up,
    /// An operator has forced the host down.
    Down,
    /// An operator has disabled the host.
    Maintenance,
    /// The host has not reported.
    Unknown,
}

impl HostStatus {
    /// Returns the API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            HostStatus::None => "",
            HostStatus::Up => "UP",
            HostStatus::Down => "DOWN",
            HostStatus::Maintenance => "MAINTENANCE",
            HostStatus::Unknown => "UNKNOWN",
        }
    }
}

impl ServerRecord {
    fn new(cell: Option<String>, instance: Instance, details: InstanceDetails) -> ServerRecord {
        let InstanceDetails { metadata, tags, network_info, block_devices, fault } = details;
        ServerRecord { cell, instance, metadata, tags, network: network_info, block_devices, fault }
    }

    fn of_build(bundle: InstanceBundle) -> ServerRecord {
        ServerRecord {
            cell: None,
            network: bundle.info_cache.unwrap_or_default(),
            instance: bundle.instance,
            metadata: bundle.metadata,
            tags: bundle.tags,
            block_devices: bundle.block_devices,
            fault: bundle.faults.into_iter().next_back(),
        }
    }
}

/// Whether a look-up returns a server that is deleted, or about to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeletedServers {
    Include,
    Exclude,
}

/// The result of a look-up.
struct Lookup<T> {
    location: Location<T>,
    /// True if the server's delete waits for the operation that has it.
    leaving: bool,
    /// The group that the server is in, which its mapping's database knows, too.
    group: Option<Uuid>,
}

/// The result of a look-up in the mapped cell.
enum Location<T> {
    InCell(String, T),
    Build(Box<InstanceBundle>),
}

impl Location<Instance> {
    fn located(self, leaving: bool) -> Located {
        let mut located = match self {
            Location::InCell(cell, instance) => Located { cell: Some(cell), instance },
            Location::Build(bundle) => Located { cell: None, instance: bundle.instance },
        };
        show_leaving(&mut located.instance, leaving);
        located
    }
}

/// Shows the task of the delete: the record still has the task of the operation that makes room for it.
fn show_leaving(instance: &mut Instance, leaving: bool) {
    if leaving {
        instance.task_state = Some(TaskState::Deleting);
    }
}

impl CellRegistry {
    /// Makes a registry over these cells, by name.
    pub fn new(api: ApiDb, cells: impl IntoIterator<Item = CellHandle>, patience: Patience) -> CellRegistry {
        CellRegistry::remembering(0, api, cells, patience)
    }

    /// As [`CellRegistry::new`], and remembers the servers that were read last, at most this many.
    pub fn remembering(most: usize, api: ApiDb, cells: impl IntoIterator<Item = CellHandle>, patience: Patience) -> CellRegistry {
        let cells = cells.into_iter().map(|cell| (cell.name.clone(), cell)).collect();
        CellRegistry { inner: Arc::new(Inner { api, patience, cells, last_known: LastKnownServers::new(most) }) }
    }

    /// Returns the API database.
    pub fn api(&self) -> &ApiDb {
        &self.inner.api
    }

    /// Returns all cells by name.
    pub fn cells(&self) -> &BTreeMap<String, CellHandle> {
        &self.inner.cells
    }

    /// Returns the cell with this name.
    pub fn cell(&self, name: &str) -> Result<&CellHandle, DbError> {
        self.inner.cells.get(name).ok_or_else(|| DbError::Defect(format!("cell {name} is not known here")))
    }

    fn cell_by_uuid(&self, uuid: Uuid) -> Result<&CellHandle, DbError> {
        let cell = self.inner.cells.values().find(|cell| cell.uuid == uuid);
        cell.ok_or_else(|| DbError::Defect(format!("a mapping names cell {uuid}, which is not known here")))
    }

    /// Returns the server from its mapped cell. [`DbError::NotFound`] if there is none.
    pub async fn find_server(&self, uuid: Uuid) -> Result<Located, LookupError> {
        let lookup = self.chase(uuid, DeletedServers::Exclude, |db| async move { db.instance(uuid).await }).await?;
        Ok(lookup.location.located(lookup.leaving))
    }

    /// Returns the server, even a deleted one, as long as its record is kept.
    pub async fn find_even_deleted(&self, uuid: Uuid) -> Result<Located, LookupError> {
        Ok(self
            .chase(uuid, DeletedServers::Include, |db| async move { db.instance_even_deleted(uuid).await })
            .await?
            .location
            .located(false))
    }

    /// Returns the server with all records that the API shows.
    pub async fn server(&self, uuid: Uuid) -> Result<Arc<ServerRecord>, LookupError> {
        Ok(self.server_and_group(uuid).await?.0)
    }

    /// As [`CellRegistry::server`], with the group that the server is in.
    pub async fn server_and_group(&self, uuid: Uuid) -> Result<(Arc<ServerRecord>, Option<Uuid>), LookupError> {
        match self.chase(uuid, DeletedServers::Exclude, |db| async move { db.instance_view(uuid).await }).await {
            Ok(Lookup { location: Location::InCell(cell, InstanceView { mut instance, details }), leaving, group }) => {
                show_leaving(&mut instance, leaving);
                let record = Arc::new(ServerRecord::new(Some(cell), instance, details));
                self.inner.last_known.read([&record], self.inner.api.db().env().now());
                Ok((record, group))
            }
            Ok(Lookup { location: Location::Build(mut bundle), leaving, group }) => {
                show_leaving(&mut bundle.instance, leaving);
                Ok((Arc::new(ServerRecord::of_build(*bundle)), group))
            }
            Err(error) => {
                if matches!(error, LookupError::Db(DbError::NotFound(_))) {
                    self.inner.last_known.forget(uuid);
                }
                Err(error)
            }
        }
    }

    /// Returns the remembered record of a server in a cell that does not answer.
    pub fn last_known(&self, cell: &str, mapping: &InstanceMapping) -> Option<LastKnown> {
        self.inner.last_known.of(cell, mapping)
    }

    /// Asks a cell about a server that was found there. Within a request its clock counts; a cell that is down is not asked.
    pub async fn ask<T, F>(&self, cell: &str, question: impl FnOnce(CellDb) -> F) -> Result<T, DbError>
    where
        F: Future<Output = Result<T, DbError>>,
    {
        let cell = self.cell(cell)?;
        cell.health.call(self.inner.patience.cell, question(cell.db.clone())).await
    }

    /// Looks in the mapped cell. If the server is not there, looks again as long as the mapping changes.
    async fn chase<T, F>(&self, uuid: Uuid, deleted: DeletedServers, look: impl Fn(CellDb) -> F) -> Result<Lookup<T>, LookupError>
    where
        F: Future<Output = Result<T, DbError>>,
    {
        let mut seen = None;
        for _ in 0..CHASES {
            let (mapping, group) = self.inner.api.instance_mapping_and_group(uuid).await?;
            // The record may be in any cell still.
            let gone = mapping.is_hidden() && deleted == DeletedServers::Exclude;
            let leaving = mapping.is_leaving();
            if seen == Some(mapping.cell_uuid) || gone {
                break;
            }
            seen = Some(mapping.cell_uuid);
            let result = match mapping.cell_uuid {
                None => self.inner.api.build_request(uuid).await.map(|bundle| Location::Build(Box::new(bundle))),
                Some(cell) => {
                    let cell = self.cell_by_uuid(cell)?;
                    match cell.health.call(self.inner.patience.cell, look(cell.db.clone())).await {
                        Err(error @ DbError::Unavailable { .. }) => {
                            return Err(LookupError::Silent(Box::new(SilentServer { cell: cell.name.clone(), mapping, error })));
                        }
                        result => result.map(|record| Location::InCell(cell.name.clone(), record)),
                    }
                }
            };
            match result {
                Err(DbError::NotFound(_)) => {}
                other => return Ok(Lookup { location: other?, leaving, group }),
            }
        }
        Err(DbError::NotFound(format!("Instance {uuid}")).into())
    }

    /// Returns the mapping of a compute host; none for an unknown host.
    pub async fn host_of(&self, host: &str) -> Result<Option<HostMapping>, DbError> {
        match self.inner.api.host_mapping(host).await {
            Ok(mapping) => Ok(Some(mapping)),
            Err(DbError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of a host's cell; none for an unknown host.
    pub async fn cell_of_host(&self, host: &str) -> Result<Option<String>, DbError> {
        match self.host_of(host).await? {
            Some(mapping) => Ok(Some(self.cell_by_uuid(mapping.cell_uuid)?.name.clone())),
            None => Ok(None),
        }
    }

    /// True if the server's host takes requests and no operator has forced it down.
    pub async fn host_is_up(&self, server: &ServerRecord) -> bool {
        let cell = server.cell.as_deref().and_then(|name| self.inner.cells.get(name));
        let takes_requests = cell.zip(server.instance.host.as_deref()).is_some_and(|(cell, host)| cell.hosts.standing(host).is_up());
        takes_requests && self.host_status(server).await != HostStatus::Down
    }

    /// Returns the state of the server's host.
    pub async fn host_status(&self, server: &ServerRecord) -> HostStatus {
        let statuses = self.host_statuses(std::slice::from_ref(server)).await;
        statuses.get(&server.instance.uuid).copied().unwrap_or(HostStatus::Unknown)
    }

    /// Returns the states of the hosts of these servers, with one question per cell, about these hosts only.
    pub async fn host_statuses<S: Borrow<ServerRecord>>(&self, servers: &[S]) -> BTreeMap<Uuid, HostStatus> {
        let servers = || servers.iter().map(S::borrow);
        let mut hosts_by_cell: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (cell, host) in servers().filter_map(|server| Some((server.cell.as_deref()?, server.instance.host.as_deref()?))) {
            hosts_by_cell.entry(cell).or_default().insert(host);
        }
        let questions =
            hosts_by_cell.into_iter().filter_map(|(name, hosts)| Some((self.inner.cells.get(name)?, hosts))).map(|(cell, hosts)| async {
                let hosts = hosts.into_iter().map(str::to_owned).collect();
                let services = cell.health.call(self.inner.patience.cell, cell.db.services_on(hosts, "nova-compute")).await;
                let by_host = services.unwrap_or_default().into_iter().map(|service| (service.host.clone(), service));
                (cell.name.as_str(), by_host.collect())
            });
        let services: BTreeMap<&str, BTreeMap<String, Service>> = join_all(questions).await.into_iter().collect();
        servers().map(|server| (server.instance.uuid, self.status_by(server, &services))).collect()
    }

    fn status_by(&self, server: &ServerRecord, services: &BTreeMap<&str, BTreeMap<String, Service>>) -> HostStatus {
        let (Some(cell), Some(host)) = (server.cell.as_deref(), server.instance.host.as_deref()) else {
            return HostStatus::None;
        };
        let Some(service) = services.get(cell).and_then(|services| services.get(host)) else {
            return HostStatus::Unknown;
        };
        let now = self.inner.api.db().env().now();
        let seen = service.last_seen_up.is_some_and(|at| (now - at).to_std().unwrap_or_default() <= self.inner.patience.service);
        match (service.forced_down, service.disabled, seen) {
            (true, _, _) => HostStatus::Down,
            (_, true, _) => HostStatus::Maintenance,
            (_, _, true) => HostStatus::Up,
            _ => HostStatus::Unknown,
        }
    }
}
