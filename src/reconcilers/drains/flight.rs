//! Moves in flight: the journal says how far each is. A cold move that has ended is confirmed if the operator asked for it.

use super::Driven;
use super::waiting::{WAITS, waiting_move};
use crate::db::DbError;
use crate::domain::drain::{DrainServer, DrainServerState, DrainState, MoveKind};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::saga_state::SagaState;
use crate::saga::context::{ConfirmRequest, Context, Request};
use crate::saga::refusal::Refusal;

impl Driven<'_> {
    /// Looks at a server whose move is in flight. Returns it if it still is.
    pub(super) async fn follow(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        match (server.operation, server.confirm) {
            (_, Some(_)) => self.follow_confirm(server).await,
            (Some(operation), None) => match self.world().operations.saga(operation).await? {
                Some(saga) => match saga.state {
                    SagaState::Running | SagaState::Unwinding => Ok(Some(server)),
                    SagaState::NeedsOperator => {
                        let why = format!("its move {operation} waits for an operator: see /ops/v1/migrations/{operation}");
                        self.write(DrainServer { state: DrainServerState::Refused, reason: Some(why), ..server }).await
                    }
                    SagaState::Unwound if self.drain.state == DrainState::Undoing => self.came_back(server).await,
                    SagaState::Unwound => {
                        let why = saga.error.map_or_else(|| "its move was undone".into(), |stored| Reason::read(&stored));
                        self.failed(DrainServer { operation: None, ..server }, why).await
                    }
                    SagaState::Done => self.arrived(server).await,
                },
                // Its driver died before the move began: it begins under the same id.
                None => self.write(DrainServer { state: DrainServerState::Pending, ..server }).await,
            },
            (None, None) => self.write(DrainServer { state: DrainServerState::Pending, ..server }).await,
        }
    }

    /// Records that the move has ended well, or confirms it.
    async fn arrived(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        if server.kind == Some(MoveKind::Live) {
            return self.moved(server, None).await;
        }
        match self.awaits_confirm(&server).await {
            Ok(true) if self.confirms() => self.confirm(server).await,
            Ok(true) => self.moved(server, Some(WAITS.into())).await,
            Ok(false) => self.moved(server, Some("its move was confirmed or reverted by another".into())).await,
            // Looks again: only a confirm needs the cell.
            Err(Refusal::Unavailable(_)) if self.confirms() => Ok(Some(server)),
            Err(_) => self.moved(server, None).await,
        }
    }

    /// True if the server waits for the confirm of the move in its row.
    async fn awaits_confirm(&self, server: &DrainServer) -> Result<bool, Refusal> {
        let waiting = waiting_move(self.world(), server.server).await?;
        Ok(waiting.is_some_and(|waiting| Some(waiting.migration.uuid) == server.operation))
    }

    /// Begins the confirm, after its id is recorded. No other move than that in the row is confirmed.
    pub(super) async fn confirm(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        let id = server.confirm.unwrap_or_else(|| self.world().env.uuid());
        let confirming = DrainServer { confirm: Some(id), ..server };
        self.world().operations.write_drain_server(self.lease, confirming.clone()).await?;
        let request = ConfirmRequest { automatic: false, migration: confirming.operation };
        let context = Context::new(id, self.caller(), confirming.server, Request::Confirm(request));
        match self.drains.conductor.begin(context).await {
            Ok(_) => Ok(Some(confirming)),
            Err(refusal) if !refusal.is_definite() => Ok(Some(confirming)),
            Err(refusal) => match self.world().operations.saga(id).await? {
                Some(_) => Ok(Some(confirming)),
                None => self.unconfirmed(confirming, reason!("its confirm was refused: {refusal}")).await,
            },
        }
    }

    async fn follow_confirm(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        let Some(id) = server.confirm else { return Ok(Some(server)) };
        match self.world().operations.saga(id).await? {
            Some(saga) => match saga.state {
                SagaState::Running | SagaState::Unwinding => Ok(Some(server)),
                // The move had brought it here, and it can leave now.
                SagaState::Done if server.target.is_none() => self.write(to_be_moved(server)).await,
                SagaState::Done => self.moved(server, None).await,
                SagaState::Unwound | SagaState::NeedsOperator => {
                    let why = saga.error.map_or_else(|| reason!("see /ops/v1/migrations/{id}"), |stored| Reason::read(&stored));
                    self.unconfirmed(server, reason!("its confirm failed: {why}")).await
                }
            },
            // Its driver died before the confirm began.
            None if server.target.is_none() => self.write(to_be_moved(server)).await,
            None => self.arrived(server).await,
        }
    }

    /// Records that the move in the row stays unconfirmed. A server that it brought here has not left.
    async fn unconfirmed(&self, server: DrainServer, why: Reason) -> Result<Option<DrainServer>, DbError> {
        match server.target {
            Some(_) => self.moved(server, Some(why)).await,
            None => self.failed(to_be_moved(server), why).await,
        }
    }

    async fn moved(&self, server: DrainServer, note: Option<Reason>) -> Result<Option<DrainServer>, DbError> {
        let reason = note.map(|note| note.to_string());
        self.write(DrainServer { state: DrainServerState::Moved, reason, ..server }).await
    }
}

/// Returns the row of a server that is on the host still, without the move that was confirmed or was to be.
fn to_be_moved(server: DrainServer) -> DrainServer {
    DrainServer { state: DrainServerState::Pending, kind: None, operation: None, confirm: None, ..server }
}
