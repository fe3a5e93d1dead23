//! A verdict as a self-contained page: without scripts, external styles or pictures. The template `templates/verdict.html` escapes all
//! texts.

mod timeline;

use askama::Template;
use chrono::{DateTime, Utc};

use super::record::Injected;
use super::short;
use super::text::{made, recovered, seconds, word};
use super::verdict::{Conclusion, Findings, MigrationEnd, Verdict};
use timeline::Timeline;

/// The origin of a page, for its foot.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The moment of its creation.
    pub at: DateTime<Utc>,
    /// The command that repeats the run, if known.
    pub again: Option<String>,
}

/// The texts of a page.
#[derive(Template)]
#[template(path = "verdict.html")]
struct Page<'a> {
    title: &'a str,
    made: String,
    /// The CSS class of the conclusion.
    class: &'static str,
    word: &'static str,
    paragraphs: Vec<&'a str>,
    held: Vec<Held<'a>>,
    troubles: Vec<String>,
    recovery: Option<String>,
    faults: Vec<Fault>,
    not_injected: &'a [String],
    timelines: Vec<Timeline<'a>>,
    others: Vec<Operation<'a>>,
    again: Option<&'a str>,
    version: &'static str,
    at: String,
}

/// A condition and whether it held.
struct Held<'a> {
    what: &'a str,
    requirement: &'a str,
    result: String,
    word: &'static str,
}

/// A fault that was injected.
struct Fault {
    at: String,
    over: String,
    what: String,
    place: String,
}

/// An operation without a timeline.
struct Operation<'a> {
    at: String,
    took: String,
    saga: &'a str,
    server: String,
    state: &'a str,
}

/// Returns the page.
pub fn page(verdict: &Verdict, origin: &Origin) -> String {
    Page::of(verdict, origin).render().expect("writing to a String cannot fail")
}

impl<'a> Page<'a> {
    fn of(verdict: &'a Verdict, origin: &'a Origin) -> Page<'a> {
        let findings = &verdict.findings;
        let (drawn, others): (Vec<_>, Vec<_>) = findings.migrations.iter().partition(|migration| is_drawn(migration));
        Page {
            title: &verdict.title,
            made: made(findings),
            class: class(verdict.conclusion),
            word: word(verdict.conclusion),
            paragraphs: verdict.description.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()).collect(),
            held: held(verdict),
            troubles: troubles(findings),
            recovery: verdict.recovery.as_ref().map(recovered),
            faults: findings.injected.iter().map(Fault::of).collect(),
            not_injected: &verdict.not_injected,
            timelines: drawn.into_iter().map(|migration| Timeline::of(findings, migration)).collect(),
            others: others.into_iter().map(Operation::of).collect(),
            again: origin.again.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
            at: origin.at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        }
    }
}

/// True if the operation has a timeline. The other operations share a table.
fn is_drawn(migration: &MigrationEnd) -> bool {
    migration.is_move() || !migration.faults.is_empty()
}

fn class(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Held => "held",
        Conclusion::Broken => "broken",
        Conclusion::Incomplete => "incomplete",
    }
}

fn held(verdict: &Verdict) -> Vec<Held<'_>> {
    let row = |what, requirement, result, met| Held { what, requirement, result, word: if met { "held" } else { "broken" } };
    let count = verdict.findings.violations.len();
    let invariants = row("invariants, during the run and at rest", "no violation", count.to_string(), count == 0);
    let expected =
        verdict.expectations.iter().map(|expected| row(&expected.what, &expected.requirement, expected.result.clone(), expected.met));
    std::iter::once(invariants).chain(expected).collect()
}

fn troubles(findings: &Findings) -> Vec<String> {
    let violations = findings.violations.iter().map(ToString::to_string);
    let silent = findings.unreachable.iter().map(|silent| format!("no answer: {silent}"));
    let gave_up = findings.aborted.iter().map(|why| format!("the experiment gave up: {why}"));
    violations.chain(silent).chain(gave_up).collect()
}

impl Fault {
    fn of(fault: &Injected) -> Fault {
        let failed = fault.failed.as_ref().map_or_else(String::new, |why| format!(" (it could not happen: {why})"));
        Fault {
            at: seconds(fault.at_ms),
            over: fault.over_ms.map_or_else(String::new, seconds),
            what: format!("{}{failed}", fault.what),
            place: place(fault),
        }
    }
}

/// Returns the step at which a fault was injected; empty if none.
fn place(fault: &Injected) -> String {
    let (Some(step), Some(saga)) = (&fault.step, fault.saga) else { return String::new() };
    let moment = fault.moment.map_or_else(String::new, |moment| format!(", {moment}"));
    format!("{step} of {}{moment}", short(saga))
}

impl Operation<'_> {
    fn of(migration: &MigrationEnd) -> Operation<'_> {
        Operation {
            at: seconds(migration.began_ms),
            took: seconds(migration.ended_ms.saturating_sub(migration.began_ms)),
            saga: &migration.saga,
            server: short(migration.server),
            state: &migration.state,
        }
    }
}

#[cfg(test)]
mod tests;
