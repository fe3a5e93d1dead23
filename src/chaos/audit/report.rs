//! The audit's answer: the JSON of `/ops/v1/audit`, and lines for a terminal.

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
    /// `I1` to `I20`.
    pub invariant: String,
    /// The subject: `server <uuid>`, `port <uuid>`, ….
    pub subject: String,
    /// A sentence with the finding and the expectation.
    pub message: String,
}

/// An unpaid debt. Neither the debt nor the violations that it explains count.
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

/// The extent of an audit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// The number of each kind: cells, hosts, servers (at rest), guests, ports, ….
    pub counts: BTreeMap<String, usize>,
    /// The invariants that can be seen at rest and were checked.
    pub invariants: Vec<String>,
    /// The servers that an operation holds: only rules marked "always" were checked.
    pub busy: Vec<Uuid>,
    pub debts: Vec<StandingDebt>,
    /// True if all bytes with a checksum were read; otherwise only the lengths of files were checked.
    #[serde(default)]
    pub deep: bool,
    /// The cells, hosts and services that did not answer, so that their contents are unknown.
    pub unreachable: Vec<String>,
    /// The files in `lost+found/`. They are no violation: the service never uses them.
    #[serde(default)]
    pub lost_and_found: Vec<Lost>,
}

/// The audit's answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// True if no violation was found in the parts that answered; see [`Report::is_complete`].
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

    /// True if all parts answered.
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

/// Collects a rule's findings, without those that a debt explains.
pub(super) struct Findings<'a> {
    snapshot: &'a Snapshot,
    found: Vec<Violation>,
}

impl<'a> Findings<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Findings<'a> {
        Findings { snapshot, found: Vec::new() }
    }

    /// Adds a violation that no debt explains.
    pub fn add(&mut self, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        self.found.push(Violation { invariant: invariant.to_owned(), subject: subject.to_string(), message: message.to_string() });
    }

    /// Adds a violation unless a debt of the server explains this part.
    pub fn about(&mut self, server: Uuid, topic: Topic, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        if !self.snapshot.is_explained(server, topic) {
            self.add(invariant, subject, message);
        }
    }

    pub fn done(self) -> Vec<Violation> {
        self.found
    }
}

/// Formats a list for a sentence; "none" if it is empty.
pub(super) fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
