//! `cellshift unconfirmed`: the moves that have arrived and wait for confirm or revert, with the room that they hold.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::Value;

use super::Failure;
use super::migrations::{flavors, places, server};
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::overview::room;
use super::servers::Projects;
use super::watch::{Screen, Watch};
use super::words::{ago, short};
use crate::env::Env;

/// The moves to list.
#[derive(Args)]
pub(super) struct Unconfirmed {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    order: Order<Waiting>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of moves that wait.
    Waiting by
        "server", "project", "from", "flavor", "arrived" = Key::Field("/since"), "keeps" = Key::Field("/room/VCPU"),
        "migration",
}

/// Lists the moves that wait, the oldest first.
pub(super) fn run(options: Unconfirmed) -> Result<ExitCode, Failure> {
    let Unconfirmed { service, limit: Limit { limit }, order, watch } = options;
    on_service(watch.screens(service, async |client| {
        let list = List { path: "/unconfirmed-moves", key: "unconfirmed_moves", id: "migration", filters: Vec::new() };
        let mut answer = list.read(client, order.read_limit(limit)).await?;
        let (projects, now) = (Projects::read(client).await, Env::system().now());
        let row = |waiting: &Value| row(waiting, &projects, now);
        order.arrange(&mut answer[list.key], limit, row);
        let silent = entries(&answer, "silent_cells").iter().filter_map(Value::as_str);
        let silent = silent.map(|cell| format!("{cell} does not answer: its moves are not listed"));
        let remarks = silent.chain(list.more(&answer, limit)).collect();
        Ok(Screen { text: table(HEAD, entries(&answer, list.key).iter().map(row)), answer, remarks })
    }))
}

const HEAD: [&str; 7] = ["SERVER", "PROJECT", "FROM → TO", "FLAVOR", "ARRIVED", "THE SOURCE KEEPS", "MIGRATION"];

fn row(waiting: &Value, projects: &Projects, now: DateTime<Utc>) -> [String; 7] {
    [
        server(waiting).to_owned(),
        projects.called(text(waiting, "project_id")).to_owned(),
        places(waiting),
        flavors(waiting),
        ago(&waiting["since"], now),
        room(&waiting["room"]),
        short(text(waiting, "migration")).to_owned(),
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
        words_name_the_columns::<Waiting>(&HEAD);
    }

    #[test]
    fn a_row_has_the_age_of_the_move_and_its_room() {
        let (projects, now) = (Projects::of(&[("p", "demo")]), moment(&json!("2026-11-27T10:00:00Z")).unwrap());
        let waiting = json!({"migration": "0123456789", "server": "s", "server_name": "web", "project_id": "p", "since": "2026-11-27T08:00:00Z",
            "source": {"cell": "c1", "host": "h1"}, "target": {"cell": "c2", "host": "h2"}, "flavor": "small", "new_flavor": "large",
            "room": {"VCPU": 2, "MEMORY_MB": 1024}});
        let cells = ["web", "demo", "c1/h1 → c2/h2", "small → large", "2 h ago", "2 vCPU, 1.0 GiB of memory", "01234567"];
        assert_eq!(row(&waiting, &projects, now), cells);
    }
}
