//! What a step can reach: the databases, the hosts and the services, each behind its own door. Nothing here can be used
//! without saying for which server and under which fence.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::error::StepError;
use super::notifications::Notifications;
use super::scheduling::Scheduling;
use super::step::{Deadline, Step};
use super::step_name::StepName;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::debts::LONGEST_PAUSE;
use crate::db::api::operations::Operations;
use crate::db::cell::CellDb;
use crate::db::cell::compute_nodes::ComputeNode;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply, HostRequest};
use crate::env::Env;
use crate::saga::context::{Head, Place};
use crate::services::image::{Image, ImageService};
use crate::services::network::NetworkService;
use crate::services::placement::PlacementService;
use crate::services::volume::VolumeService;
use crate::virt::{HostUnreachable, Hosts};

/// The cell that keeps servers which never got a host.
pub const CELL0: &str = "cell0";

/// How sagas behave, from the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seconds per step that differ from the tables.
    pub deadlines: BTreeMap<StepName, u64>,
    /// Bring the source guest back when a move fails before the pivot (INVARIANTS S7); without, the server goes to ERROR and its
    /// user hard-reboots it.
    pub recover_source_guest: bool,
    /// How long a guest may take to stop by itself, in milliseconds.
    pub shutdown_grace_ms: u64,
    /// Pause before the second try; doubles with each.
    pub back_off_first: Duration,
    /// The longest pause between tries.
    pub back_off_max: Duration,
    /// How long paying one debt may take.
    pub debt_deadline: Duration,
    /// The pause after the first try of a debt that could not be paid, for all conductors. It doubles with each try, up to
    /// [`LONGEST_PAUSE`].
    pub debt_rest: Duration,
    /// Where the service keeps its files, for the audit; none where files are not kept.
    pub data_dir: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            deadlines: BTreeMap::new(),
            recover_source_guest: true,
            shutdown_grace_ms: 60_000,
            back_off_first: Duration::from_millis(50),
            back_off_max: Duration::from_secs(10),
            debt_deadline: Duration::from_secs(30),
            debt_rest: Duration::from_millis(1500),
            data_dir: None,
        }
    }
}

impl Settings {
    /// How long a step may take (or rest without progress).
    pub fn deadline(&self, step: &Step) -> Duration {
        let seconds = self.deadlines.get(&step.name).copied().unwrap_or(match step.deadline {
            Deadline::Within(seconds) | Deadline::WithoutProgress(seconds) => seconds,
        });
        Duration::from_secs(seconds)
    }

    /// The pause after this many tries to pay a debt.
    pub fn debt_pause(&self, tries: i64) -> Duration {
        let doublings = u32::try_from(tries.saturating_sub(1).clamp(0, 16)).unwrap_or(16);
        self.debt_rest.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
    }

    /// The pause before try number `tries` + 1.
    pub fn back_off(&self, tries: u32) -> Duration {
        self.back_off_first.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(self.back_off_max)
    }
}

/// A cell as sagas know it.
#[derive(Clone)]
pub struct CellRef {
    pub uuid: Uuid,
    pub db: CellDb,
}

/// Everything a step can reach.
pub struct World {
    pub env: Env,
    pub operations: Operations,
    pub api: ApiDb,
    /// By name, [`CELL0`] among them.
    pub cells: BTreeMap<String, CellRef>,
    pub hosts: Arc<dyn Hosts>,
    pub scheduling: Arc<dyn Scheduling>,
    pub images: Arc<dyn ImageService>,
    pub network: Arc<dyn NetworkService>,
    pub volumes: Arc<dyn VolumeService>,
    pub placement: Arc<dyn PlacementService>,
    pub notifications: Arc<dyn Notifications>,
    pub settings: Settings,
}

/// Longer than any step's own deadline: the runner's is the one that counts.
const HOST_PATIENCE: Duration = Duration::from_secs(24 * 3600);

impl World {
    /// The database of a cell.
    pub fn cell(&self, name: &str) -> Result<&CellDb, StepError> {
        self.cells.get(name).map(|cell| &cell.db).ok_or_else(|| StepError::Refused(format!("cell {name} is not known here")))
    }

    /// The id of a cell.
    pub fn cell_uuid(&self, name: &str) -> Result<Uuid, StepError> {
        self.cells.get(name).map(|cell| cell.uuid).ok_or_else(|| StepError::Refused(format!("cell {name} is not known here")))
    }

    /// The name of a cell.
    pub fn cell_name(&self, uuid: Uuid) -> Result<&str, StepError> {
        let found = self.cells.iter().find(|(_, cell)| cell.uuid == uuid);
        found.map(|(name, _)| name.as_str()).ok_or_else(|| StepError::Refused(format!("cell {uuid} is not known here")))
    }

    /// The cell that a host is mapped to.
    pub async fn cell_of_host(&self, host: &str) -> Result<String, StepError> {
        let mapping = match self.api.host_mapping(host).await {
            Err(DbError::NotFound(_)) => return Err(StepError::Refused(format!("Compute host {host} could not be found."))),
            other => other?,
        };
        self.cell_name(mapping.cell_uuid).map(str::to_owned)
    }

    /// The hypervisor of a host.
    pub async fn node_on(&self, cell: &str, host: &str) -> Result<ComputeNode, StepError> {
        let nodes = self.cell(cell)?.compute_nodes().await?;
        nodes
            .into_iter()
            .find(|node| node.host == host)
            .ok_or_else(|| StepError::Refused(format!("Compute host {host} could not be found.")))
    }

    /// True while a host takes requests and no operator has said that it is off.
    pub async fn is_up(&self, place: &Place) -> Result<bool, StepError> {
        let service = self.cell(&place.cell)?.service_on(&place.host, "nova-compute").await?;
        Ok(!service.forced_down && self.hosts.is_alive(&place.cell, &place.host).await)
    }

    /// The zone that an aggregate puts a host in.
    pub async fn zone_of(&self, host: &str) -> Result<Option<String>, StepError> {
        let aggregates = self.api.aggregates().await?;
        Ok(aggregates
            .into_iter()
            .filter(|aggregate| aggregate.hosts.iter().any(|known| known == host))
            .find_map(|a| a.availability_zone().map(str::to_owned)))
    }

    /// The image, with the rights of whoever asked for the operation. Hosts read any image's bytes: a step that names one to them asks
    /// here first.
    pub async fn usable_image(&self, head: &Head, id: Uuid) -> Result<Image, StepError> {
        Ok(self.images.visible_image(&head.caller, id).await?)
    }

    /// Asks a host to do something for the context's server. A refusal, a failure and silence are errors.
    pub async fn ask(&self, head: &Head, place: &Place, fence: Fence, command: HostCommand) -> Result<HostReply, StepError> {
        let request = HostRequest { fence, operation: head.saga, command };
        match self.hosts.request(&place.cell, &place.host, request, HOST_PATIENCE).await {
            Ok(HostReply::Refused { reason } | HostReply::Failed { reason }) => {
                Err(StepError::Refused(format!("host {}: {reason}", place.host)))
            }
            Ok(HostReply::Stale { epoch, attempt }) => {
                Err(StepError::Overtaken(format!("host {} has obeyed fence ({epoch}, {attempt})", place.host)))
            }
            Ok(reply) => Ok(reply),
            Err(error @ (HostUnreachable::NotDelivered(_) | HostUnreachable::Unknown(_))) => {
                Err(StepError::Unknown(format!("host {}: {error}", place.host)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_waits_longer_after_each_try_up_to_a_bound() {
        let settings = Settings::default();
        let pauses: Vec<u64> = [1, 2, 3, 6, 100].map(|tries| settings.debt_pause(tries).as_millis() as u64).into();
        assert_eq!(pauses, [1500, 3000, 6000, 30_000, 30_000]);
        assert_eq!(Settings { debt_rest: Duration::ZERO, ..settings }.debt_pause(100), Duration::ZERO);
    }
}
