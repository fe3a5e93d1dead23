//! A try to move a server: it is looked at, a host is chosen, the move's id is recorded, and only then the move begins. A successor that
//! finds the id but no such operation begins it under the same id, so that the journal refuses the second of the two.

use chrono::TimeDelta;
use uuid::Uuid;

use super::choice::{self, Beside, Choice, NoChoice};
use super::waiting::{Waiting, waiting_move};
use super::{Driven, TRIES_MAX};
use crate::db::DbError;
use crate::domain::drain::{DrainServer, DrainServerState};
use crate::domain::instance::Instance;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::server::VmState;
use crate::saga::accept;
use crate::saga::context::Context;
use crate::saga::refusal::Refusal;
use crate::saga::scheduling::PlannedMove;
use crate::saga::steps::port_shares::requests_of;

/// A server that can be moved now.
struct MovableServer {
    cell: String,
    instance: Instance,
}

impl Driven<'_> {
    /// Tries to begin the server's move, and adds it to the planned ones. Returns the server if its move is in flight.
    pub(super) async fn try_move(&self, server: DrainServer, planned: &mut Vec<PlannedMove>) -> Result<Option<DrainServer>, DbError> {
        // An earlier driver may have begun the move later than its successor looked.
        if let Some(operation) = server.operation
            && self.world().operations.saga(operation).await?.is_some()
        {
            let moving = DrainServer { state: DrainServerState::Moving, ..server };
            self.world().operations.write_drain_server(self.lease, moving.clone()).await?;
            return Ok(Some(moving));
        }
        let record = match self.find(&server).await {
            Ok(record) => record,
            Err(ended) => return self.ended(server, ended).await,
        };
        let refused = server.target.clone();
        let beside = Beside { refused: refused.as_deref(), planned: planned.as_slice() };
        match choice::choose(self.world(), &self.drain.plan, &record.cell, &record.instance, beside).await {
            Ok(chosen) => {
                let room = chosen.planned(&record.instance);
                let moving = self.begin(server, &record, chosen).await?;
                planned.extend(moving.is_some().then_some(room));
                Ok(moving)
            }
            Err(NoChoice::Refused(why)) => self.failed(server, why).await,
            Err(NoChoice::Silent(why)) => self.postponed(server, why).await,
        }
    }

    /// Returns the moves in flight whose claim is not in placement yet.
    pub(super) async fn unclaimed(&self, moving: &[DrainServer]) -> Vec<PlannedMove> {
        let mut planned = Vec::new();
        for server in moving.iter().filter(|server| server.confirm.is_none()) {
            let Some(target) = &server.target else { continue };
            // A server that cannot be read is no reason to wait: placement judges the claims themselves.
            let Ok((_, instance)) = accept::find(self.world(), server.server).await else { continue };
            let flavor = match self.drain.plan.flavors.get(&instance.flavor.id) {
                Some(id) => self.world().api.flavor(id).await.map_or_else(|_| instance.flavor.clone(), |record| record.flavor),
                None => instance.flavor.clone(),
            };
            if !self.holds_room_on(server.server, target).await {
                let resources = flavor.resources(instance.is_volume_backed());
                let port_requests = requests_of(self.world(), server.server).await.unwrap_or_default();
                planned.push(PlannedMove { server: server.server, host: target.clone(), resources, port_requests });
            }
        }
        planned
    }

    /// True if placement has a claim of the server on this host.
    async fn holds_room_on(&self, server: Uuid, host: &str) -> bool {
        let placement = &self.world().placement;
        let Ok(Some(held)) = placement.allocations_of(server).await else { return false };
        let roots = placement.roots_among(held.allocations.into_keys().collect()).await.unwrap_or_default();
        roots.iter().any(|root| root.name == host)
    }

    async fn begin(&self, server: DrainServer, record: &MovableServer, chosen: Choice) -> Result<Option<DrainServer>, DbError> {
        let operation = server.operation.unwrap_or_else(|| self.world().env.uuid());
        let moving = DrainServer {
            state: DrainServerState::Moving,
            kind: Some(chosen.kind),
            target: Some(chosen.host.clone()),
            operation: Some(operation),
            next_try_at: None,
            reason: None,
            ..server
        };
        if !self.world().operations.begin_drain_move(self.lease, moving.clone()).await? {
            return Ok(None);
        }
        let request = chosen.request(&record.instance, &record.cell);
        let context = Context::new(operation, self.caller(), moving.server, request);
        match self.drains.conductor.begin(context).await {
            Ok(_) => Ok(Some(moving)),
            // The journal says at the next look whether it has begun.
            Err(refusal) if !refusal.is_definite() => Ok(Some(moving)),
            Err(refusal) => match self.world().operations.saga(operation).await? {
                Some(_) => Ok(Some(moving)),
                None => self.failed(moving, reason!("{refusal}")).await,
            },
        }
    }

    /// Returns the server, if it is on the host that it shall leave.
    async fn find(&self, server: &DrainServer) -> Result<MovableServer, Ended> {
        match accept::find(self.world(), server.server).await {
            Ok((cell, instance)) => {
                let is_here = instance.host.as_ref() == Some(&server.host);
                if instance.vm_state == VmState::Resized && (!is_here || self.drain.plan.confirm_others) {
                    let waiting = waiting_move(self.world(), server.server).await.map_err(|refusal| Ended::Silent(reason!("{refusal}")))?;
                    if let Some(waiting) = waiting.filter(|waiting| is_here || waiting.migration.source_compute == server.host) {
                        return Err(Ended::Waits(Box::new(waiting)));
                    }
                }
                match instance.host.clone() {
                    Some(_) if is_here => Ok(MovableServer { cell, instance }),
                    Some(host) => Err(Ended::Gone(format!("it is on host {host} by another operation"))),
                    None => Err(Ended::Gone("it has left its host by another operation".to_owned())),
                }
            }
            Err(Refusal::NotFound(_)) => Err(Ended::Gone("it was deleted".to_owned())),
            Err(refusal) => Err(Ended::Silent(reason!("{refusal}"))),
        }
    }

    async fn ended(&self, server: DrainServer, ended: Ended) -> Result<Option<DrainServer>, DbError> {
        match ended {
            Ended::Gone(why) => {
                let gone = DrainServer { state: DrainServerState::Gone, reason: Some(why), ..server };
                self.write(gone).await
            }
            Ended::Waits(waiting) => self.confirm_or_tell(server, &waiting).await,
            Ended::Silent(why) => self.postponed(server, why).await,
        }
    }

    /// Records a failed try. The server is tried again after the others, or refused.
    pub(super) async fn failed(&self, server: DrainServer, why: Reason) -> Result<Option<DrainServer>, DbError> {
        let tries = server.tries + 1;
        let state = if tries < TRIES_MAX { DrainServerState::Pending } else { DrainServerState::Refused };
        let next_try_at = (state == DrainServerState::Pending).then(|| self.later());
        self.write(DrainServer { state, tries, next_try_at, reason: Some(why.to_string()), ..server }).await
    }

    /// Records that something does not answer. The try does not count.
    async fn postponed(&self, server: DrainServer, why: Reason) -> Result<Option<DrainServer>, DbError> {
        let (state, next_try_at) = (DrainServerState::Pending, Some(self.later()));
        self.write(DrainServer { state, next_try_at, reason: Some(why.to_string()), ..server }).await
    }

    /// Writes the row of a server that has nothing in flight.
    pub(super) async fn write(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        self.world().operations.write_drain_server(self.lease, server).await?;
        Ok(None)
    }

    fn later(&self) -> chrono::DateTime<chrono::Utc> {
        let pause = TimeDelta::from_std(self.world().settings.back_off_max).unwrap_or(TimeDelta::MAX);
        self.world().env.now() + pause
    }
}

/// The end of a try before its beginning.
enum Ended {
    /// The server is not there any more.
    Gone(String),
    /// Its move, by which it left or came, waits for confirm or revert.
    Waits(Box<Waiting>),
    /// Its cell does not answer.
    Silent(Reason),
}
