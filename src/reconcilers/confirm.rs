//! Moves that wait for confirm or revert: they are counted, and a resize that has waited for longer than the operator's window is confirmed
//! (NOVA-DIFFERENCES L6).

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{PeriodicParts, begin_due};
use crate::domain::context::RequestContext;
use crate::domain::flavor::Resources;
use crate::domain::migration::{Migration, UnconfirmedMove};
use crate::saga::context::{ConfirmRequest, Request};

/// The pause between two counts where no move is confirmed by itself.
pub const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Counts the moves in a cell that wait, and confirms those that are overdue.
pub async fn confirm_overdue(parts: &PeriodicParts, name: &str) {
    let Some(cell) = parts.world.cells.get(name) else { return };
    let now = parts.world.env.now();
    match cell.db.unconfirmed_moves().await {
        Ok(moves) => {
            let age = moves.first().and_then(|oldest| (now - oldest.since()).to_std().ok()).unwrap_or_default();
            let room: Resources = moves.iter().map(UnconfirmedMove::room).sum();
            let [vcpu, memory_mb, disk_gb] = Resources::CLASSES;
            let room = [(vcpu, room.vcpu), (memory_mb, room.memory_mb), (disk_gb, room.disk_gb)];
            parts.world.env.metrics().unconfirmed_moves(name, moves.len(), age, room);
            for overdue in moves.iter().filter(|waiting| is_overdue(waiting.since(), now, parts.options.resize_confirm_window)) {
                confirm(parts, &overdue.migration).await;
            }
        }
        Err(error) if parts.options.resize_confirm_window.is_zero() => {
            log::debug!(cell = name; "the moves that wait for a confirm are counted later: {error}");
        }
        Err(error) => log::warn!(cell = name; "Error auto-confirming resizes, they are tried later: {error}"),
    }
}

/// True if a move that waits since this moment is to be confirmed. A window of zero confirms none.
fn is_overdue(since: DateTime<Utc>, now: DateTime<Utc>, window: Duration) -> bool {
    !window.is_zero() && TimeDelta::from_std(window).is_ok_and(|window| since <= now - window)
}

async fn confirm(parts: &PeriodicParts, overdue: &Migration) {
    let caller = RequestContext {
        request_id: format!("req-{}", parts.world.env.uuid()),
        user_id: overdue.user_id.clone(),
        project_id: overdue.project_id.clone(),
        ..RequestContext::default()
    };
    let request = Request::Confirm(ConfirmRequest { automatic: true, migration: Some(overdue.uuid) });
    // A stale copy in the source's cell is refused, too.
    let words = ["Automatically confirming a resize", "Error auto-confirming resize, it is tried later"];
    begin_due(parts, caller, overdue.instance_uuid, request, words).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_zero_confirms_no_move() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::seconds(100);
        let since = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        let window = Duration::from_secs(30);
        assert!(is_overdue(since(70), now, window) && is_overdue(since(0), now, window));
        assert!(!is_overdue(since(71), now, window));
        assert!(!is_overdue(since(0), now, Duration::ZERO) && !is_overdue(since(0), now, Duration::MAX));
    }
}
