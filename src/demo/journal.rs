//! Shows a saga's journal as a timeline.

use tokio::time::Instant;

use super::DemoError;
use super::server::Server;
use super::stage::{LOOK_EVERY, PATIENCE, Stage, items, text};
use crate::client::OPERATORS;
use crate::saga::migration_view::MigrationView;
use crate::timeline::Timeline;

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

/// Prints the saga's timeline and its debts.
pub fn show(stage: &Stage, view: &MigrationView) {
    let narrator = &stage.narrator;
    let paint = |code: &str, text: &str| narrator.paint(code, text);
    let timeline = Timeline::of(view, view.updated_at, &paint);
    narrator.line("");
    narrator.line(&format!("    journal of the {}, {} after {} ms", view.saga, view.state, timeline.span()));
    let lines = std::iter::once(timeline.head()).chain(timeline.rows()).chain(timeline.debts(false));
    lines.for_each(|line| narrator.line(&format!("    {line}")));
    narrator.line("");
}
