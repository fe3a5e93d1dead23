//! The door through which the API starts operations; the conductor stands behind it.

use async_trait::async_trait;
use uuid::Uuid;

use super::context::Context;
use super::refusal::Refusal;

/// Starts operations.
#[async_trait]
pub trait BeginOperation: Send + Sync {
    /// Takes the server, checks its state, makes the operation visible and lets it run; gives the operation's id. After a
    /// refusal nothing has begun.
    async fn begin(&self, context: Context) -> Result<Uuid, Refusal>;
}
