//! The beginning of an operation: while the request waits, the conductor takes the server and performs the saga's first step, so that the
//! caller learns of a refusal at once. From the moment it takes the server the operation is in the journal, and is refused or runs to an end
//! even if the request breaks off.

use std::time::Duration;

use actix::{Actor, Handler, MessageResult};
use async_trait::async_trait;
use futures::FutureExt;
use uuid::Uuid;

use super::{Acceptance, Begin, Conductor, ConductorHandle, Launch, Resume, Worker};
use crate::db::DbError;
use crate::db::api::operations::NewSaga;
use crate::domain::cancellation::Cancellation;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{GuestReport, HostAnswer, HostQuery, LiveProgress};
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::saga_state::SagaState;
use crate::metrics::Stopwatch;
use crate::runner::Flight;
use crate::saga::accept::{busy_message, busy_with, check_evacuated, owing_message, place_of_work};
use crate::saga::context::{Context, HostNeed};
use crate::saga::debt::pay_before;
use crate::saga::history;
use crate::saga::machine::{Event, Side};
use crate::saga::operations::{BeginOperation, LiveMove};
use crate::saga::refusal::Refusal;
use crate::saga::reset::{ResetTo, reset};
use crate::saga::step_name::StepName;
use crate::saga::tables::{Tables, waits_for};
use crate::saga::world::World;
use crate::virt::HostUnreachable;

/// The longest wait of a request for an operation on the same server that is about to end.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait of an evacuation for an operation that waits for the host that is down.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// The time limit of a question to a host.
const QUERY_PATIENCE: Duration = Duration::from_secs(5);

/// The turn of an operation on its server: now, or after another operation.
enum Turn {
    /// The operation has the server.
    Now(Fence),
    /// Another operation has the server, and the delete follows it.
    After(Uuid),
}

/// Makes the conductor go on with an operation whose beginning broke off.
struct Beginning<'a> {
    conductor: &'a Worker,
    saga: Uuid,
    settled: bool,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.conductor.addr().do_send(Resume::one(self.saga));
        }
    }
}

#[async_trait]
impl BeginOperation for ConductorHandle {
    async fn begin(&self, context: Context) -> Result<Uuid, Refusal> {
        let conductors = self.clone();
        // A task of its own, because the request is dropped when its client goes away. It runs on the caller's thread: beginnings use as many
        // cores as requests do.
        let begun = tokio::spawn(async move { conductors.hand_over(context).await?.begin().await });
        begun.await.unwrap_or_else(|_| Err(broke_off()))
    }

    async fn cancel(&self, operation: Uuid, wish: Cancellation) -> Result<bool, Refusal> {
        let parts = self.next().parts.clone();
        let is_noted = parts.world.operations.cancel(operation, wish).await?;
        parts.room.wake(operation);
        Ok(is_noted)
    }

    async fn failure(&self, operation: Uuid) -> Result<Option<Reason>, Refusal> {
        let saga = self.next().parts.world.operations.saga(operation).await?;
        Ok(saga.and_then(|saga| saga.error).map(|stored| Reason::read(&stored)))
    }

    async fn outcome(&self, operation: Uuid) -> Result<Option<Result<(), Reason>>, Refusal> {
        let saga = self.next().parts.world.operations.saga(operation).await?;
        Ok(saga.and_then(|saga| match saga.state {
            SagaState::Done => Some(Ok(())),
            SagaState::Unwound | SagaState::NeedsOperator => Some(Err(Reason::read(&saga.error.unwrap_or_default()))),
            SagaState::Running | SagaState::Unwinding => None,
        }))
    }

    async fn live_progress(&self, of: &LiveMove) -> Option<LiveProgress> {
        let query = HostQuery::LiveProgress { operation: of.operation };
        match self.next().parts.world.hosts.query(&of.cell, &of.source, query, QUERY_PATIENCE).await {
            Ok(HostAnswer::LiveProgress(progress)) => progress,
            _ => None,
        }
    }

    async fn console(&self, cell: &str, host: &str, server: Uuid) -> Result<String, Refusal> {
        let hosts = &self.next().parts.world.hosts;
        match hosts.query(cell, host, HostQuery::Console { server }, QUERY_PATIENCE).await {
            Ok(HostAnswer::Console(lines)) => Ok(lines),
            Ok(_) => Err(Refusal::Unavailable(reason!("host {host} answered a question for a console with something else"))),
            Err(error) if hosts.standing(cell, host).await.is_up() => Err(unanswered(host, &error)),
            // As for operations that need a host that is down.
            Err(error) => Err(Refusal::Conflict(reason!("The console cannot be read: {error}"))),
        }
    }

    async fn type_line(&self, cell: &str, host: &str, server: Uuid, line: String) -> Result<(), Refusal> {
        let world = &self.next().parts.world;
        let query = HostQuery::TypeLine { server, line, ask: world.env.uuid() };
        world.hosts.query(cell, host, query, QUERY_PATIENCE).await.map(drop).map_err(|error| unanswered(host, &error))
    }

    async fn guest(&self, cell: &str, host: &str, server: Uuid) -> Result<Option<GuestReport>, Refusal> {
        let guest = self.next().parts.world.hosts.guest(cell, host, server, QUERY_PATIENCE).await;
        guest.map_err(|error| unanswered(host, &error))
    }

    async fn reset_state(&self, caller: &RequestContext, server: Uuid, to: ResetTo) -> Result<(), Refusal> {
        reset(&self.next().parts.world, caller, server, to).await
    }

    async fn force_complete(&self, of: &LiveMove) -> Result<bool, Refusal> {
        let world = &self.next().parts.world;
        let query = HostQuery::ForceComplete { operation: of.operation, ask: world.env.uuid() };
        tell_forced_end(world, of, Phase::Start).await;
        match world.hosts.query(&of.cell, &of.source, query, QUERY_PATIENCE).await {
            Ok(HostAnswer::Hastened(hastened)) => {
                if hastened {
                    tell_forced_end(world, of, Phase::End).await;
                }
                Ok(hastened)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(unanswered(&of.source, &error)),
        }
    }
}

/// Returns the refusal of what a host was asked and did not answer. A host whose release does not know the question will not answer later.
fn unanswered(host: &str, error: &HostUnreachable) -> Refusal {
    match error {
        HostUnreachable::NotKnown { .. } => Refusal::Conflict(reason!("host {host}: {error}")),
        HostUnreachable::NotDelivered(_) | HostUnreachable::Busy | HostUnreachable::Unknown(_) => Refusal::Unavailable(reason!("{error}")),
    }
}

/// Notifies consumers of a forced end of a copy. An operation that cannot be read is not told of.
async fn tell_forced_end(world: &World, of: &LiveMove, phase: Phase) {
    let Ok(Some(saga)) = world.operations.saga(of.operation).await else { return };
    let Ok(context) = serde_json::from_str::<Context>(&saga.context) else { return };
    let Some(source) = &context.source else { return };
    let action = InstanceAction::LiveMigrationForceComplete;
    history::notify(world, context.part(), StepName::CopyGuest, action, phase, source).await;
}

/// Returns the word for the answer to a request in metrics.
fn outcome_of(begun: &Result<Uuid, Refusal>) -> &'static str {
    match begun {
        Ok(_) => "accepted",
        Err(refusal) if refusal.is_definite() => "refused",
        Err(_) => "unknown",
    }
}

/// Returns the answer to a request that no conductor answers.
pub(super) fn broke_off() -> Refusal {
    Refusal::Unavailable("the beginning of the operation broke off; it goes on if it began".into())
}

impl Acceptance {
    /// Begins the operation, and waits until it has begun or is refused.
    async fn begin(self) -> Result<Uuid, Refusal> {
        self.beginning.await
    }
}

impl Handler<Begin> for Conductor {
    type Result = MessageResult<Begin>;

    fn handle(&mut self, Begin { context, conductor, permit, within }: Begin, _: &mut <Self as Actor>::Context) -> Self::Result {
        let conductor = Worker::new(conductor, self.parts.clone());
        let beginning = async move {
            let _at_work = (permit, within);
            let (kind, metrics) = (context.kind, conductor.parts.world.env.metrics().clone());
            let begun = conductor.begin(*context).await;
            metrics.operation_begun(kind.as_str(), outcome_of(&begun));
            begun
        };
        MessageResult(Acceptance { beginning: beginning.boxed() })
    }
}

impl Worker {
    /// Takes the server, performs the first step, and starts the saga.
    async fn begin(&self, mut context: Context) -> Result<Uuid, Refusal> {
        let saga = context.saga;
        let mut beginning = Beginning { conductor: self, saga, settled: false };
        let changes = self.parts.world.env.changes();
        let fence = match self.take_server(&context).await {
            Ok(Turn::Now(fence)) => fence,
            Ok(Turn::After(other)) => {
                beginning.settled = true;
                return Ok(other);
            }
            Err(refusal) => {
                beginning.settled = refusal.is_definite();
                return Err(refusal);
            }
        };
        changes.note(saga);
        context.lease_epoch = 1;
        let watch = self.parts.world.env.stopwatch();
        let accepted = self.parts.world.operations.kept(saga, context.lease_epoch, self.accept(&mut context, fence)).await;
        self.measure(&context, &accepted, watch);
        match accepted {
            Ok(()) => {
                let flight = Box::new(Flight::accepted(context, fence, self.parts.world.env.now()));
                // `do_send` ignores the mailbox's bound: the operation is accepted and can no longer be refused.
                self.addr().do_send(Launch(flight, self.parts.messages().enter()));
                beginning.settled = true;
                Ok(saga)
            }
            // The effect is unknown: the successor tries the step again or undoes it.
            Err(refusal) if !refusal.is_definite() => Err(refusal),
            Err(refusal) => match self.abandon(&context, &refusal).await {
                Ok(()) => {
                    changes.note(saga);
                    beginning.settled = true;
                    Err(refusal)
                }
                // The operation is still in the journal: its successor tries it again, and may succeed.
                Err(error) => {
                    Err(Refusal::Unavailable(reason!("{refusal}; the journal did not take that in ({error}), so it is tried again")))
                }
            },
        }
    }

    /// Counts the end of the first step for metrics. The runner counts the others.
    fn measure(&self, context: &Context, accepted: &Result<(), Refusal>, watch: Stopwatch) {
        let outcome = match accepted {
            Ok(()) => Event::Ok,
            Err(refusal) if refusal.is_definite() => Event::Failed,
            Err(_) => Event::Unknown,
        };
        let first = Tables::present(context.kind).of(context).steps[0].name;
        let words = [context.kind.as_str(), first.as_str(), Side::Act.as_str(), outcome.as_str()];
        self.parts.world.env.metrics().step(words, watch.elapsed());
    }

    /// Ends the operation, and keeps only the record of the refusal.
    async fn abandon(&self, context: &Context, refusal: &Refusal) -> Result<(), DbError> {
        let bare = serde_json::to_string(&context.without_secrets())?;
        self.parts.world.operations.abandon(context.saga, &reason!("{refusal}").stored(), bare).await
    }

    async fn take_server(&self, context: &Context) -> Result<Turn, Refusal> {
        let tables = Tables::present(context.kind);
        let (kind, first) = ((context.kind.as_str(), tables.version), tables.of(context).steps[0].name.as_str());
        let json = serde_json::to_string(context).map_err(|e| Refusal::Invalid(reason!("{e}")))?;
        let new =
            NewSaga { waits_for: waits_for(context), ..NewSaga::new(context.saga, context.server, kind, first, json, &self.parts.owner) };
        let (begun, mut owed) = (tokio::time::Instant::now(), None);
        let mut makes_room = false;
        loop {
            let ended = self.parts.ended.notified();
            let operations = &self.parts.world.operations;
            match operations.begin(new.clone()).await {
                Ok(fence) => return Ok(Turn::Now(fence)),
                Err(DbError::Conflict(_)) => {}
                Err(other) => return Err(other.into()),
            }
            if let Some(other) = self.delete_after(context).await? {
                return Ok(Turn::After(other));
            }
            if let Some(why) = self.stuck(context).await? {
                return Err(Refusal::Unavailable(reason!("the operation that has instance {} cannot end: {why}", context.server)));
            }
            let busy = busy_with(&self.parts.world, context).await?;
            // Pays at most once per request: refused tries count toward `needs_operator`.
            if busy.is_none() && owed.is_none() {
                owed = pay_before(&self.parts.world, context, &self.parts.owner).await?;
            }
            makes_room = makes_room || self.makes_room_for_evacuation(context).await?;
            // A delete waits on: the other operation is cancelled, or has just ended. So does an evacuation.
            let refused = busy.is_some() && !context.part().has_others_make_room() && !makes_room;
            let patience = if makes_room { ROOM_PATIENCE } else { ENDING_PATIENCE };
            if refused || begun.elapsed() >= patience {
                return Err(Refusal::Conflict(owed.map_or_else(|| busy_message(context, busy), |debt| owing_message(context, &debt))));
            }
            // The earlier operation has shown its end to users and is about to let the server go.
            let _ = tokio::time::timeout(Duration::from_millis(50), ended).await;
        }
    }

    /// Records a delete to follow the operation that has the server, and cancels that operation. None if no operation has the server.
    async fn delete_after(&self, context: &Context) -> Result<Option<Uuid>, Refusal> {
        let World { env, operations, .. } = self.parts.world.as_ref();
        let Some(request) = context.part().delete_to_follow(env.now()) else { return Ok(None) };
        let wish = Cancellation::new(&context.caller, "the server is to be deleted", env.now());
        let holder = operations.delete_after(context.server, request, wish).await?;
        if let Some(cancelled) = holder {
            self.parts.room.wake(cancelled);
        }
        Ok(holder)
    }

    /// Cancels an operation that waits for the host from which the server is to be evacuated. False if no such operation has the server.
    async fn makes_room_for_evacuation(&self, context: &Context) -> Result<bool, Refusal> {
        let World { env, operations, .. } = self.parts.world.as_ref();
        if context.part().host_need() != HostNeed::SourceDown {
            return Ok(false);
        }
        let Some(holder) = operations.holder(context.server).await? else { return Ok(false) };
        let Some(record) = operations.saga(holder).await? else { return Ok(false) };
        let Ok(other) = serde_json::from_str::<Context>(&record.context) else { return Ok(false) };
        let Some(place) = place_of_work(&other) else { return Ok(false) };
        if self.parts.world.is_up(place).await? {
            return Ok(false);
        }
        // The other operation waits on for a host that may run the guest.
        check_evacuated(&self.parts.world, place).await?;
        let wish = Cancellation::new(&context.caller, "the server is to be evacuated", env.now());
        let is_noted = operations.cancel(holder, wish).await?;
        self.parts.room.wake(holder);
        Ok(is_noted)
    }

    /// Returns the reason if the operation that has the server waits for its journal: then a request need not wait.
    async fn stuck(&self, context: &Context) -> Result<Option<Reason>, Refusal> {
        let holder = self.parts.world.operations.holder(context.server).await?;
        Ok(holder.and_then(|saga| self.parts.stuck.reason(saga)))
    }

    async fn accept(&self, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
        let (conductor, server) = (self.clone(), context.server);
        let at_rest = Box::pin(async move { drop(conductor.until_at_rest(server).await) });
        self.parts.performers.of_saga().accept(&self.parts.world, context, fence, at_rest).await
    }
}
