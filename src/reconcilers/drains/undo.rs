//! The way back of a drain: its moves in flight are cancelled, and the hosts that it disabled are enabled. Servers that have arrived stay.

use super::Driven;
use crate::db::DbError;
use crate::domain::cancellation::Cancellation;
use crate::domain::drain::{DrainServer, DrainServerState, DrainState};
use crate::domain::service::ServiceChange;
use crate::saga::error::StepError;

/// The reason of a server whose move was cancelled.
const CAME_BACK: &str = "its move was taken back: the drain was undone";

impl Driven<'_> {
    /// Brings the drain one look further on its way back. True if moves are still in flight.
    pub(super) async fn undo(&self, moving: &[DrainServer]) -> Result<bool, DbError> {
        let operations = &self.world().operations;
        let wish = Cancellation::new(&self.caller(), "the drain is undone", self.world().env.now());
        // A confirm goes on: the move that it ends has arrived.
        for operation in moving.iter().filter(|server| server.confirm.is_none()).filter_map(|server| server.operation) {
            if let Err(refusal) = self.drains.conductor.cancel(operation, wish.clone()).await {
                log::debug!(drain:% = self.drain.id; "the move {operation} is cancelled later: {refusal}");
            }
        }
        if let Err(error) = self.enable_hosts().await {
            return self.waits(&error).await;
        }
        if self.drain.hosts_disabled {
            operations.drain_hosts_disabled(self.lease, false).await?;
        }
        if moving.is_empty() {
            operations.settle_drain(self.lease, DrainState::Undoing).await?;
            self.drains.held.lock().remove(&self.drain.id);
            log::info!(drain:% = self.drain.id; "a drain is undone");
        }
        Ok(!moving.is_empty())
    }

    /// True while moves that arrive are to be confirmed. A drain that turns back leaves that to the servers' users, who may revert instead.
    pub(super) fn confirms(&self) -> bool {
        self.drain.plan.confirm && self.drain.state != DrainState::Undoing
    }

    /// Records that a server is still on its host, because its move was cancelled.
    pub(super) async fn came_back(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        let reason = Some(CAME_BACK.to_owned());
        self.write(DrainServer { state: DrainServerState::Pending, target: None, operation: None, reason, ..server }).await
    }

    /// Enables the hosts' services that this drain disabled. Those that somebody else disabled stay so.
    async fn enable_hosts(&self) -> Result<(), StepError> {
        let mark = Some(self.mark());
        let change = ServiceChange { disabled: Some(false), disabled_reason: Some(None), ..ServiceChange::default() };
        self.change_services(|service| service.disabled && service.disabled_reason == mark, &change).await
    }
}
