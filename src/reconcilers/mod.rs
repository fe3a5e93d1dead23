//! Reconcilers: each compares what is with what should be, and takes the next steps. A reconciler has no mailbox and no memory that must
//! survive, so it may break off at any point and begin anew. The actor `actors::periodic` and operators' requests run them.

pub mod aggregate_members;
pub mod confirm;
pub mod drains;
pub mod group_moves;
pub mod offload;
pub mod ports;
pub mod power;
pub mod queued_deletes;
pub mod reclaim;
pub mod retention;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use self::offload::OffloadOptions;
use self::retention::RetentionOptions;
use crate::db::Db;
use crate::domain::context::RequestContext;
use crate::domain::instance::Instance;
use crate::saga::context::{Context, Request};
use crate::saga::operations::BeginOperation;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

/// The options of the periodic work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeriodicOptions {
    /// A resize that has waited for this long is confirmed; zero for never.
    pub resize_confirm_window: Duration,
    /// The pause between two rounds.
    pub interval: Duration,
    /// When shelved servers leave their hosts.
    pub offload: OffloadOptions,
    /// The time after which a soft-deleted server is deleted for good; zero if none is soft-deleted.
    pub reclaim_after: Duration,
    /// The pause between two looks for ports that are gone.
    pub ports_interval: Duration,
    /// The records that the databases keep, and for how long.
    pub retention: RetentionOptions,
}

/// The parts of the periodic work, for each incarnation of its actor.
#[derive(Clone)]
pub struct PeriodicParts {
    pub world: Arc<World>,
    /// The services' database.
    pub services: Db,
    pub conductor: Arc<dyn BeginOperation>,
    /// The controller's name, with which it signs the leases of drains.
    pub controller: String,
    pub options: PeriodicOptions,
}

/// Returns the identity in which work on a server is done: its user's, without a role.
fn owner_of(world: &World, server: &Instance) -> RequestContext {
    RequestContext {
        request_id: format!("req-{}", world.env.uuid()),
        user_id: server.user_id.clone(),
        project_id: server.project_id.clone(),
        ..RequestContext::default()
    }
}

/// Begins an operation on a server that is due for it, and logs `begins`, or `waits` with the refusal. A server that is busy, or that a user
/// has changed first, is passed over: the next look finds it if it is still due.
async fn begin_due(parts: &PeriodicParts, caller: RequestContext, server: Uuid, request: Request, [begins, waits]: [&str; 2]) {
    let context = Context::new(parts.world.env.uuid(), caller, server, request);
    match parts.conductor.begin(context).await {
        Ok(saga) => log::info!(server:% = server, migration:% = saga; "{begins}"),
        Err(Refusal::Conflict(_) | Refusal::Invalid(_) | Refusal::NotFound(_)) => {}
        Err(refusal) => log::warn!(server:% = server; "{waits}: {refusal}"),
    }
}
