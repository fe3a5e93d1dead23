//! Drives one saga: commits to the journal, performs what is at hand under its deadline, and goes on with what
//! [`Machine`] says. Everything it decides by stands in the journal, so a successor can go on from any commit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::chaos::point::{Fault, FaultPoints, Moment, Point};
use crate::db::DbError;
use crate::db::api::cancellations::FollowUp;
use crate::db::api::debts::NewDebt;
use crate::db::api::operations::{Append, Appended, JournalEntry, NewSaga, SagaRecord};
use crate::domain::cancellation::Cancellation;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{Context, Request};
use crate::saga::error::StepError;
use crate::saga::journal::{Unreadable, replay};
use crate::saga::machine::{Cursor, Effect, Event, Machine, Outcome, Side};
use crate::saga::step::{Deadline, Step, Table};
use crate::saga::step_name::StepName;
use crate::saga::tables::Tables;
use crate::saga::world::World;

/// What the journal says of a step that an experiment refused.
pub(super) const REFUSED: &str = "an experiment refused this step";
/// … whose deadline it let pass.
pub(super) const LATE: &str = "an experiment let the deadline pass";
/// … whose reply it lost.
pub(super) const LOST: &str = "an experiment lost the reply";

/// How a run of a saga ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Every step is done.
    Done,
    /// Every begun step is undone (or owed).
    Unwound,
    /// Either of them, and the delete of this id, which was waiting, has the server.
    Followed(Uuid),
    /// Another owner has it now: this one must not write.
    Overtaken,
    /// The journal could not be written: a successor must go on from what it holds.
    Lost(String),
}

/// A saga in the hands of a runner.
pub struct Flight {
    pub machine: Machine,
    pub context: Context,
    tables: Tables,
    lease_epoch: i64,
    next_seq: i64,
    /// Ends that the next commit writes.
    pending: Vec<JournalEntry>,
    owed: Vec<NewDebt>,
    /// The context as this runner has last stored it.
    stored: Option<Context>,
}

impl Flight {
    /// A saga whose first step has just been done within the request.
    pub fn accepted(mut context: Context, fence: Fence, at: chrono::DateTime<chrono::Utc>) -> Flight {
        context.lease_epoch = 1;
        let tables = Tables::present(context.kind);
        let table = tables.of(&context);
        let mut machine = Machine::new();
        machine.apply(&table, &Outcome::Ok);
        let first = entry(1, table.steps[0].name, Side::Act, fence.attempt, Event::Ok, None, at);
        Flight { machine, context, tables, lease_epoch: 1, next_seq: 2, pending: vec![first], owed: Vec::new(), stored: None }
    }

    /// A saga taken over from a dead runner: the journal replayed. A side in doubt is at hand again.
    /// Refuses a journal that does not fit its table.
    pub fn resumed(record: &SagaRecord, entries: &[JournalEntry]) -> Result<Flight, Unreadable> {
        let mut context: Context =
            serde_json::from_str(&record.context).map_err(|error| Unreadable(format!("its context cannot be read: {error}")))?;
        context.lease_epoch = record.lease.epoch;
        let tables = Tables::released(context.kind, record.table_version).ok_or_else(|| {
            Unreadable(format!("this release knows no version {} of the table of {}", record.table_version, context.kind))
        })?;
        let machine = replay(&tables.of(&context), entries)?;
        let next_seq = entries.last().map_or(0, |last| last.seq + 1);
        Ok(Flight {
            machine,
            context,
            tables,
            lease_epoch: record.lease.epoch,
            next_seq,
            pending: Vec::new(),
            owed: Vec::new(),
            stored: None,
        })
    }

    fn table(&self) -> Table {
        self.tables.of(&self.context)
    }

    /// Nothing of it but the request's own step has been done.
    fn is_new(&self) -> bool {
        self.next_seq == 2 && !self.pending.is_empty()
    }

    fn push(
        &mut self,
        step: StepName,
        side: Side,
        attempt: i64,
        event: Event,
        error: Option<String>,
        at: chrono::DateTime<chrono::Utc>,
    ) -> i64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.pending.push(entry(seq, step, side, attempt, event, error, at));
        seq
    }

    /// Writes what is pending. Where the saga may be turned back and somebody wishes so, a step that was to begin has not begun.
    async fn commit(&mut self, world: &World, step: &str, commit: Commit) -> Result<Appended, DbError> {
        let (begins, ends) = (commit == Commit::Begins, commit == Commit::Ends);
        let heeds_cancellation = matches!(commit, Commit::Begins | Commit::Rests) && self.machine.may_turn_back(&self.table());
        let changed = self.stored.as_ref() != Some(&self.context);
        let context = changed.then(|| serde_json::to_string(&self.context)).transpose()?;
        let append = Append {
            saga: self.context.saga,
            server: self.context.server,
            lease_epoch: self.lease_epoch,
            entries: std::mem::take(&mut self.pending),
            state: self.machine.state(),
            step: step.to_owned(),
            context,
            error: self.machine.error.clone(),
            begins,
            ends,
            owed: std::mem::take(&mut self.owed),
            heeds_cancellation,
            follow_up: ends.then(|| follow_up(self.context.saga, self.context.server)),
        };
        let appended = world.operations.append(append).await?;
        if changed {
            self.stored = Some(self.context.clone());
        }
        match (begins, &appended.cancelled) {
            (true, Some(_)) => self.next_seq -= 1,
            (true, None) => self.machine.begin(),
            (false, _) => {}
        }
        Ok(appended)
    }

    /// Turns back, as is wished; the next commit says so.
    fn turn_back(&mut self, table: &Table, wish: &Cancellation, at: chrono::DateTime<chrono::Utc>) {
        let Some((position, side)) = self.machine.at_hand() else { return };
        let why = wish.error();
        log::info!(server:% = self.context.server, migration:% = self.context.saga, request = wish.request_id.as_str(); "{} is turned back: {}", self.context.kind, wish.why);
        self.push(table.steps[position].name, side, 0, Event::Cancelled, Some(why.clone()), at);
        self.machine.apply(table, &Outcome::Cancelled(why));
        self.context.cancelled = true;
        self.context.error = self.machine.error.clone();
    }
}

/// The purpose of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Commit {
    /// The last entry begins a side of a step, and takes the next attempt.
    Begins,
    /// Nothing begins for a while.
    Rests,
    /// An experiment wants to see it written.
    Shows,
    /// The saga is over.
    Ends,
}

/// The delete that takes the server when the saga ends. Its id is the ended saga's: should the commit be repeated, there is one.
fn follow_up(ended: Uuid, server: Uuid) -> FollowUp {
    FollowUp::new(move |request, owner| {
        let id = Uuid::new_v5(&ended, b"delete");
        let context = Context::new(id, request.caller.clone(), server, Request::Delete);
        let json = serde_json::to_string(&context).ok()?;
        let tables = Tables::present(context.kind);
        let first = tables.of(&context).steps[0].name;
        Some(NewSaga::new(id, server, (context.kind.as_str(), tables.version), first.as_str(), json, owner))
    })
}

/// Runs a saga to its end, or until it must stop.
pub async fn run(world: Arc<World>, faults: FaultPoints, mut flight: Flight) -> Ended {
    // Effects that an experiment holds back: they happen when this is dropped.
    let mut held_back: Vec<oneshot::Sender<()>> = Vec::new();
    if let (Some(first), true) = (flight.table().steps.first(), flight.is_new()) {
        // The first step was performed within the request; its end comes to the journal here.
        if let Err(error) = after_journal(&world, &faults, &mut flight, first, Side::Act).await {
            return lost(&error);
        }
    }
    loop {
        let table = flight.table();
        let Some((position, side)) = flight.machine.at_hand() else { break };
        let step = &table.steps[position];
        if flight.machine.tries > 0 {
            match flight.commit(&world, step.name.as_str(), Commit::Rests).await {
                Ok(Appended { cancelled: Some(wish), .. }) => {
                    flight.turn_back(&table, &wish, world.env.now());
                    continue;
                }
                Ok(_) => {}
                Err(error) => return lost(&error),
            }
            tokio::time::sleep(world.settings.back_off(flight.machine.tries)).await;
        }
        flight.push(step.name, side, 0, Event::Begun, None, world.env.now());
        let fence = match flight.commit(&world, step.name.as_str(), Commit::Begins).await {
            Ok(Appended { cancelled: Some(wish), .. }) => {
                flight.turn_back(&table, &wish, world.env.now());
                continue;
            }
            Ok(appended) => appended.fence,
            Err(error) => return lost(&error),
        };
        let outcome = match perform(&world, &faults, step, side, &mut flight.context, fence, &mut held_back).await {
            Performed::Ended(outcome) => outcome,
            Performed::Overtaken(why) => {
                log::warn!(server:% = flight.context.server, migration:% = flight.context.saga, step = step.name.as_str(); "another owner has this saga: {why}");
                return Ended::Overtaken;
            }
        };
        note(&world, &mut flight, &table, position, side, fence, &outcome);
        if let Err(error) = after_journal(&world, &faults, &mut flight, step, side).await {
            return lost(&error);
        }
    }
    let state = flight.machine.state();
    flight.context.forget_secrets();
    let follower = match flight.commit(&world, state.as_str(), Commit::Ends).await {
        Ok(appended) => appended.follower,
        Err(error) => return lost(&error),
    };
    log::info!(server:% = flight.context.server, migration:% = flight.context.saga, request = flight.context.caller.request_id.as_str(); "{} {state}", flight.context.kind);
    match follower {
        Some(delete) => Ended::Followed(delete),
        None if flight.machine.cursor == Cursor::Done => Ended::Done,
        None => Ended::Unwound,
    }
}

/// The point at which a side's end is in the journal. Without a fault, that commit is the next one's.
async fn after_journal(world: &World, faults: &FaultPoints, flight: &mut Flight, step: &Step, side: Side) -> Result<(), DbError> {
    let here = point(&flight.context, step, side, Moment::AfterJournal);
    let fault = faults.at(&here);
    if fault != Fault::None {
        flight.commit(world, step.name.as_str(), Commit::Shows).await?;
        obey(faults, fault, &here).await;
    }
    Ok(())
}

/// Takes an outcome into the machine, the context and the lines to be written.
fn note(world: &World, flight: &mut Flight, table: &Table, position: usize, side: Side, fence: Fence, outcome: &Outcome) {
    let step = &table.steps[position];
    let why = outcome.error().map(str::to_owned);
    if let Some(why) = &why {
        log::warn!(server:% = flight.context.server, migration:% = flight.context.saga, request = flight.context.caller.request_id.as_str(), step = step.name.as_str(), side = side.as_str(), attempt = fence.attempt; "{}: {why}", outcome.event());
    }
    if let (Outcome::NextCandidate(why), Some(target)) = (outcome, flight.context.target.clone())
        && let Some(candidates) = flight.context.part_mut().candidates_mut()
    {
        candidates.refusals.push((target.host, why.clone()));
    }
    let seq = flight.push(step.name, side, fence.attempt, outcome.event(), why.clone(), world.env.now());
    let effect = flight.machine.apply(table, outcome);
    let given_up = matches!(flight.machine.cursor, Cursor::Undo(..)) && side == Side::Act && step.undo.work().is_none();
    if step.service_depends && (given_up || effect != Effect::None) {
        flight.context.service_lost = true;
        flight.context.guest_lost |= given_up;
    }
    if let Effect::Owe(_, owed_side) = effect {
        // No undo and no clean-up needs a password.
        let context = serde_json::to_string(&flight.context.without_secrets()).unwrap_or_default();
        flight.owed.push(NewDebt {
            owed_seq: seq,
            step: step.name.to_string(),
            side: owed_side.as_str().to_owned(),
            context,
            reason: why.unwrap_or_default(),
        });
    }
    flight.context.error = flight.machine.error.clone();
}

enum Performed {
    Ended(Outcome),
    Overtaken(String),
}

async fn perform(
    world: &Arc<World>,
    faults: &FaultPoints,
    step: &Step,
    side: Side,
    context: &mut Context,
    fence: Fence,
    held_back: &mut Vec<oneshot::Sender<()>>,
) -> Performed {
    let before = point(context, step, side, Moment::BeforeEffect);
    let fault = faults.at(&before);
    obey(faults, fault, &before).await;
    match fault {
        Fault::Refuse => return Performed::Ended(Outcome::Refused(REFUSED.into())),
        Fault::CompleteLate | Fault::CompleteAfterEnd => {
            let (release, released) = oneshot::channel();
            if fault == Fault::CompleteAfterEnd {
                held_back.push(release);
            }
            let (world, faults, step, mut context) = (world.clone(), faults.kept(), *step, context.clone());
            tokio::spawn(async move {
                // Released by a drop: of the sender here above, or of all when the saga ends.
                let _ = released.await;
                if let Some(work) = work_of(&step, side) {
                    // Its end interests nobody any more: what it did is what the undo and the audit find.
                    let _ = work(&world, &mut context, fence).await;
                }
                faults.over(&point(&context, &step, side, Moment::BeforeEffect));
            });
            return Performed::Ended(Outcome::TimedOut(LATE.into()));
        }
        Fault::Repeat => {
            let _ = under_deadline(world, step, side, &mut context.clone(), fence).await;
        }
        Fault::None | Fault::LoseReply | Fault::KillActor | Fault::Freeze | Fault::Elsewhere | Fault::Wait => {}
    }
    // A side that does not end well must leave no half-changed context behind.
    let mut changed = context.clone();
    let result = under_deadline(world, step, side, &mut changed, fence).await;
    if !stands(Guard::DiscardedContext) {
        *context = changed.clone();
    }
    if fault == Fault::LoseReply {
        return Performed::Ended(Outcome::Unknown(LOST.into()));
    }
    let after = faults.at(&point(context, step, side, Moment::AfterEffect));
    let outcome = match result {
        Ok(Ok(())) if after == Fault::Refuse => Outcome::Refused(REFUSED.into()),
        Ok(Ok(())) => {
            *context = changed;
            Outcome::Ok
        }
        Ok(Err(StepError::Overtaken(why))) => return Performed::Overtaken(why),
        Ok(Err(StepError::Refused(why))) => Outcome::Refused(why),
        Ok(Err(StepError::NextCandidate(why))) => Outcome::NextCandidate(why),
        Ok(Err(StepError::Unknown(why))) => Outcome::Unknown(why),
        Ok(Err(StepError::GoForward(why))) => Outcome::GoForward(why),
        Err(why) => Outcome::TimedOut(why),
    };
    obey(faults, after, &point(context, step, side, Moment::AfterEffect)).await;
    Performed::Ended(outcome)
}

fn work_of(step: &Step, side: Side) -> Option<crate::saga::step::Work> {
    match side {
        Side::Act => Some(step.act),
        Side::Undo => step.undo.work(),
    }
}

/// Performs a side; `Err` when its deadline passed.
async fn under_deadline(
    world: &Arc<World>,
    step: &Step,
    side: Side,
    context: &mut Context,
    fence: Fence,
) -> Result<Result<(), StepError>, String> {
    let Some(work) = work_of(step, side) else { return Ok(Ok(())) };
    let limit = world.settings.deadline(step);
    let saga = context.saga;
    let places: Vec<(String, String)> =
        [&context.source, &context.target].into_iter().flatten().map(|p| (p.cell.clone(), p.host.clone())).collect();
    let running = work(world, context, fence);
    tokio::pin!(running);
    let by_progress = side == Side::Act && matches!(step.deadline, Deadline::WithoutProgress(_));
    let mut seen = 0;
    loop {
        if let Ok(result) = tokio::time::timeout(limit, &mut running).await {
            return Ok(result);
        }
        let moved = if by_progress { progress(world, &places, saga).await } else { 0 };
        if moved <= seen {
            return Err(format!("no end within {} s", limit.as_secs_f32()));
        }
        seen = moved;
    }
}

/// Bytes that the hosts of a move have copied for it so far.
async fn progress(world: &World, places: &[(String, String)], operation: Uuid) -> u64 {
    let mut moved = 0;
    for (cell, host) in places {
        if let Ok(HostAnswer::Progress { done, .. }) =
            world.hosts.query(cell, host, HostQuery::Progress { operation }, Duration::from_secs(2)).await
        {
            moved += done;
        }
    }
    moved
}

/// Where a runner (or the request that begins an operation) is.
pub(super) fn point<'a>(context: &Context, step: &'a Step, side: Side, moment: Moment) -> Point<'a> {
    Point { saga: context.kind.as_str(), id: context.saga, server: context.server, step: step.name.as_str(), side: side.as_str(), moment }
}

/// The faults that end what runs.
pub(super) async fn obey(faults: &FaultPoints, fault: Fault, here: &Point<'_>) {
    match fault {
        // Without the hook: nobody needs a backtrace of an experiment.
        Fault::KillActor => std::panic::resume_unwind(Box::new("an experiment kills this migration's actor")),
        Fault::Freeze => {
            faults.over(here);
            futures::future::pending().await
        }
        Fault::Wait => faults.released(here).await,
        Fault::None
        | Fault::Refuse
        | Fault::LoseReply
        | Fault::Repeat
        | Fault::CompleteLate
        | Fault::CompleteAfterEnd
        | Fault::Elsewhere => {}
    }
}

fn lost(error: &DbError) -> Ended {
    match error {
        DbError::Conflict(_) => Ended::Overtaken,
        other => Ended::Lost(other.to_string()),
    }
}

fn entry(
    seq: i64,
    step: StepName,
    side: Side,
    attempt: i64,
    event: Event,
    error: Option<String>,
    at: chrono::DateTime<chrono::Utc>,
) -> JournalEntry {
    JournalEntry { seq, step: step.to_string(), side: side.to_string(), attempt, event: event.to_string(), error, at }
}
