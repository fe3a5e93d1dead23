//! Fences: the pair that orders all effects on a server (INVARIANTS S3 and S4).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The order of an effect. A participant remembers the highest `(epoch, attempt)` that it has obeyed for a server and refuses a lower one;
/// an equal pair is the same request, delivered twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Fence {
    /// The server of the effect.
    pub server: Uuid,
    /// Rises with each commit that names a new owner.
    pub epoch: i64,
    /// The server's counter of attempts, never reset, taken with the journal's `begun` entry.
    pub attempt: i64,
}

impl Fence {
    /// Returns the pair that determines the order.
    pub fn pair(&self) -> (i64, i64) {
        (self.epoch, self.attempt)
    }

    /// True if a participant that has obeyed `highest` must refuse this fence.
    pub fn is_below(&self, highest: (i64, i64)) -> bool {
        self.pair() < highest
    }
}
