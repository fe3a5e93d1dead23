//! What the audit answers: the JSON of `/ops/v1/audit`, and lines for a terminal.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::explanations::Topic;
use super::snapshot::Snapshot;
use crate::services::lost_and_found::Lost;

/// An invariant that does not hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Violation {
    /// `I1` to `I18`.
    pub invariant: String,
    /// What it is about: `server <uuid>`, `port <uuid>`, ….
    pub subject: String,
    /// A sentence: what was found, and what was expected.
    pub message: String,
}

/// A debt that stands: it is no violation, and what it explains is none either.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StandingDebt {
    pub migration: Uuid,
    pub server: Uuid,
    pub step: String,
    /// `act` or `undo`.
    pub side: String,
    pub reason: String,
    pub needs_operator: bool,
}

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// How many of each: cells, hosts, servers (at rest), guests, ports, ….
    pub counts: BTreeMap<String, usize>,
    /// The invariants that can be seen in a world at rest, and were looked for.
    pub invariants: Vec<String>,
    /// Servers that an operation holds: only what must hold at every instant was looked for.
    pub busy: Vec<Uuid>,
    pub debts: Vec<StandingDebt>,
    /// Every byte was read of which it is known what was written; otherwise files were looked at by their lengths.
    #[serde(default)]
    pub deep: bool,
    /// Cells, hosts and services that did not answer: nothing is known of what they hold.
    pub unreachable: Vec<String>,
    /// Files in `lost+found/`. They are no violation: no invariant speaks of them, and the service never uses them.
    #[serde(default)]
    pub lost_and_found: Vec<Lost>,
}

/// The audit's answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// No violation was found in what answered; see [`Report::is_complete`].
    pub clean: bool,
    pub violations: Vec<Violation>,
    pub checked: Checked,
    pub at: DateTime<Utc>,
}

impl Report {
    pub(super) fn new(snapshot: &Snapshot, mut violations: Vec<Violation>, invariants: &[&str]) -> Report {
        violations.sort();
        violations.dedup();
        let debts = snapshot.debts.iter().map(|debt| StandingDebt {
            migration: debt.saga,
            server: debt.server,
            step: debt.step.clone(),
            side: debt.side.clone(),
            reason: debt.reason.clone(),
            needs_operator: debt.needs_operator,
        });
        let checked = Checked {
            counts: counts(snapshot),
            invariants: invariants.iter().map(|id| (*id).to_owned()).collect(),
            busy: snapshot.busy.iter().copied().collect(),
            debts: debts.collect(),
            deep: snapshot.deep.is_some(),
            unreachable: snapshot.unreachable.clone(),
            lost_and_found: snapshot.lost_and_found.clone(),
        };
        Report { clean: violations.is_empty(), violations, checked, at: snapshot.at }
    }

    /// Everything answered.
    pub fn is_complete(&self) -> bool {
        self.checked.unreachable.is_empty()
    }
}

fn counts(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let placement = snapshot.placement.as_ref();
    let guests = || snapshot.hosts.values().flat_map(|host| &host.report.guests);
    let mut counts: BTreeMap<String, usize> = [
        ("cells", snapshot.cells.len()),
        ("hosts", snapshot.hosts.len()),
        ("servers", snapshot.resting().len()),
        ("guests", guests().count()),
        ("disks", guests().flat_map(|guest| &guest.disks).filter(|disk| disk.is_disk()).count()),
        ("images", snapshot.image_files.as_ref().map_or(0, Vec::len)),
        ("volumes", snapshot.volume_files.as_ref().map_or(0, Vec::len)),
        ("records", snapshot.records().count()),
        ("ports", snapshot.ports.as_ref().map_or(0, Vec::len)),
        ("attachments", snapshot.attachments.as_ref().map_or(0, Vec::len)),
        ("providers", placement.map_or(0, |placement| placement.providers.len())),
        ("consumers", placement.map_or(0, |placement| placement.allocations.len())),
        ("temporary_images", snapshot.temporary_images.as_ref().map_or(0, Vec::len)),
        ("sagas", snapshot.sagas.len()),
        ("journal_entries", snapshot.journals.values().map(Vec::len).sum()),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), count))
    .collect();
    if let Some(deep) = &snapshot.deep {
        counts.insert("files_read".to_owned(), deep.files_read);
        counts.insert("bytes_read".to_owned(), usize::try_from(deep.bytes_read).unwrap_or(usize::MAX));
        counts.insert("files_without_a_checksum".to_owned(), deep.files_unknown);
    }
    counts
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<4} {}: {}", self.invariant, self.subject, self.message)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for debt in &self.checked.debts {
            let operator = if debt.needs_operator { ", needs an operator" } else { "" };
            writeln!(
                f,
                "owed server {}: {} of {} (migration {}{operator}): {}",
                debt.server, debt.side, debt.step, debt.migration, debt.reason
            )?;
        }
        for silent in &self.checked.unreachable {
            writeln!(f, "not checked: {silent}")?;
        }
        for server in &self.checked.busy {
            writeln!(f, "in flight: server {server}")?;
        }
        for lost in &self.checked.lost_and_found {
            writeln!(f, "in lost+found: {}, {} bytes", lost.path.display(), lost.bytes)?;
        }
        let counts: Vec<String> = self.checked.counts.iter().map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
        writeln!(f, "checked {}", counts.join(", "))?;
        match (self.violations.len(), self.is_complete()) {
            (0, true) => write!(f, "clean: no violations"),
            (0, false) => write!(f, "incomplete: no violations in what answered"),
            (1, _) => write!(f, "1 violation"),
            (many, _) => write!(f, "{many} violations"),
        }
    }
}

/// Collects what a rule finds, without what a debt explains.
pub(super) struct Findings<'a> {
    snapshot: &'a Snapshot,
    found: Vec<Violation>,
}

impl<'a> Findings<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Findings<'a> {
        Findings { snapshot, found: Vec::new() }
    }

    /// A violation that nothing excuses.
    pub fn add(&mut self, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        self.found.push(Violation { invariant: invariant.to_owned(), subject: subject.to_string(), message: message.to_string() });
    }

    /// A violation unless a debt of the server is about that part of it.
    pub fn about(&mut self, server: Uuid, topic: Topic, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        if !self.snapshot.is_explained(server, topic) {
            self.add(invariant, subject, message);
        }
    }

    pub fn done(self) -> Vec<Violation> {
        self.found
    }
}

/// A list in a sentence; "none" when it is empty.
pub(super) fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
