//! Shows a saga's journal as a timeline.

use tokio::time::Instant;

use super::DemoError;
use super::narrator::wrapped;
use super::server::Server;
use super::stage::{LOOK_EVERY, PATIENCE, Stage, items, text};
use crate::actors::migration_view::{MigrationView, StepView};
use crate::client::OPERATORS;

/// The width of the bars in columns.
const BARS: i64 = 24;

/// Returns the server's newest saga, once it is over.
pub async fn newest(stage: &Stage, server: &Server) -> Result<MigrationView, DemoError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = stage.admin.get(OPERATORS, &format!("/migrations?server={}", server.id)).await?;
        let uuid = items(&list["migrations"]).first().map(|saga| text(saga, "uuid").to_owned()).unwrap_or_default();
        let view = by_id(stage, &uuid).await?;
        if view.is_over() {
            return Ok(view);
        }
        if Instant::now() > deadline {
            let what = format!("the {} of server {} is over", view.saga, server.name);
            return Err(DemoError::TooLong { what, patience: PATIENCE });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns a saga with its steps.
pub async fn by_id(stage: &Stage, uuid: &str) -> Result<MigrationView, DemoError> {
    let body = stage.admin.get(OPERATORS, &format!("/migrations/{uuid}")).await?;
    serde_json::from_value(body).map_err(|error| DemoError::Wrong(format!("the journal of {uuid} cannot be read: {error}")))
}

/// Prints each attempt at each step: its beginning, side, outcome and duration.
pub fn show(stage: &Stage, view: &MigrationView) {
    let narrator = &stage.narrator;
    let span = (view.updated_at - view.started_at).num_milliseconds().max(1);
    narrator.line("");
    narrator.line(&format!("    journal of the {}, {} after {span} ms", view.saga, view.state));
    let head = format!("    {:>7}  {:<27} {:<4} {:>7}  {:<7} {:>5}", "at ms", "step", "side", "attempt", "outcome", "ms");
    narrator.line(&narrator.paint("2", &head));
    let mut told = None;
    for step in view.steps.iter().flatten() {
        show_step(stage, view, step, span);
        // Prints the error once for tries with equal errors.
        if step.error.is_some() && step.error != told {
            show_error(stage, step);
        }
        told.clone_from(&step.error);
    }
    for debt in &view.debts {
        let owed = format!("owed: {} of {}", debt.side, debt.step);
        wrapped(&owed, 88).iter().for_each(|line| narrator.line(&format!("    {}", narrator.paint("33", line))));
    }
    narrator.line("");
}

fn show_step(stage: &Stage, view: &MigrationView, step: &StepView, span: i64) {
    let narrator = &stage.narrator;
    let begun = (step.begun_at - view.started_at).num_milliseconds().clamp(0, span);
    let took = step.ended_at.map(|ended| (ended - step.begun_at).num_milliseconds().max(0));
    let outcome = step.outcome.as_deref().unwrap_or("running");
    let colour = match outcome {
        "ok" if step.side == "undo" => "33",
        "ok" => "32",
        _ => "31",
    };
    let milliseconds = took.map_or_else(String::new, |took| took.to_string());
    let bar = bar(begun, took.unwrap_or(0), span);
    let bar = narrator.paint(colour, bar.trim_end());
    let outcome = narrator.paint(colour, &format!("{outcome:<7}"));
    narrator.line(&format!("    {begun:>7}  {:<27} {:<4} {:>7}  {outcome} {milliseconds:>5}  {bar}", step.step, step.side, step.attempt));
}

fn show_error(stage: &Stage, step: &StepView) {
    for line in step.error.iter().flat_map(|error| wrapped(error, 78)) {
        stage.narrator.line(&stage.narrator.paint("31", &format!("             {line}")));
    }
}

/// Returns the bar of an attempt within the whole time; at least one column.
fn bar(begun: i64, took: i64, span: i64) -> String {
    let column = |at: i64| usize::try_from(at * BARS / span).unwrap_or(0);
    let first = column(begun).min(column(span) - 1);
    let length = (column(begun + took).saturating_sub(first)).max(1);
    format!("{}{}", " ".repeat(first), "▬".repeat(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_in_their_time() {
        assert_eq!(bar(0, 0, 100), "▬");
        assert_eq!(bar(50, 50, 100), format!("{}{}", " ".repeat(12), "▬".repeat(12)));
        assert_eq!(bar(100, 0, 100), format!("{}▬", " ".repeat(23)));
    }
}
