//! Fences: the pair that orders everything that is done to one server (INVARIANTS S3 and S4).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Who may still act on a server. A participant remembers the highest `(epoch, attempt)` it has obeyed for a server and
/// refuses anything lower; the same pair again is the same request delivered twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Fence {
    /// The server that the effect belongs to.
    pub server: Uuid,
    /// Raised by each commit that names a new owner host.
    pub epoch: i64,
    /// One counter per server, never reset, taken with the journal's "started" entry.
    pub attempt: i64,
}

impl Fence {
    /// The ordered part.
    pub fn pair(&self) -> (i64, i64) {
        (self.epoch, self.attempt)
    }

    /// True when a participant that has obeyed `highest` must refuse this.
    pub fn is_below(&self, highest: (i64, i64)) -> bool {
        self.pair() < highest
    }
}
