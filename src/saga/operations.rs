//! The interface through which the API starts operations. The conductor implements it.

use async_trait::async_trait;
use uuid::Uuid;

use super::context::Context;
use super::refusal::Refusal;

/// Starts operations.
#[async_trait]
pub trait BeginOperation: Send + Sync {
    /// Takes the server, checks its state, and starts the operation. Returns the operation's id. After a definite refusal nothing has begun.
    async fn begin(&self, context: Context) -> Result<Uuid, Refusal>;
}
