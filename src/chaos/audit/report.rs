//! The audit's answer: the JSON of `/ops/v1/audit`, and lines for a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cellshift_embedded::lost_and_found::Lost;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::explanations::Topic;
use super::names::{self, Names, named};
use super::snapshot::Snapshot;
use crate::domain::counted::{counted, singular};
use crate::domain::reason::Reason;

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
    pub reason: Reason,
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
    /// The names of the servers, images, ports and providers of this report, and of the servers of its operations, as far as they are known.
    #[serde(default)]
    pub names: Names,
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
        let texts = violations.iter().flat_map(|violation| [&violation.subject, &violation.message]);
        let mut ids: BTreeSet<Uuid> = texts.flat_map(|text| names::ids(text)).collect();
        ids.extend(snapshot.busy.iter().chain(snapshot.debts.iter().flat_map(|debt| [&debt.server, &debt.saga])));
        let debts = snapshot.debts.iter().map(|debt| StandingDebt {
            migration: debt.saga,
            server: debt.server,
            step: debt.step.clone(),
            side: debt.side.clone(),
            reason: Reason::read(&debt.reason),
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
            names: names::of(snapshot, &ids),
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

/// Writes a number with its kind, which is a key of the counts and stands in the plural.
fn of_kind(count: usize, kind: &str) -> String {
    let words = kind.replace('_', " ").replace("sagas", "operations");
    if count == 1 { format!("1 {}", singular(&words)) } else { format!("{count} {words}") }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<4} {}: {}", self.invariant, self.subject, self.message)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &self.checked.names;
        for violation in &self.violations {
            let Violation { invariant, subject, message } = violation;
            writeln!(f, "{invariant:<4} {}: {}", named(subject, names), named(message, names))?;
        }
        for debt in &self.checked.debts {
            let operator = if debt.needs_operator { ", needs an operator" } else { "" };
            writeln!(
                f,
                "owed {}: {} of {} (migration {}{operator}): {}",
                named(&format!("server {}", debt.server), names),
                debt.side,
                debt.step,
                debt.migration,
                named(&debt.reason.to_string(), names)
            )?;
        }
        for silent in &self.checked.unreachable {
            writeln!(f, "not checked: {}", named(silent, names))?;
        }
        for server in &self.checked.busy {
            writeln!(f, "in flight: {}", named(&format!("server {server}"), names))?;
        }
        for lost in &self.checked.lost_and_found {
            writeln!(f, "in lost+found: {}, {}", lost.path.display(), counted(lost.bytes, "byte"))?;
        }
        let counts: Vec<String> = self.checked.counts.iter().map(|(kind, count)| of_kind(*count, kind)).collect();
        writeln!(f, "checked {}", counts.join(", "))?;
        match (self.violations.len(), self.is_complete()) {
            (0, true) => write!(f, "clean: no violations"),
            (0, false) => write!(f, "incomplete: no violations in what answered"),
            (some, _) => write!(f, "{}", counted(some, "violation")),
        }
    }
}

/// Collects a rule's findings, without those that a debt explains.
pub(super) struct Findings<'a> {
    snapshot: &'a Snapshot,
    violations: Vec<Violation>,
}

impl<'a> Findings<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Findings<'a> {
        Findings { snapshot, violations: Vec::new() }
    }

    /// Adds a violation that no debt explains.
    pub fn add(&mut self, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        self.violations.push(Violation { invariant: invariant.to_owned(), subject: subject.to_string(), message: message.to_string() });
    }

    /// Adds a violation unless a debt of the server explains this part.
    pub fn about(&mut self, server: Uuid, topic: Topic, invariant: &str, subject: impl fmt::Display, message: impl fmt::Display) {
        if !self.snapshot.is_explained(server, topic) {
            self.add(invariant, subject, message);
        }
    }

    pub fn done(self) -> Vec<Violation> {
        self.violations
    }
}

/// Formats a list for a sentence; "none" if it is empty.
pub(super) fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{A, R, debt, healthy, record};
    use super::super::judge;
    use super::*;
    use crate::domain::server::TaskState;

    #[test]
    fn numbers_of_one_are_in_the_singular() {
        assert_eq!((of_kind(1, "images"), of_kind(2, "images")), ("1 image".to_owned(), "2 images".to_owned()));
        assert_eq!((of_kind(1, "journal_entries"), of_kind(0, "sagas")), ("1 journal entry".to_owned(), "0 operations".to_owned()));
        assert_eq!(of_kind(1, "files_without_a_checksum"), "1 file without a checksum");
    }

    #[test]
    fn the_text_calls_servers_by_their_names() {
        let mut world = healthy();
        record(&mut world, "cell1", A).task_state = Some(TaskState::ResizePrep);
        world.busy.insert(R);
        world.debts.push(debt(R, "clean_source_host"));
        let report = judge(&world);
        let text = report.to_string();
        for line in [format!("I12  server name ({A}): "), format!("owed server name ({R}): "), format!("in flight: server name ({R})\n")] {
            assert!(text.contains(&line), "{line:?} in\n{text}");
        }
        assert_eq!(report.violations[0].subject, format!("server {A}"), "the answer has ids");
        assert_eq!(report.checked.names.get(&A).map(String::as_str), Some("name"));
    }
}
