//! An operation that was accepted while its host was up waits for that host when it goes down: the request is carried out, or undone, when the
//! host is back. Only operations that leave the server where it is wait; a move goes back to its source.

use std::time::Duration;

use crate::saga::accept::place_of_work;
use crate::saga::context::Context;
use crate::saga::world::World;

/// The pause between two looks whether the host is back.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// The number of those looks between two looks for a wish to cancel.
const LOOKS_PER_WISH: u32 = 4;

/// The wait of a run for its host.
#[derive(Default)]
pub(super) struct HostWait {
    /// True once somebody wants the server: then the saga ends without its host.
    gives_up: bool,
}

impl HostWait {
    /// True if the saga waits before its next try. The first step, whose undo gives the server back, needs no host.
    pub async fn is_needed(&self, world: &World, context: &Context, position: usize) -> bool {
        position > 0 && !self.gives_up && is_away(world, context).await
    }

    /// Waits until the host is back, or a delete or an evacuation wants the server. A wish that cannot be read now is read later.
    pub async fn until_back(&mut self, world: &World, context: &Context) {
        log::info!(server:% = context.server, migration:% = context.saga; "{} waits until its host is back", context.kind);
        for look in 0_u32.. {
            let reads_wish = look % LOOKS_PER_WISH == 0;
            if reads_wish && matches!(world.operations.wish(context.saga).await, Ok(Some(_))) {
                self.gives_up = true;
                return;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            if !is_away(world, context).await {
                return;
            }
        }
    }
}

async fn is_away(world: &World, context: &Context) -> bool {
    match place_of_work(context) {
        Some(place) => !world.hosts.standing(&place.cell, &place.host).await.is_up(),
        None => false,
    }
}
