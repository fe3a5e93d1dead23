//! `cellshift queued-deletes`: deletes that were accepted and wait, with what they wait for.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::Value;

use super::Failure;
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::servers::Projects;
use super::watch::{Screen, Watch};
use super::words::{ago, date, short};
use crate::env::Env;

/// The deletes to list.
#[derive(Args)]
pub(super) struct QueuedDeletes {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    order: Order<Deletes>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of deletes.
    Deletes by
        "server", "project", "cell", "health", "accepted" = Key::Field("/since"), "tries" = Key::Field("/attempts"),
        "next-try" = Key::Field("/next_try_at"), "why",
}

/// Lists the deletes that wait.
pub(super) fn run(options: QueuedDeletes) -> Result<ExitCode, Failure> {
    let QueuedDeletes { service, limit: Limit { limit }, order, watch } = options;
    on_service(watch.screens(service, async |client| {
        let list = List { path: "/queued-deletes", key: "queued_deletes", id: "server", filters: Vec::new() };
        let mut answer = list.read(client, order.read_limit(limit)).await?;
        let (projects, now) = (Projects::read(client).await, Env::system().now());
        let row = |entry: &Value| row(entry, &projects, now);
        order.arrange(&mut answer[list.key], limit, row);
        let remarks = list.more(&answer, limit).into_iter().collect();
        Ok(Screen { text: table(HEAD, entries(&answer, list.key).iter().map(row)), answer, remarks })
    }))
}

const HEAD: [&str; 8] = ["SERVER", "PROJECT", "CELL", "HEALTH", "ACCEPTED", "TRIES", "NEXT TRY", "WHY"];

fn row(entry: &Value, projects: &Projects, now: DateTime<Utc>) -> [String; 8] {
    [
        entry["name"].as_str().unwrap_or_else(|| short(text(entry, "server"))).to_owned(),
        projects.called(text(entry, "project_id")).to_owned(),
        text(entry, "cell").to_owned(),
        text(entry, "cell_health").to_owned(),
        ago(&entry["since"], now),
        entry["attempts"].to_string(),
        date(&entry["next_try_at"]),
        entry["last_error"].as_str().or(entry["cell_reason"].as_str()).unwrap_or_default().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::order::tests::words_name_the_columns;
    use crate::cli::words::moment;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<Deletes>(&HEAD);
    }

    #[test]
    fn a_row_says_what_the_delete_waits_for() {
        let (projects, now) = (Projects::of(&[("p", "demo")]), moment(&json!("2026-11-27T08:31:27Z")).unwrap());
        let mut entry = json!({"server": "0123456789", "name": "web", "project_id": "p", "cell": "c1", "cell_health": "down", "cell_reason": "no answer",
            "since": "2026-11-27T08:31:07Z", "attempts": 0, "next_try_at": null, "last_error": null});
        assert_eq!(row(&entry, &projects, now), ["web", "demo", "c1", "down", "20 s ago", "0", "", "no answer"]);
        entry["last_error"] = json!("409");
        entry["next_try_at"] = json!("2026-11-27T08:32:00Z");
        entry["name"] = Value::Null;
        assert_eq!(row(&entry, &projects, now)[0], "01234567");
        assert_eq!(row(&entry, &projects, now)[6..], ["2026-11-27 08:32:00Z", "409"]);
    }
}
