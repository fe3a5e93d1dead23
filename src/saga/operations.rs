//! The interface through which the API starts and steers operations. The conductor implements it.

use async_trait::async_trait;
use uuid::Uuid;

use super::context::Context;
use super::refusal::Refusal;
use super::reset::ResetTo;
use crate::domain::cancellation::Cancellation;
use crate::domain::context::RequestContext;
use crate::domain::host_protocol::{GuestReport, LiveProgress};
use crate::domain::reason::Reason;

/// A live migration, as its source host is asked about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveMove {
    pub operation: Uuid,
    /// The cell's name.
    pub cell: String,
    /// The source host's name.
    pub source: String,
}

/// Starts operations, and steers those in flight.
#[async_trait]
pub trait BeginOperation: Send + Sync {
    /// Takes the server, checks its state, and starts the operation. After `Ok` with the operation's id it is durable and ends by itself; after
    /// a refusal that is not definite it may. A delete does not wait: if another operation has the server, it is cancelled, the delete is
    /// recorded to follow, and the other operation's id is returned.
    async fn begin(&self, context: Context) -> Result<Uuid, Refusal>;

    /// Records the wish that an operation in flight be cancelled. False if it is not in flight.
    async fn cancel(&self, operation: Uuid, wish: Cancellation) -> Result<bool, Refusal>;

    /// Returns the reason why an operation failed; none while it goes on and after a success.
    async fn failure(&self, operation: Uuid) -> Result<Option<Reason>, Refusal>;

    /// Returns how an operation ended, a failure with its reason; none while it goes on.
    async fn outcome(&self, operation: Uuid) -> Result<Option<Result<(), Reason>>, Refusal>;

    /// Returns how far the copy of a running guest is; none if it is not being copied.
    async fn live_progress(&self, of: &LiveMove) -> Option<LiveProgress>;

    /// Returns the newest lines that the server's guest has written to its console.
    async fn console(&self, cell: &str, host: &str, server: Uuid) -> Result<String, Refusal>;

    /// Types a line into the console of the server's guest, which must run.
    async fn type_line(&self, cell: &str, host: &str, server: Uuid, line: String) -> Result<(), Refusal>;

    /// Returns what the host has of the server's guest; none if it has nothing.
    async fn guest(&self, cell: &str, host: &str, server: Uuid) -> Result<Option<GuestReport>, Refusal>;

    /// Resets a server's state, as [`super::reset`] says.
    async fn reset_state(&self, caller: &RequestContext, server: Uuid, to: ResetTo) -> Result<(), Refusal>;

    /// Ends the copy of a running guest at once. False if none is under way.
    async fn force_complete(&self, of: &LiveMove) -> Result<bool, Refusal>;
}
