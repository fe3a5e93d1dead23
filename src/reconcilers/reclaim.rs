//! Servers that were soft-deleted long ago are deleted for good.

use std::time::Duration;

use chrono::TimeDelta;

use super::{PeriodicParts, begin_due, owner_of};
use crate::domain::instance::Instance;
use crate::saga::context::Request;

/// The longest pause between two looks: no server is kept for much longer than the operator wants.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns the pause between two looks.
pub fn pause(after: Duration) -> Duration {
    after.min(LONGEST_PAUSE)
}

/// Deletes the servers of a cell whose time has come.
pub async fn reclaim_due(parts: &PeriodicParts, name: &str) {
    let Some(cell) = parts.world.cells.get(name) else { return };
    let Ok(after) = TimeDelta::from_std(parts.options.reclaim_after) else { return };
    match cell.db.soft_deleted_until(parts.world.env.now() - after).await {
        Ok(due) => {
            for server in due {
                reclaim(parts, server).await;
            }
        }
        Err(error) => log::warn!(cell = name; "soft-deleted servers are looked at later: {error}"),
    }
}

async fn reclaim(parts: &PeriodicParts, server: Instance) {
    let words = ["a server that was soft-deleted long ago is deleted for good", "a soft-deleted server is not deleted for good yet"];
    begin_due(parts, owner_of(&parts.world, &server), server.uuid, Request::Reclaim, words).await;
}
