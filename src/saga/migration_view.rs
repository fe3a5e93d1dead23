//! A saga as operators see it: its tries, its progress and its debts. The HTTP resource `/ops/v1/migrations` and the command line show the
//! same values.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::debt::Debt;
use crate::domain::flavor::Flavor;
use crate::domain::reason::Reason;
use crate::domain::saga_record::{JournalEntry, SagaRecord};
use crate::domain::saga_state::SagaState;
use crate::saga::context::Place;

/// A try of a side of a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepView {
    /// The journal's number of the entry that began the try.
    pub seq: i64,
    pub step: String,
    /// `act` or `undo`.
    pub side: String,
    pub attempt: i64,
    /// `ok`, `skipped` if the step had nothing to do, `failed`, `timeout` or `unknown`; none while it runs.
    pub outcome: Option<String>,
    pub error: Option<String>,
    pub begun_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
}

/// An undo or a clean-up that is owed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DebtView {
    pub step: String,
    /// `act` or `undo`.
    pub side: String,
    /// The reason of the last failure.
    pub reason: String,
    pub tries: i64,
    /// True if the participant refuses it, so that an operator must look.
    pub needs_operator: bool,
    pub since: DateTime<Utc>,
}

/// A host in its cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlaceView {
    pub cell: String,
    pub host: String,
}

/// The bytes of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopiedView {
    pub done: u64,
    pub total: u64,
}

/// A saga as operators see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MigrationView {
    pub uuid: Uuid,
    pub server: Uuid,
    /// The server's name when the operation took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The server's flavor, and the flavor that a resize gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_flavor: Option<String>,
    /// The kind of the saga (`resize`, `confirm`, …).
    pub saga: String,
    /// `running`, `done`, `unwinding`, `unwound` or `needs_operator`.
    pub state: String,
    /// The reason why this release cannot go on with the saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The error that turned the saga back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The step at hand.
    pub step: String,
    /// The percentage of steps that are done and not undone.
    pub progress: u8,
    /// Where the server was, and where it goes, as far as the operation has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PlaceView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PlaceView>,
    /// The step after which the operation only goes forward, if its table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pivot: Option<String>,
    /// The bytes that the step at hand has copied, while it copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedView>,
    pub debts: Vec<DebtView>,
    pub started_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// In the journal's order. Filled only if one migration is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepView>>,
    /// The names of all its steps in the order of their acts, as far as this release knows its table. Filled only if one migration is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<String>>,
}

impl MigrationView {
    /// Makes the view of a saga. `debts` may be those of all sagas. `steps_in_table` is the length of its table. `copied` has the moved
    /// bytes and all bytes of the step at hand, if it copies.
    pub fn of(
        saga: &SagaRecord,
        entries: &[JournalEntry],
        debts: &[Debt],
        steps_in_table: usize,
        copied: Option<(u64, u64)>,
    ) -> MigrationView {
        let debts: Vec<DebtView> = debts.iter().filter(|debt| debt.saga == saga.id).map(DebtView::from).collect();
        let needs_operator = debts.iter().any(|debt| debt.needs_operator);
        MigrationView {
            uuid: saga.id,
            server: saga.server,
            server_name: None,
            flavor: None,
            new_flavor: None,
            saga: saga.kind.clone(),
            state: if needs_operator { SagaState::NeedsOperator } else { saga.state }.to_string(),
            reason: saga.error.as_deref().filter(|_| saga.state == SagaState::NeedsOperator).map(whole),
            error: saga.error.as_deref().filter(|_| saga.state != SagaState::NeedsOperator).map(whole),
            step: saga.step.clone(),
            progress: if saga.state == SagaState::Done { 100 } else { percent(entries, steps_in_table, copied) },
            source: None,
            target: None,
            pivot: None,
            copied: copied.map(|(done, total)| CopiedView { done, total }),
            debts,
            started_at: saga.created_at,
            updated_at: saga.updated_at,
            steps: None,
            plan: None,
        }
    }

    /// Returns the view with the places of a move and its pivot.
    pub fn with_places(self, source: Option<&Place>, target: Option<&Place>, pivot: Option<String>) -> MigrationView {
        let view = |place: &Place| PlaceView { cell: place.cell.clone(), host: place.host.clone() };
        MigrationView { source: source.map(view), target: target.map(view), pivot, ..self }
    }

    /// Returns the view with the server's name and flavors, as the operation found them.
    pub fn with_server(self, name: &str, old: Option<&Flavor>, new: Option<&Flavor>) -> MigrationView {
        let flavor = old.or(new).map(|flavor| flavor.name.clone());
        let new_flavor = new.map(|flavor| flavor.name.clone()).filter(|new| flavor.as_ref() != Some(new));
        MigrationView { server_name: Some(name.to_owned()).filter(|name| !name.is_empty()), flavor, new_flavor, ..self }
    }

    /// Returns the view with its tries.
    pub fn with_steps(self, entries: &[JournalEntry]) -> MigrationView {
        MigrationView { steps: Some(steps_of(entries)), ..self }
    }

    /// Returns the view with the names of its table's steps.
    pub fn with_plan(self, plan: Option<Vec<String>>) -> MigrationView {
        MigrationView { plan, ..self }
    }

    /// True if nothing happens any more except the payment of debts.
    pub fn is_over(&self) -> bool {
        !matches!(self.state.as_str(), "running" | "unwinding")
    }
}

impl From<&Debt> for DebtView {
    fn from(debt: &Debt) -> DebtView {
        DebtView {
            step: debt.step.clone(),
            side: debt.side.clone(),
            reason: whole(&debt.reason),
            tries: debt.tries,
            needs_operator: debt.needs_operator,
            since: debt.created_at,
        }
    }
}

/// Folds a journal into tries: each `begun` entry with the entry that ended it. A try whose runner died before its end reads as `unknown`,
/// without an end.
pub fn steps_of(entries: &[JournalEntry]) -> Vec<StepView> {
    let mut steps: Vec<StepView> = Vec::new();
    let mut open = false;
    for entry in entries {
        if entry.event == "begun" {
            if open && let Some(dead) = steps.last_mut() {
                dead.outcome = Some("unknown".to_owned());
                dead.error = Some("no end was recorded: its runner died".to_owned());
            }
            steps.push(begun(entry));
            open = true;
            continue;
        }
        let ends_last = open && steps.last().is_some_and(|last| last.step == entry.step && last.side == entry.side);
        if !ends_last {
            steps.push(begun(entry));
        }
        open = false;
        if let Some(last) = steps.last_mut() {
            last.outcome = Some(outcome(entry).to_owned());
            last.error = entry.error.as_deref().map(whole);
            last.ended_at = Some(entry.at);
        }
    }
    steps
}

/// Returns a stored reason as operators read it.
fn whole(stored: &str) -> String {
    Reason::read(stored).to_string()
}

fn begun(entry: &JournalEntry) -> StepView {
    StepView {
        seq: entry.seq,
        step: entry.step.clone(),
        side: entry.side.clone(),
        attempt: entry.attempt,
        outcome: None,
        error: None,
        begun_at: entry.at,
        ended_at: None,
    }
}

/// Returns the operators' word for the end of a try. The error says why the saga went on to another candidate, or forward again.
fn outcome(entry: &JournalEntry) -> &'static str {
    match entry.event.as_str() {
        // No effect carries attempt 0: the runner passed the step over (`saga/idle.rs`).
        "ok" if entry.attempt == 0 => "skipped",
        "ok" => "ok",
        "timeout" => "timeout",
        "unknown" => "unknown",
        _ => "failed",
    }
}

fn percent(entries: &[JournalEntry], steps_in_table: usize, copied: Option<(u64, u64)>) -> u8 {
    if steps_in_table == 0 {
        return 0;
    }
    let mut standing: Vec<&str> = Vec::new();
    for entry in entries {
        match (entry.side.as_str(), entry.event.as_str()) {
            ("act", "ok") if !standing.contains(&entry.step.as_str()) => standing.push(&entry.step),
            // The undo of a step that had nothing to do has an end, but no beginning.
            ("undo", "begun" | "ok") => standing.retain(|step| *step != entry.step),
            _ => {}
        }
    }
    let thousandths = match copied {
        Some((done, total)) if total > 0 => done.min(total).saturating_mul(1000) / total,
        _ => 0,
    };
    let done = standing.len() as u64 * 1000 + thousandths;
    u8::try_from(done / (10 * steps_in_table as u64)).unwrap_or(100).min(if standing.len() < steps_in_table { 99 } else { 100 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::saga_record::Lease;

    fn entry(seq: i64, step: &str, side: &str, event: &str, error: Option<&str>) -> JournalEntry {
        let at = DateTime::UNIX_EPOCH + chrono::Duration::seconds(seq);
        JournalEntry {
            seq,
            step: step.into(),
            side: side.into(),
            attempt: seq / 2 + 1,
            event: event.into(),
            error: error.map(str::to_owned),
            at,
        }
    }

    fn record(state: &str) -> SagaRecord {
        SagaRecord {
            id: Uuid::from_u128(1),
            server: Uuid::from_u128(2),
            kind: "resize".into(),
            table_version: 1,
            state: SagaState::parse(state).unwrap(),
            step: "bind".into(),
            context: "{}".into(),
            error: None,
            cancellation: None,
            lease: Lease { owner: "c1".into(), epoch: 1 },
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_journal_folds_into_tries_with_their_ends() {
        let entries = [
            entry(0, "accept", "act", "begun", None),
            entry(1, "accept", "act", "ok", None),
            entry(2, "bind", "act", "begun", None),
            entry(3, "bind", "act", "begun", None),
            entry(4, "bind", "act", "next_candidate", Some("host h2: no room")),
            entry(5, "bind", "undo", "begun", None),
        ];
        let steps = steps_of(&entries);
        let summary: Vec<_> =
            steps.iter().map(|s| (s.seq, s.step.as_str(), s.side.as_str(), s.outcome.as_deref(), s.ended_at.is_some())).collect();
        assert_eq!(
            summary,
            [
                (0, "accept", "act", Some("ok"), true),
                (2, "bind", "act", Some("unknown"), false),
                (3, "bind", "act", Some("failed"), true),
                (5, "bind", "undo", None, false),
            ]
        );
        assert_eq!(steps[2].error.as_deref(), Some("host h2: no room"));
    }

    #[test]
    fn steps_with_nothing_to_do_are_skipped_and_leave_no_progress() {
        let passed_over = |seq, side| JournalEntry { attempt: 0, ..entry(seq, "move_volumes", side, "ok", None) };
        let entries = [entry(0, "accept", "act", "begun", None), entry(1, "accept", "act", "ok", None), passed_over(2, "act")];
        let steps = steps_of(&entries);
        assert_eq!(steps.iter().map(|step| step.outcome.as_deref()).collect::<Vec<_>>(), [Some("ok"), Some("skipped")]);
        assert_eq!(MigrationView::of(&record("running"), &entries, &[], 4, None).progress, 50);
        let unwound = [&entries[..], &[passed_over(3, "undo")]].concat();
        assert_eq!(MigrationView::of(&record("unwinding"), &unwound, &[], 4, None).progress, 25);
    }

    #[test]
    fn progress_counts_done_steps_and_debts_ask_for_an_operator() {
        let mut entries = vec![entry(0, "accept", "act", "begun", None), entry(1, "accept", "act", "ok", None)];
        let view = MigrationView::of(&record("running"), &entries, &[], 4, Some((50, 100)));
        assert_eq!((view.state.as_str(), view.progress), ("running", 37));
        entries.push(entry(2, "accept", "undo", "begun", None));
        let debt = Debt {
            kind: "stop".into(),
            table_version: 1,
            saga: Uuid::from_u128(1),
            owed_seq: 2,
            server: Uuid::from_u128(2),
            step: "accept".into(),
            side: "undo".into(),
            context: "{}".into(),
            reason: "host h1 refused".into(),
            tries: 11,
            needs_operator: true,
            created_at: DateTime::UNIX_EPOCH,
        };
        let other = Debt { saga: Uuid::from_u128(9), ..debt.clone() };
        let view = MigrationView::of(&record("unwound"), &entries, &[debt, other], 4, None);
        assert_eq!((view.state.as_str(), view.progress, view.debts.len()), ("needs_operator", 0, 1));
        let flavor = |name: &str| Flavor { name: name.into(), ..Flavor::default() };
        let resized = view.clone().with_server("web", Some(&flavor("small")), Some(&flavor("large")));
        assert_eq!((resized.flavor.as_deref(), resized.new_flavor.as_deref()), (Some("small"), Some("large")));
        let moved = view.clone().with_server("", Some(&flavor("small")), Some(&flavor("small")));
        assert_eq!((moved.server_name, moved.flavor.as_deref(), moved.new_flavor), (None, Some("small"), None));
        assert_eq!(MigrationView::of(&record("done"), &entries, &[], 4, None).progress, 100);
        assert!(!serde_json::to_string(&view).unwrap().contains("\"steps\""));
    }
}
