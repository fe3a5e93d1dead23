//! Drains in flight: all servers leave a host or a cell. The drain and the progress of each server are rows of the API database, and whoever
//! holds the drain's lease goes on from them: after a crash, its successor. Moves are begun through the conductors, as users' are.

mod choice;
mod flight;
pub mod outlook;
pub mod preview;
mod try_move;
mod undo;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::api::drains::DrainLease;
use crate::domain::context::RequestContext;
use crate::domain::drain::{Drain, DrainServer, DrainServerState, DrainState};
use crate::domain::service::{Service, ServiceChange};
use crate::saga::error::StepError;
use crate::saga::operations::BeginOperation;
use crate::saga::world::World;

/// The pause between two looks for drains to drive.
pub const PACE: Duration = Duration::from_secs(1);
/// The pause between two looks at drains with moves in flight.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// A server is refused after this many failed tries.
const TRIES_MAX: i32 = 3;
/// The binary of the service that takes servers.
const COMPUTE: &str = "nova-compute";

/// Drives drains.
pub struct Drains {
    world: Arc<World>,
    conductor: Arc<dyn BeginOperation>,
    /// The name with which this controller signs leases.
    owner: String,
    /// The epochs of the leases that this incarnation holds.
    held: Mutex<BTreeMap<Uuid, i64>>,
}

/// A drain that this controller drives.
struct Driven<'a> {
    drains: &'a Drains,
    lease: DrainLease,
    drain: Drain,
}

impl Drains {
    /// Makes a driver that signs leases with `owner`.
    pub fn new(world: Arc<World>, conductor: Arc<dyn BeginOperation>, owner: &str) -> Drains {
        Drains { world, conductor, owner: owner.to_owned(), held: Mutex::default() }
    }

    /// Drives all drains until none has anything to do now.
    pub async fn run(&self) {
        while self.run_once().await {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Brings each drain one look further. True if one is at work.
    async fn run_once(&self) -> bool {
        match self.world.operations.drains_to_drive().await {
            Ok(drains) => join_all(drains.into_iter().map(|id| self.drive(id))).await.contains(&true),
            Err(error) => {
                log::debug!("the drains cannot be read, they go on later: {error}");
                false
            }
        }
    }

    async fn drive(&self, id: Uuid) -> bool {
        let operations = &self.world.operations;
        let held = self.held.lock().get(&id).copied();
        let lease = match operations.lease_drain(id, &self.owner, held).await {
            Ok(Some(lease)) => lease,
            Ok(None) | Err(_) => {
                self.held.lock().remove(&id);
                return false;
            }
        };
        self.held.lock().insert(id, lease.epoch);
        let renewing = async {
            loop {
                tokio::time::sleep(operations.renewal_interval()).await;
                let _ = operations.lease_drain(id, &self.owner, Some(lease.epoch)).await;
            }
        };
        let looked = async {
            let Some(drain) = operations.drain(id).await? else { return Ok(false) };
            Driven { drains: self, lease, drain }.look().await
        };
        let looked: Result<bool, DbError> = tokio::select! {
            biased;
            looked = looked => looked,
            () = renewing => Ok(false),
        };
        looked.unwrap_or_else(|error| {
            log::warn!(drain:% = id; "a drain goes on later: {error}");
            false
        })
    }
}

impl Driven<'_> {
    fn world(&self) -> &World {
        &self.drains.world
    }

    /// Brings the drain one look further. True if more is to be done soon.
    async fn look(&self) -> Result<bool, DbError> {
        let operations = &self.world().operations;
        let is_running = self.drain.state == DrainState::Running;
        if is_running && !self.drain.hosts_disabled {
            match self.disable_hosts().await {
                Ok(()) => operations.drain_hosts_disabled(self.lease, true).await?,
                Err(error) => return self.waits(&error).await,
            }
        }
        let moving = operations.drain_servers(self.drain.id, Some(DrainServerState::Moving), None, i64::MAX).await?;
        let followed = join_all(moving.into_iter().map(|server| self.follow(server))).await;
        let mut moving: Vec<DrainServer> = followed.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        match self.drain.state {
            DrainState::Running => {}
            DrainState::Undoing => return self.undo(&moving).await,
            state => {
                if moving.is_empty() && state == DrainState::Cancelled {
                    operations.settle_drain(self.lease, state).await?;
                }
                return Ok(!moving.is_empty());
            }
        }
        if operations.drain_counts(self.drain.id).await?.get(&DrainServerState::Pending).is_none_or(|pending| *pending == 0) {
            if moving.is_empty() {
                return self.search().await;
            }
            return Ok(true);
        }
        self.begin_due(&mut moving).await?;
        Ok(true)
    }

    /// Begins moves while there is room. Servers whose try failed wait until the others' moves have ended.
    async fn begin_due(&self, moving: &mut Vec<DrainServer>) -> Result<(), DbError> {
        let most = self.drain.plan.max_in_flight as usize;
        let due = self.world().operations.drain_servers_due(self.drain.id, i64::from(self.drain.plan.max_in_flight)).await?;
        let tries = due.first().map_or(0, |first| first.tries);
        let mut planned = if due.is_empty() || moving.len() >= most { Vec::new() } else { self.unclaimed(moving).await };
        for server in due.into_iter().filter(|server| server.tries == tries) {
            let waits_for_others = server.tries > 0 && moving.iter().any(|other| other.tries < server.tries);
            if moving.len() >= most || waits_for_others {
                break;
            }
            moving.extend(self.try_move(server, &mut planned).await?);
        }
        Ok(())
    }

    /// Finds servers on the hosts that the drain does not know yet. The drain is done if there are none.
    async fn search(&self) -> Result<bool, DbError> {
        let operations = &self.world().operations;
        let servers = match self.servers_on_hosts().await {
            Ok(servers) => servers,
            Err(error) => return self.waits(&error).await,
        };
        if self.drain.reason.is_some() {
            operations.note_drain(self.lease, None).await?;
        }
        let left = match waiting::left_by_moves(self.world(), &self.drain.plan).await {
            Ok(left) => left.into_iter().map(|(waiting, host)| (waiting.instance.uuid, host)).collect(),
            Err(error) => return self.waits(&error).await,
        };
        if operations.add_drain_servers(self.lease, servers, left).await? > 0 {
            return Ok(true);
        }
        operations.settle_drain(self.lease, DrainState::Running).await?;
        self.drains.held.lock().remove(&self.drain.id);
        log::info!(drain:% = self.drain.id; "a drain is done");
        Ok(false)
    }

    async fn servers_on_hosts(&self) -> Result<Vec<(Uuid, String)>, StepError> {
        let (plan, mut servers) = (&self.drain.plan, Vec::new());
        for host in &plan.hosts {
            let here = self.world().cell(&plan.cell)?.instances_on_host(host).await?;
            servers.extend(here.into_iter().filter(|server| !server.hidden).map(|server| (server.uuid, host.clone())));
        }
        Ok(servers)
    }

    /// Disables the hosts' services, so that nothing new is scheduled there. A host that is disabled already keeps its reason.
    async fn disable_hosts(&self) -> Result<(), StepError> {
        let reason = Some(Some(self.mark()));
        let change = ServiceChange { disabled: Some(true), disabled_reason: reason, ..ServiceChange::default() };
        self.change_services(|service| !service.disabled, &change).await
    }

    /// Returns the reason with which the drain disables services, by which it also knows them again.
    fn mark(&self) -> String {
        format!("drained by drain {}", self.drain.id)
    }

    /// Changes the services of the drained hosts for which `concerns` is true.
    async fn change_services(&self, concerns: impl Fn(&Service) -> bool, change: &ServiceChange) -> Result<(), StepError> {
        let (plan, cell) = (&self.drain.plan, self.world().cell(&self.drain.plan.cell)?);
        let services = cell.services().await?;
        let of_plan = services.into_iter().filter(|service| service.binary == COMPUTE && plan.hosts.contains(&service.host));
        for service in of_plan.filter(|service| concerns(service)) {
            cell.change_service(service.uuid, change.clone()).await?;
        }
        Ok(())
    }

    /// Notes that the drain waits for something that does not answer.
    async fn waits(&self, error: &StepError) -> Result<bool, DbError> {
        let reason = Some(error.to_string());
        if self.drain.reason != reason {
            self.world().operations.note_drain(self.lease, reason).await?;
        }
        Ok(false)
    }

    /// Returns the context of a request in the operator's name.
    fn caller(&self) -> RequestContext {
        RequestContext { request_id: format!("req-{}", self.world().env.uuid()), ..self.drain.plan.caller.clone() }
    }
}
