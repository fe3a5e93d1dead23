//! Tells which operations have moved on, for those who show them. Nobody waits for a listener, and without one nothing is kept.

use tokio::sync::broadcast;
use uuid::Uuid;

/// The changes that wait for a slow listener. Behind them it learns how many it missed.
const WAITING: usize = 256;

/// The operations of this process that have moved on. Clones share their listeners.
#[derive(Clone)]
pub struct Changes {
    sender: broadcast::Sender<Uuid>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { sender: broadcast::Sender::new(WAITING) }
    }
}

impl Changes {
    /// Notes that an operation has begun, taken a step or ended.
    pub fn note(&self, operation: Uuid) {
        // Fails without a listener.
        let _ = self.sender.send(operation);
    }

    /// Returns the coming changes.
    pub fn listen(&self) -> broadcast::Receiver<Uuid> {
        self.sender.subscribe()
    }
}
