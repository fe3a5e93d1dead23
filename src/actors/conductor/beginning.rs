//! How an operation begins: the server is taken and the saga's first step performed while the request waits, so that its
//! caller learns of a refusal at once. From the moment the server is taken the operation stands in the journal: whatever
//! becomes of the request, it is refused and gone, or it runs to an end.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::runner::Flight;
use super::{ConductorHandle, Launch, Resume, Worker};
use crate::db::DbError;
use crate::db::api::operations::NewSaga;
use crate::domain::cancellation::Cancellation;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::fence::Fence;
use crate::saga::accept::{busy_message, busy_with, owing_message};
use crate::saga::context::{Context, Kind};
use crate::saga::debt::pay_before;
use crate::saga::operations::BeginOperation;
use crate::saga::refusal::Refusal;
use crate::saga::tables::{Tables, waits_for};
use crate::saga::world::World;

/// How long a request waits for an operation on the same server that has all but ended.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);

/// The result of an attempt to take a server.
enum Taken {
    /// The server is the operation's.
    Now(Fence),
    /// Another operation has it, and the delete follows that.
    After(Uuid),
}

/// Has the conductor go on with an operation whose beginning broke off, wherever that was.
struct Beginning<'a> {
    conductor: &'a Worker,
    saga: Uuid,
    settled: bool,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.conductor.addr().do_send(Resume(self.saga));
        }
    }
}

#[async_trait]
impl BeginOperation for ConductorHandle {
    async fn begin(&self, context: Context) -> Result<Uuid, Refusal> {
        ConductorHandle::begin(self, context).await
    }
}

impl ConductorHandle {
    /// Accepts an operation: takes the server, checks its state under that hold, and starts the saga. When this answers
    /// `Ok`, the operation is durable and ends by itself; when it answers with a refusal that is not definite, it may. A delete waits
    /// for nobody: where another operation has the server, that is to be cancelled, the delete is recorded to follow, and the other
    /// operation's id is given.
    pub async fn begin(&self, context: Context) -> Result<Uuid, Refusal> {
        let conductor = self.next().clone();
        if let Err(full) = self.check_room() {
            // A delete makes room and needs none.
            return conductor.delete_after(&context).await?.ok_or(full);
        }
        // Aside from the request, which is dropped when its client goes away.
        let begun = tokio::spawn(async move { conductor.begin_aside(context).await });
        begun.await.unwrap_or_else(|_| Err(Refusal::Unavailable("the beginning of the operation broke off; it goes on if it began".into())))
    }
}

impl Worker {
    async fn begin_aside(&self, mut context: Context) -> Result<Uuid, Refusal> {
        let saga = context.saga;
        let mut beginning = Beginning { conductor: self, saga, settled: false };
        let fence = match self.take_server(&context).await {
            Ok(Taken::Now(fence)) => fence,
            Ok(Taken::After(other)) => {
                beginning.settled = true;
                return Ok(other);
            }
            Err(refusal) => {
                beginning.settled = refusal.is_definite();
                return Err(refusal);
            }
        };
        context.lease_epoch = 1;
        let accepted = self.parts.world.operations.kept(saga, context.lease_epoch, self.accept(&mut context, fence)).await;
        match accepted {
            Ok(()) => {
                let flight = Flight::accepted(context, fence, self.parts.world.env.now());
                // Past the mailbox's bound on purpose: it is accepted, and a refusal now would be a lie.
                self.addr().do_send(Launch(flight));
                beginning.settled = true;
                Ok(saga)
            }
            // What may have happened is found out by the successor, which tries the step again or undoes it.
            Err(refusal) if !refusal.is_definite() => Err(refusal),
            Err(refusal) => match self.abandon(&context, &refusal).await {
                Ok(()) => {
                    beginning.settled = true;
                    Err(refusal)
                }
                // It still stands in the journal: its successor tries it again, and may not be refused.
                Err(error) => {
                    Err(Refusal::Unavailable(format!("{refusal}; the journal did not take that in ({error}), so it is tried again")))
                }
            },
        }
    }

    /// Nothing is left of the operation but the record that it was refused.
    async fn abandon(&self, context: &Context, refusal: &Refusal) -> Result<(), DbError> {
        let bare = serde_json::to_string(&context.without_secrets())?;
        self.parts.world.operations.abandon(context.saga, &refusal.to_string(), bare).await
    }

    async fn take_server(&self, context: &Context) -> Result<Taken, Refusal> {
        let tables = Tables::present(context.kind);
        let (kind, first) = ((context.kind.as_str(), tables.version), tables.of(context).steps[0].name.as_str());
        let json = serde_json::to_string(context).map_err(|e| Refusal::Invalid(e.to_string()))?;
        let new =
            NewSaga { waits_for: waits_for(context), ..NewSaga::new(context.saga, context.server, kind, first, json, &self.parts.owner) };
        let (deadline, mut owed) = (tokio::time::Instant::now() + ENDING_PATIENCE, None);
        loop {
            let ended = self.parts.ended.notified();
            let operations = &self.parts.world.operations;
            match operations.begin(new.clone()).await {
                Ok(fence) => return Ok(Taken::Now(fence)),
                Err(DbError::Conflict(_)) => {}
                Err(other) => return Err(other.into()),
            }
            if let Some(other) = self.delete_after(context).await? {
                return Ok(Taken::After(other));
            }
            if let Some(why) = self.stuck(context).await? {
                return Err(Refusal::Unavailable(format!("the operation that has instance {} cannot end: {why}", context.server)));
            }
            let busy = busy_with(&self.parts.world, context).await?;
            // Once where it does not help: each try that is refused brings the operator's help nearer.
            if busy.is_none() && owed.is_none() {
                owed = pay_before(&self.parts.world, context, &self.parts.owner).await?;
            }
            // The operation that has the server makes room for a delete, or has just let go.
            let refused = busy.is_some() && context.kind != Kind::Delete;
            if refused || tokio::time::Instant::now() >= deadline {
                return Err(Refusal::Conflict(owed.map_or_else(|| busy_message(context, busy), |debt| owing_message(context, &debt))));
            }
            // The operation before has shown its end to the user and is about to let go.
            let _ = tokio::time::timeout(Duration::from_millis(50), ended).await;
        }
    }

    /// Records a delete to follow the operation that has the server, which is to make room for it; none when there is no such operation.
    async fn delete_after(&self, context: &Context) -> Result<Option<Uuid>, Refusal> {
        if context.kind != Kind::Delete {
            return Ok(None);
        }
        let World { env, operations, .. } = self.parts.world.as_ref();
        let wish = Cancellation::new(&context.caller, "the server is to be deleted", env.now());
        let request = DeleteRequest::in_sight(context.caller.clone(), env.now());
        Ok(operations.delete_after(context.server, request, wish).await?)
    }

    /// Why the operation that has the server waits for its journal, if it does: no patience of a request helps there.
    async fn stuck(&self, context: &Context) -> Result<Option<String>, Refusal> {
        let holder = self.parts.world.operations.holder(context.server).await?;
        Ok(holder.and_then(|saga| self.parts.stuck.reason(saga)))
    }

    async fn accept(&self, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
        let (conductor, server) = (self.clone(), context.server);
        let at_rest = Box::pin(async move { drop(conductor.until_at_rest(server).await) });
        self.parts.performers.of_saga().accept(&self.parts.world, context, fence, at_rest).await
    }
}
