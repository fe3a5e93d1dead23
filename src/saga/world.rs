//! The world of a step: databases, hosts and services. Every use names the server and the fence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellshift_saga::BackOff;
use uuid::Uuid;

use super::error::StepError;
use super::notifications::Notifications;
use super::scheduling::Scheduling;
use super::step::Step;
use super::step_name::StepName;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::debts::LONGEST_PAUSE;
use crate::db::api::operations::Operations;
use crate::db::cell::CellDb;
use crate::domain::compute_node::ComputeNode;
use crate::domain::fence::Fence;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::secret::Sealed;
use crate::domain::service::Service;
use crate::domain::standing::Standing;
use crate::env::{Env, key_pair};
use crate::saga::context::{Head, Place};
use crate::services::image::{Image, ImageService};
use crate::services::network::NetworkService;
use crate::services::placement::PlacementService;
use crate::services::volume::VolumeService;
use crate::virt::{HostUnreachable, Hosts};

/// The cell of servers that never got a host.
pub const CELL0: &str = "cell0";

/// The settings of sagas, from the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Deadlines in seconds per step, where they differ from the tables.
    pub deadlines: BTreeMap<StepName, u64>,
    /// True to start the source guest again when a move fails before the pivot (INVARIANTS S7). If false, the server ends in ERROR and its user
    /// hard-reboots it.
    pub recover_source_guest: bool,
    /// The time for a guest to stop by itself, in milliseconds.
    pub shutdown_grace_ms: u64,
    /// The pause before the second try; it doubles with each.
    pub back_off_first: Duration,
    /// The longest pause between tries.
    pub back_off_max: Duration,
    /// The time limit for paying one debt.
    pub debt_deadline: Duration,
    /// The pause after the first try of a debt that could not be paid, for all conductors. It doubles with each try, up to
    /// [`LONGEST_PAUSE`].
    pub debt_rest: Duration,
    /// The number of further hosts that a live migration asks after a refusal; none for all.
    pub migrate_max_retries: Option<usize>,
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
            migrate_max_retries: None,
        }
    }
}

impl Settings {
    /// Returns the step's time limit, or the limit without progress.
    pub fn deadline(&self, step: &Step) -> Duration {
        self.deadlines.get(&step.name).map_or(step.deadline.limit(), |seconds| Duration::from_secs(*seconds))
    }

    /// Returns the pause after this many tries to pay a debt.
    pub fn debt_pause(&self, tries: i64) -> Duration {
        BackOff { first: self.debt_rest, longest: LONGEST_PAUSE }.pause(u32::try_from(tries.max(0)).unwrap_or(u32::MAX))
    }

    /// Returns the pause before try number `tries` + 1.
    pub fn back_off(&self, tries: u32) -> Duration {
        BackOff { first: self.back_off_first, longest: self.back_off_max }.pause(tries)
    }
}

/// The outcome of earlier calls to a cell's database.
pub trait Reachability: Send + Sync {
    /// Returns the reason if the database is known not to answer.
    fn outage(&self) -> Option<Reason>;
}

/// A cell's id and database.
#[derive(Clone)]
pub struct CellAccess {
    pub uuid: Uuid,
    pub db: CellDb,
    pub health: Arc<dyn Reachability>,
}

/// All that a step can reach.
pub struct World {
    pub env: Env,
    pub operations: Operations,
    pub api: ApiDb,
    /// By name, including [`CELL0`].
    pub cells: BTreeMap<String, CellAccess>,
    pub hosts: Arc<dyn Hosts>,
    pub scheduling: Arc<dyn Scheduling>,
    pub images: Arc<dyn ImageService>,
    pub network: Arc<dyn NetworkService>,
    pub volumes: Arc<dyn VolumeService>,
    pub placement: Arc<dyn PlacementService>,
    pub notifications: Arc<dyn Notifications>,
    pub settings: Settings,
    /// The zone of hosts without an aggregate that names one.
    pub default_zone: String,
}

/// The time limit of a host's answer with its key.
const KEY_PATIENCE: Duration = Duration::from_secs(60);

impl World {
    /// Returns the database of a cell. If the cell is known to be down, the step ends at once instead of at its deadline.
    pub fn cell(&self, name: &str) -> Result<&CellDb, StepError> {
        let cell = self.cells.get(name).ok_or_else(|| StepError::Refused(reason!("cell {name} is not known here")))?;
        match cell.health.outage() {
            Some(reason) => Err(StepError::Unknown(reason)),
            None => Ok(&cell.db),
        }
    }

    /// Returns the id of a cell.
    pub fn cell_uuid(&self, name: &str) -> Result<Uuid, StepError> {
        self.cells.get(name).map(|cell| cell.uuid).ok_or_else(|| StepError::Refused(reason!("cell {name} is not known here")))
    }

    /// Returns the name of a cell.
    pub fn cell_name(&self, uuid: Uuid) -> Result<&str, StepError> {
        let entry = self.cells.iter().find(|(_, cell)| cell.uuid == uuid);
        entry.map(|(name, _)| name.as_str()).ok_or_else(|| StepError::Refused(reason!("cell {uuid} is not known here")))
    }

    /// Returns the cell of a host.
    pub async fn cell_of_host(&self, host: &str) -> Result<String, StepError> {
        let mapping = match self.api.host_mapping(host).await {
            Err(DbError::NotFound(_)) => return Err(StepError::Refused(reason!("Compute host {host} could not be found."))),
            other => other?,
        };
        self.cell_name(mapping.cell_uuid).map(str::to_owned)
    }

    /// Returns the hypervisor of a host.
    pub async fn node_on(&self, cell: &str, host: &str) -> Result<ComputeNode, StepError> {
        let node = self.cell(cell)?.compute_node_on(host).await?;
        node.ok_or_else(|| StepError::Refused(reason!("Compute host {host} could not be found.")))
    }

    /// True if the host takes requests and no operator has forced it down.
    pub async fn is_up(&self, place: &Place) -> Result<bool, StepError> {
        let (standing, service) = self.words_about(place).await?;
        Ok(standing.is_up() && !service.forced_down)
    }

    /// Returns the host's standing. An operator's word that the host is off counts while the host takes no requests, until its agent is heard
    /// of again.
    pub async fn standing(&self, place: &Place) -> Result<Standing, StepError> {
        let (standing, service) = self.words_about(place).await?;
        Ok(service.standing(standing))
    }

    /// True if an operator has forced the host down, and the host takes no requests.
    pub async fn is_forced_off(&self, place: &Place) -> Result<bool, StepError> {
        let (standing, service) = self.words_about(place).await?;
        Ok(service.forced_down && service.standing(standing).is_off())
    }

    /// Returns the host's standing by its link, and its service, which has the operator's word.
    async fn words_about(&self, place: &Place) -> Result<(Standing, Service), StepError> {
        let service = self.cell(&place.cell)?.service_on(&place.host, "nova-compute").await?;
        Ok((self.hosts.standing(&place.cell, &place.host).await, service))
    }

    /// Returns the availability zone of a host.
    pub async fn zone_of(&self, host: &str) -> Result<String, StepError> {
        let memberships = self.api.memberships().await?;
        Ok(memberships.zone_of(host).unwrap_or(&self.default_zone).to_owned())
    }

    /// Returns the image, if the operation's caller may use it. A host reads the image that its operation names, whoever may see it, so a step
    /// checks here before it has a host read one.
    pub async fn usable_image(&self, head: &Head, id: Uuid) -> Result<Image, StepError> {
        Ok(self.images.visible_image(&head.caller, id).await?)
    }

    /// Seals the secrets of a guest for its host, which alone can open them.
    pub async fn seal_for(&self, place: &Place, secrets: &GuestSecrets) -> Result<Sealed, StepError> {
        let key = match self.hosts.query(&place.cell, &place.host, HostQuery::Summary, KEY_PATIENCE).await {
            Ok(HostAnswer::Summary(summary)) => summary.seal_key,
            Ok(_) => None,
            Err(error) => return Err(StepError::Unknown(reason!("host {}: {error}", place.host))),
        };
        let sealed = key.and_then(|key| secrets.sealed_for(key, key_pair::seal_for));
        sealed.ok_or_else(|| StepError::Refused(reason!("host {} gives no key for the secrets of its guest", place.host)))
    }

    /// Sends a host a command for the operation's server, until the caller's deadline. A refusal, a failure and silence are errors.
    pub async fn ask(&self, head: &Head, place: &Place, fence: Fence, command: HostCommand) -> Result<HostReply, StepError> {
        let request_id = head.caller.request_id.clone();
        let request = HostRequest { request_id, ..HostRequest::new(fence, head.saga, command) };
        match self.hosts.request(&place.cell, &place.host, request).await {
            Ok(HostReply::Refused { reason } | HostReply::Failed { reason }) => {
                Err(StepError::Refused(reason!("host {}: {reason}", place.host)))
            }
            Ok(HostReply::Stale { epoch, attempt }) => {
                Err(StepError::Overtaken(reason!("host {} has obeyed fence ({epoch}, {attempt})", place.host)))
            }
            Ok(reply) => Ok(reply),
            Err(error @ HostUnreachable::NotKnown { .. }) => Err(StepError::Refused(reason!("host {}: {error}", place.host))),
            Err(error @ (HostUnreachable::NotDelivered(_) | HostUnreachable::Busy | HostUnreachable::Unknown(_))) => {
                Err(StepError::Unknown(reason!("host {}: {error}", place.host)))
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
