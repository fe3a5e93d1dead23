//! The ownership of a server's guest: one commit names the only host that may run it (INVARIANTS S4).

use crate::db::api::ownership;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::saga::context::{Head, Place, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::world::World;

/// The pivot: names the target as the owner of the guest and raises the epoch, in one commit (INVARIANTS S4).
pub async fn take_ownership(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let owner = context.target()?.clone();
    own(world, context, fence, Some(owner)).await
}

/// Undo: names the source again, in one commit. A move reaches it only if the target has said "not running, fenced", an operator has forced it
/// down, or the act's commit did not happen.
pub async fn hand_back_ownership(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let owner = context.source()?.clone();
    own(world, context, fence, Some(owner)).await
}

/// Says that no host may run the guest.
pub async fn disown(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    own(world, context, fence, None).await
}

/// Names an owner under the saga's lease.
pub async fn own(world: &World, context: &Head, fence: Fence, owner: Option<Place>) -> Result<(), StepError> {
    let commit =
        move |conn: &mut Conn| ownership::hand_over(conn, fence, owner.as_ref().map(|owner| (owner.cell.as_str(), owner.host.as_str())));
    world.operations.under_lease(context.saga, context.lease_epoch, commit).await.map_err(|error| match error {
        DbError::Conflict(why) => StepError::Overtaken(why),
        other => other.into(),
    })
}
