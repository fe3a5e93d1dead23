//! The numbers of what waits for people: moves for their users, and drains for operators.

use std::time::Duration;

use super::Metrics;
use super::book::{Book, Gauges, Level};

/// Moves that wait for confirm or revert, and drains.
pub(super) struct Waiting {
    moves: Gauges<1>,
    oldest: Gauges<1>,
    room: Gauges<2>,
    drains: Gauges<1>,
}

impl Waiting {
    pub(super) fn register(book: &mut Book) -> Waiting {
        Waiting {
            moves: book.gauges("cellshift_unconfirmed_moves", ["cell"], "Moves to hosts of a cell that wait for confirm or revert"),
            oldest: book.gauges(
                "cellshift_unconfirmed_move_oldest_age_seconds",
                ["cell"],
                "Age of the oldest move that waits for confirm or revert; 0 without such moves",
            ),
            room: book.gauges(
                "cellshift_unconfirmed_moves_room",
                ["cell", "class"],
                "Room of a resource class that the sources of a cell's unconfirmed moves keep",
            ),
            drains: book.gauges(
                "cellshift_drains",
                ["state"],
                "Drains that have not ended: running, paused by an operator, or waiting for something that does not answer",
            ),
        }
    }
}

impl Metrics {
    /// Sets the number of a cell's moves that wait for confirm or revert, the age of the oldest, and the room that their sources keep.
    pub fn unconfirmed_moves(&self, cell: &str, now: usize, oldest: Duration, room: [(&str, i64); 3]) {
        let Some(all) = &self.all else { return };
        Level(all.waiting.moves.of([cell])).set(now);
        Level(all.waiting.oldest.of([cell])).set(usize::try_from(oldest.as_secs()).unwrap_or(usize::MAX));
        for (class, amount) in room {
            Level(all.waiting.room.of([cell, class])).set(usize::try_from(amount).unwrap_or_default());
        }
    }

    /// Sets the numbers of drains that have not ended: that move servers, are paused, and wait for something that does not answer.
    pub fn drains(&self, running: usize, paused: usize, waiting: usize) {
        let Some(all) = &self.all else { return };
        for (state, number) in [("running", running), ("paused", paused), ("waiting", waiting)] {
            Level(all.waiting.drains.of([state])).set(number);
        }
    }
}
