//! Moves in flight: the journal says how far each is. A cold move that has ended is confirmed if the operator asked for it.

use super::Driven;
use crate::db::DbError;
use crate::db::api::drains::DrainServer;
use crate::domain::drain::{DrainServerState, MoveKind};
use crate::domain::migration::MigrationStatus;
use crate::domain::saga_state::SagaState;
use crate::domain::server::VmState;
use crate::saga::accept;
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
                    SagaState::Unwound => {
                        let why = saga.error.unwrap_or_else(|| "its move was undone".to_owned());
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
            Ok(true) if self.drain.plan.confirm => self.confirm(server).await,
            Ok(true) => self.moved(server, Some("its move waits for confirm or revert".to_owned())).await,
            Ok(false) => self.moved(server, Some("its move was confirmed or reverted by another".to_owned())).await,
            // Looks again: only a confirm needs the cell.
            Err(Refusal::Unavailable(_)) if self.drain.plan.confirm => Ok(Some(server)),
            Err(_) => self.moved(server, None).await,
        }
    }

    /// True if the server waits for the confirm of the move that this drain began.
    async fn awaits_confirm(&self, server: &DrainServer) -> Result<bool, Refusal> {
        let (cell, instance) = accept::find(self.world(), server.server).await?;
        if instance.vm_state != VmState::Resized {
            return Ok(false);
        }
        let waiting = self.world().cell(&cell)?.latest_migration(server.server, &[MigrationStatus::Finished]).await?;
        Ok(waiting.is_some_and(|migration| Some(migration.uuid) == server.operation))
    }

    /// Begins the confirm, after its id is recorded.
    async fn confirm(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        let id = server.confirm.unwrap_or_else(|| self.fresh_id());
        let confirming = DrainServer { confirm: Some(id), ..server };
        self.world().operations.write_drain_server(self.lease, confirming.clone()).await?;
        let context = Context::new(id, self.caller(), confirming.server, Request::Confirm(ConfirmRequest { automatic: false }));
        match self.drains.conductor.begin(context).await {
            Ok(_) => Ok(Some(confirming)),
            Err(refusal) if !refusal.is_definite() => Ok(Some(confirming)),
            Err(refusal) => match self.world().operations.saga(id).await? {
                Some(_) => Ok(Some(confirming)),
                None => self.moved(confirming, Some(format!("its confirm was refused: {refusal}"))).await,
            },
        }
    }

    async fn follow_confirm(&self, server: DrainServer) -> Result<Option<DrainServer>, DbError> {
        let Some(id) = server.confirm else { return Ok(Some(server)) };
        match self.world().operations.saga(id).await? {
            Some(saga) => match saga.state {
                SagaState::Running | SagaState::Unwinding => Ok(Some(server)),
                SagaState::Done => self.moved(server, None).await,
                SagaState::Unwound | SagaState::NeedsOperator => {
                    let why = saga.error.unwrap_or_else(|| format!("see /ops/v1/migrations/{id}"));
                    self.moved(server, Some(format!("its confirm failed: {why}"))).await
                }
            },
            // Its driver died before the confirm began.
            None => self.arrived(server).await,
        }
    }

    async fn moved(&self, server: DrainServer, note: Option<String>) -> Result<Option<DrainServer>, DbError> {
        let reason = note.map(|note| crate::domain::inside::opened(&note));
        self.write(DrainServer { state: DrainServerState::Moved, reason, ..server }).await
    }
}
