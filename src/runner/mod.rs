//! The runner drives one saga: it commits to the journal, has the side at hand performed, and goes on as the [`Course`] says. The journal
//! holds all that its decisions depend on, so a successor can go on from any commit. [`room`] bounds how many sagas are at work.

mod host_wait;
pub mod room;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use self::host_wait::HostWait;
use self::room::{Room, Turn};
use crate::db::DbError;
use crate::db::api::cancellations::FollowUp;
use crate::db::api::debts::NewDebt;
use crate::db::api::operations::{Append, Appended, NewSaga};
use crate::domain::cancellation::Cancellation;
use crate::domain::fence::Fence;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::saga_record::{JournalEntry, SagaRecord, UnknownTable};
use crate::domain::saga_state::SagaState;
use crate::domain::span::span;
use crate::metrics::Stopwatch;
use crate::saga::context::{Context, Place, Request};
use crate::saga::course::{Commit, Course, Lost};
use crate::saga::journal::{Unreadable, read, stored};
use crate::saga::machine::{Cursor, Event, Outcome, Side, saga_state};
use crate::saga::performer::{Performed, Performer};
use crate::saga::step::{Step, Table};
use crate::saga::tables::Tables;
use crate::saga::world::World;

/// The log's target for the one line of each operation.
const OPERATIONS: &str = "cellshift::operations";
/// The pause between two looks for a wish to cancel a step that can be interrupted.
const BETWEEN_WISHES: Duration = Duration::from_millis(250);

/// The end of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Every step is done.
    Done,
    /// Every begun step is undone (or owed).
    Unwound,
    /// The saga is over, and the delete with this id, which waited, has the server.
    Followed(Uuid),
    /// Another owner has the saga: this runner must not write.
    Overtaken,
    /// The journal could not be written: a successor goes on from its last line.
    Lost(Reason),
}

/// A saga in the hands of a runner.
pub struct Flight {
    course: Course,
    pub context: Context,
    tables: Tables,
    lease_epoch: i64,
    /// Debts for the next commit.
    owed: Vec<NewDebt>,
    /// The digest of the context that this runner stored last. A digest is small, and thousands of sagas may wait.
    stored: Option<[u8; 32]>,
    /// The time of the saga's beginning, for metrics.
    began: DateTime<Utc>,
}

impl Flight {
    /// Makes the flight of a saga whose first step was performed within the request.
    pub fn accepted(mut context: Context, fence: Fence, at: DateTime<Utc>) -> Flight {
        context.lease_epoch = 1;
        let tables = Tables::present(context.kind);
        let course = Course::accepted(&tables.of(&context), fence.attempt, at);
        Flight { course, context, tables, lease_epoch: 1, owed: Vec::new(), stored: None, began: at }
    }

    /// Makes the flight of a saga that is taken over, by a replay of its journal. A side in doubt is at hand again. Refuses a journal that does
    /// not fit its table.
    pub fn resumed(record: &SagaRecord, entries: &[JournalEntry]) -> Result<Flight, Unreadable> {
        let mut context: Context =
            serde_json::from_str(&record.context).map_err(|error| Unreadable(format!("its context cannot be read: {error}")))?;
        context.lease_epoch = record.lease.epoch;
        let tables = Tables::released(context.kind, record.table_version)
            .ok_or_else(|| Unreadable(UnknownTable { kind: context.kind.to_string(), version: record.table_version }.reason()))?;
        let course = Course::resumed(&tables.of(&context), entries.iter().map(read))?;
        let (lease_epoch, began) = (record.lease.epoch, record.created_at);
        Ok(Flight { course, context, tables, lease_epoch, owed: Vec::new(), stored: None, began })
    }

    fn table(&self) -> Table {
        self.tables.of(&self.context)
    }

    /// Writes what the course gives. `step` is what operators see of the saga's place.
    async fn write(&mut self, world: &World, step: &str, commit: Commit) -> Result<Appended, DbError> {
        let Commit { lines, state, error, begins, ends, heeds_cancellation } = commit;
        let context = serde_json::to_string(&self.context)?;
        let digest: [u8; 32] = Sha256::digest(&context).into();
        let changed = self.stored != Some(digest);
        let append = Append {
            saga: self.context.saga,
            server: self.context.server,
            lease_epoch: self.lease_epoch,
            entries: lines.into_iter().map(stored).collect(),
            state: saga_state(state),
            step: step.to_owned(),
            context: changed.then_some(context),
            error,
            begins,
            ends,
            owed: std::mem::take(&mut self.owed),
            heeds_cancellation,
            follow_up: ends.then(|| follow_up(self.context.saga, self.context.server)),
        };
        let appended = world.operations.append(append).await?;
        world.env.changes().note(self.context.saga);
        self.stored = Some(digest);
        if begins {
            self.course.begun(appended.cancelled.is_some());
        }
        Ok(appended)
    }

    /// Turns the saga back; the next commit records it.
    fn turn_back(&mut self, table: &Table, wish: &Cancellation, at: DateTime<Utc>) {
        log::info!(server:% = self.context.server, migration:% = self.context.saga, request = wish.request_id.as_str(); "{} is turned back: {}", self.context.kind, wish.why);
        self.course.turn_back(table, &Reason::public(wish.error()).stored(), at);
        self.context.cancelled = true;
        self.context.error = self.course.machine().error.as_deref().map(Reason::read);
    }
}

/// Returns the delete that takes the server when the saga ends. Its id derives from the ended saga's, so a repeated commit makes no second one.
fn follow_up(ended: Uuid, server: Uuid) -> FollowUp {
    FollowUp::new(move |request, owner| {
        let id = Uuid::new_v5(&ended, b"delete");
        let context = Context::new(id, request.caller.clone(), server, Request::of_delete(request));
        let json = serde_json::to_string(&context).ok()?;
        let tables = Tables::present(context.kind);
        let first = tables.of(&context).steps[0].name;
        Some(NewSaga::new(id, server, (context.kind.as_str(), tables.version), first.as_str(), json, owner))
    })
}

/// Runs a saga to its end, or until it must stop. Between its first step and the others it waits for a turn. The flight is on the heap, so that
/// the many sagas that wait hold it once.
pub async fn run(world: Arc<World>, mut performer: Box<dyn Performer>, room: Room, mut flight: Box<Flight>) -> Ended {
    if let (Some(first), true) = (flight.table().steps.first(), flight.course.is_new()) {
        // The first step was performed within the request; its end enters the journal here.
        if let Err(error) = after_end(&world, performer.as_mut(), &mut flight, first, Side::Act).await {
            return lost(&error);
        }
    }
    let (mut turn, mut host_wait) = (None, HostWait::default());
    loop {
        let table = flight.table();
        let Some((position, side)) = flight.course.machine().at_hand() else { break };
        // A saga that was taken over within its first step performs that step at once: users see its server from then on.
        if turn.is_none() && (position, side) != (0, Side::Act) {
            turn = Some(room.turn(&flight.context).await);
        }
        let step = &table.steps[position];
        if (step.is_idle)(&flight.context) && performer.may_pass(&flight.context, step) {
            flight.course.pass_over(&table, world.env.now());
            continue;
        }
        match rest(&world, &mut flight, (&table, position), &mut host_wait, &mut turn).await {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => return lost(&error),
        }
        let begin = flight.course.begin(&table, world.env.now());
        let saga = flight.context.saga;
        let fence = match flight.write(&world, step.name.as_str(), begin).await {
            Ok(Appended { cancelled: Some(wish), .. }) => {
                flight.turn_back(&table, &wish, world.env.now());
                continue;
            }
            Ok(appended) => appended.fence,
            Err(error) => return lost(&error),
        };
        let watch = world.env.stopwatch();
        let performed = tokio::select! {
            biased;
            performed = performer.perform(&world, step, side, &mut flight.context, fence) => performed,
            wish = wish_to_interrupt(&world, step, side, saga) => {
                measure(&world, &flight, step, side, Event::Cancelled.as_str(), watch);
                flight.turn_back(&table, &wish, world.env.now());
                continue;
            }
        };
        let outcome = match performed {
            Performed::Ended(outcome) => outcome,
            Performed::Overtaken(why) => {
                measure(&world, &flight, step, side, "overtaken", watch);
                log::warn!(server:% = flight.context.server, migration:% = flight.context.saga, step = step.name.as_str(); "another owner has this saga: {why}");
                return Ended::Overtaken;
            }
        };
        measure(&world, &flight, step, side, outcome.event().as_str(), watch);
        note(&world, &mut flight, &table, (step, side), fence, &outcome);
        if let Err(error) = after_end(&world, performer.as_mut(), &mut flight, step, side).await {
            return lost(&error);
        }
    }
    end(&world, flight).await
}

/// Pauses before a further try, and while the host is away that the operation needs; then the turn goes to another operation. False if the
/// saga looks again what is at hand: it was turned back, or has waited.
async fn rest(
    world: &World,
    flight: &mut Flight,
    (table, position): (&Table, usize),
    host_wait: &mut HostWait,
    turn: &mut Option<Turn>,
) -> Result<bool, DbError> {
    let waits = host_wait.is_needed(world, &flight.context, position).await;
    let tries = flight.course.machine().tries;
    if tries == 0 && !waits {
        return Ok(true);
    }
    let step = table.steps[position].name.as_str();
    let rest = flight.course.rest(table);
    if let Appended { cancelled: Some(wish), .. } = flight.write(world, step, rest).await? {
        flight.turn_back(table, &wish, world.env.now());
        return Ok(false);
    }
    if waits {
        *turn = None;
        host_wait.until_back(world, &flight.context).await;
        return Ok(false);
    }
    tokio::time::sleep(world.settings.back_off(tries)).await;
    Ok(true)
}

/// Writes the end of the saga, and lets its server go.
async fn end(world: &World, mut flight: Box<Flight>) -> Ended {
    flight.context.forget_secrets();
    let end = flight.course.end();
    let state = saga_state(end.state);
    let follower = match flight.write(world, state.as_str(), end).await {
        Ok(appended) => appended.follower,
        Err(error) => return lost(&error),
    };
    let took = world.env.now() - flight.began;
    let (context, request) = (&flight.context, flight.context.caller.request_id.as_str());
    let line = end_line(context, state, took);
    log::info!(target: OPERATIONS, server:% = context.server, migration:% = context.saga, request = request; "{line}");
    world.env.metrics().operation_ended(context.kind.as_str(), state.as_str(), took.to_std().unwrap_or_default());
    tell_spans(world, &flight, state).await;
    match follower {
        Some(delete) => Ended::Followed(delete),
        None if flight.course.machine().cursor == Cursor::Done => Ended::Done,
        None => Ended::Unwound,
    }
}

/// Tells the spans of an ended operation, if traces are made. A journal that cannot be read now is not read again for them.
async fn tell_spans(world: &World, flight: &Flight, state: SagaState) {
    if !world.env.traces().is_on() {
        return;
    }
    match world.operations.entries(flight.context.saga).await {
        Ok(entries) => world.env.traces().tell(spans::of(&flight.context, state, &entries, (flight.began, world.env.now()))),
        Err(error) => log::debug!(migration:% = flight.context.saga; "an operation has no spans: {error}"),
    }
}

/// Tells an operation's end in one line: `resize of "web" done after 1.2 s, cell1/host1 → cell2/host1`.
fn end_line(context: &Context, state: SagaState, took: TimeDelta) -> String {
    // Quoted, so that a name's control characters are escaped.
    let name = if context.display_name.is_empty() { context.server.to_string() } else { format!("{:?}", context.display_name) };
    let places: Vec<String> = [&context.source, &context.target].into_iter().flatten().map(Place::to_string).collect();
    let places = if places.is_empty() { String::new() } else { format!(", {}", places.join(" → ")) };
    let why = context.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let when_undone = context.kind.operation().when_undone.filter(|_| state == SagaState::Unwound);
    let when_undone = when_undone.map(|words| format!(", {words}")).unwrap_or_default();
    format!("{} of {name} {state} after {}{places}{when_undone}{why}", context.kind, span(took))
}

/// Waits for a wish to cancel that may interrupt this side; for ever if none may. A wish that cannot be read now is read later.
async fn wish_to_interrupt(world: &World, step: &Step, side: Side, saga: Uuid) -> Cancellation {
    if !step.heeds_wishes(side) {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(BETWEEN_WISHES).await;
        if let Ok(Some(wish)) = world.operations.wish(saga).await {
            return wish;
        }
    }
}

/// Writes the end of a side now if the performer waits for it. Otherwise the next commit writes it.
async fn after_end(world: &World, performer: &mut dyn Performer, flight: &mut Flight, step: &Step, side: Side) -> Result<(), DbError> {
    if performer.waits_for_journal(&flight.context, step, side) {
        let show = flight.course.show();
        flight.write(world, step.name.as_str(), show).await?;
        performer.journalled(&flight.context, step, side).await;
    }
    Ok(())
}

/// Counts the end of a side for metrics.
fn measure(world: &World, flight: &Flight, step: &Step, side: Side, outcome: &str, watch: Stopwatch) {
    let words = [flight.context.kind.as_str(), step.name.as_str(), side.as_str(), outcome];
    world.env.metrics().step(words, watch.elapsed());
}

/// Applies an outcome to the course and the context.
fn note(world: &World, flight: &mut Flight, table: &Table, (step, side): (&Step, Side), fence: Fence, outcome: &Outcome) {
    if let Some(why) = outcome.error().map(Reason::read) {
        log::warn!(server:% = flight.context.server, migration:% = flight.context.saga, request = flight.context.caller.request_id.as_str(), step = step.name.as_str(), side = side.as_str(), attempt = fence.attempt; "{}: {why}", outcome.event());
    }
    if let (Outcome::NextCandidate(why), Some(target)) = (outcome, flight.context.target.clone())
        && let Some(candidates) = flight.context.part_mut().candidates_mut()
    {
        candidates.refusals.push((target.host, Reason::read(why)));
    }
    let consequences = flight.course.ended(table, fence.attempt, outcome, world.env.now());
    if let Some(lost) = consequences.lost {
        flight.context.service_lost = true;
        flight.context.guest_lost |= lost == Lost::ForGood;
    }
    if let Some(owed) = consequences.owed {
        // No undo and no clean-up needs the guest's secrets.
        let context = serde_json::to_string(&flight.context.without_secrets()).unwrap_or_default();
        world.env.metrics().debt_recorded(owed.step.as_str(), owed.side.as_str());
        flight.owed.push(NewDebt {
            owed_seq: owed.seq,
            step: owed.step.to_string(),
            side: owed.side.to_string(),
            context,
            reason: owed.reason,
        });
    }
    flight.context.error = flight.course.machine().error.as_deref().map(Reason::read);
}

fn lost(error: &DbError) -> Ended {
    match error {
        DbError::Conflict(_) => Ended::Overtaken,
        other => Ended::Lost(reason!("{other}")),
    }
}
