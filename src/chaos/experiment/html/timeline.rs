//! The drawing of an operation: a bar for each attempt at a step, a line for each fault, and the pivot.

use crate::chaos::experiment::record::Injected;
use crate::chaos::experiment::short;
use crate::chaos::experiment::text::seconds;
use crate::chaos::experiment::verdict::{Findings, MigrationEnd, StepReport};
use crate::saga::step::Class;
use crate::saga::tables;

/// The width of a timeline in the drawing's units.
pub(super) const WIDTH: f64 = 900.0;
/// The height of a timeline's row.
const ROW: f64 = 18.0;
/// The space left of the timeline for the steps' names.
pub(super) const NAMES: f64 = 230.0;
/// The space right of the timeline for marks at its end.
pub(super) const EDGE: f64 = 14.0;

/// The texts and positions of a drawing, for `templates/timeline.html`.
pub(super) struct Timeline<'a> {
    pub saga: &'a str,
    pub id: String,
    pub server: String,
    pub state: &'a str,
    pub began: String,
    pub took: String,
    pub why: String,
    pub width: f64,
    pub height: f64,
    /// The ends of the time axis.
    pub left: f64,
    pub right: f64,
    /// The line on which the axis is labelled.
    pub base: f64,
    pub bars_end: f64,
    pub bars: Vec<Bar<'a>>,
    pub pivot: Option<Pivot>,
    pub faults: Vec<FaultLine>,
    pub from: String,
    pub to: String,
}

/// An attempt at a step.
pub(super) struct Bar<'a> {
    /// The CSS class of the outcome.
    pub class: &'static str,
    pub side: &'static str,
    pub step: &'a str,
    pub attempt: i64,
    pub title: String,
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    /// The line on which the step's name stands.
    pub base: f64,
    pub bottom: f64,
}

/// The moment at which the pivot took effect.
pub(super) struct Pivot {
    pub x: f64,
    /// The right end of its label.
    pub label: f64,
    pub title: String,
}

/// A fault that affected the operation.
pub(super) struct FaultLine {
    pub x: f64,
    pub title: String,
}

impl Timeline<'_> {
    pub(super) fn of<'a>(findings: &Findings, migration: &'a MigrationEnd) -> Timeline<'a> {
        let scale = Scale::of(migration);
        let height = ROW * (migration.steps.len() as f64 + 1.0);
        let faults = migration.faults.iter().filter_map(|place| findings.injected.get(*place));
        Timeline {
            saga: &migration.saga,
            id: short(migration.uuid),
            server: short(migration.server),
            state: &migration.state,
            began: seconds(migration.began_ms),
            took: seconds(migration.ended_ms.saturating_sub(migration.began_ms)),
            why: migration.error.as_ref().map_or_else(String::new, |why| format!(": {why}")),
            width: NAMES + WIDTH + EDGE,
            height,
            left: NAMES,
            right: NAMES + WIDTH,
            base: height - 5.0,
            bars_end: height - ROW,
            bars: migration.steps.iter().enumerate().map(|(row, step)| Bar::of(&scale, row, step)).collect(),
            pivot: pivot(migration).map(|ms| Pivot::of(&scale, ms)),
            faults: faults.map(|fault| FaultLine::of(&scale, fault)).collect(),
            from: seconds(scale.from),
            to: seconds(scale.to),
        }
    }
}

impl Bar<'_> {
    fn of<'a>(scale: &Scale, row: usize, step: &'a StepReport) -> Bar<'a> {
        let y = ROW * row as f64;
        let (from, to) = (scale.at(step.begun_ms), scale.at(step.ended_ms.unwrap_or(scale.to)));
        let side = if step.side == "undo" { "undo " } else { "" };
        Bar {
            class: class(step),
            side,
            step: &step.step,
            attempt: step.attempt,
            title: sentence(side, step),
            x: from,
            y: y + 3.0,
            width: (to - from).max(2.0),
            height: ROW - 6.0,
            base: y + ROW - 5.0,
            bottom: y + ROW,
        }
    }
}

fn class(step: &StepReport) -> &'static str {
    match (step.outcome.as_deref(), step.ended_ms) {
        (_, None) => "open",
        (Some("ok"), _) if step.side == "undo" => "undo",
        (Some("ok"), _) => "ok",
        (Some("skipped"), _) => "skipped",
        (Some("timeout" | "unknown"), _) => "unknown",
        _ => "failed",
    }
}

/// Returns the sentence that a reader sees over a bar.
fn sentence(side: &str, step: &StepReport) -> String {
    let outcome = step.outcome.as_deref().unwrap_or("no end");
    let ended = step.ended_ms.map_or_else(|| "?".into(), seconds);
    let why = step.error.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    format!("{side}{}: {outcome} from {} to {ended}{why}", step.step, seconds(step.begun_ms))
}

impl Pivot {
    fn of(scale: &Scale, ms: u64) -> Pivot {
        let x = scale.at(ms);
        Pivot { x, label: (x - 5.0).clamp(NAMES + 80.0, NAMES + WIDTH - 50.0), title: format!("{} the pivot", seconds(ms)) }
    }
}

impl FaultLine {
    fn of(scale: &Scale, fault: &Injected) -> FaultLine {
        FaultLine { x: scale.at(fault.at_ms), title: format!("{} {}", seconds(fault.at_ms), fault.what) }
    }
}

/// Returns when the pivot's commit took effect; past it the operation only goes forward.
fn pivot(migration: &MigrationEnd) -> Option<u64> {
    let is_pivot = |name: &str| {
        tables::ALL.iter().flat_map(|(_, table)| table.steps).any(|step| step.name.as_str() == name && step.class == Class::Pivot)
    };
    let took_effect = |step: &&StepReport| step.side == "act" && step.outcome.as_deref() == Some("ok") && is_pivot(&step.step);
    migration.steps.iter().find(took_effect)?.ended_ms
}

/// Converts times to positions in the drawing.
struct Scale {
    from: u64,
    to: u64,
}

impl Scale {
    fn of(migration: &MigrationEnd) -> Scale {
        let ends = migration.steps.iter().map(|step| step.ended_ms.unwrap_or(step.begun_ms)).max().unwrap_or_default();
        Scale { from: migration.began_ms, to: migration.ended_ms.max(ends).max(migration.began_ms + 1) }
    }

    fn at(&self, ms: u64) -> f64 {
        let within = ms.clamp(self.from, self.to) - self.from;
        NAMES + WIDTH * within as f64 / (self.to - self.from) as f64
    }
}
