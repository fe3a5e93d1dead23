//! `cellshift debts`: undos and clean-ups that are owed. They can be tried again at once, and waited for.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::migrations::server;
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, counted, entries, on_service, table, text};
use super::progress::Progress;
use super::terminal::{self, say};
use super::watch::{Screen, Watch};
use super::words::{ago, short};
use super::{Failure, names};
use crate::client::{Client, OPERATORS};
use crate::env::Env;

/// The pause between two looks at what is owed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The debts to list, to try again, or to wait for.
#[derive(Args)]
pub(super) struct Debts {
    /// Only the debts of this migration: its id, or the beginning of it.
    #[arg(value_name = "MIGRATION")]
    migration: Option<String>,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// Only debts of this server: its name, its id, or the beginning of its id.
    #[arg(long, conflicts_with = "migration")]
    server: Option<String>,
    /// Have the migration's debts tried again now, not after their pause.
    #[arg(long, requires = "migration", conflicts_with_all = ["sort", "watch"])]
    retry: bool,
    /// Wait until all of these debts are paid.
    #[arg(long, conflicts_with_all = ["sort", "watch"])]
    wait: bool,
    #[command(flatten)]
    order: Order<DebtList>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of debts.
    DebtList by
        "migration", "server", "operation", "owed", "began" = Key::Field("/debt/since"),
        "tries" = Key::Field("/debt/tries"), "operator", "why",
}

/// Selects debts: of a migration, of a server, or all.
struct DebtFilter {
    migration: Option<Uuid>,
    server: Option<Uuid>,
}

impl DebtFilter {
    /// Reads the operations that owe something, and says if there are more. `limit` counts operations.
    async fn read(&self, client: &Client, limit: Option<u32>) -> Result<(Value, Option<String>), Failure> {
        if let Some(migration) = self.migration {
            let mut one = client.get(OPERATORS, &format!("/migrations/{migration}")).await?;
            one.as_object_mut().map(|one| one.remove("steps"));
            return Ok((json!({"migrations": [one]}), None));
        }
        let filters = vec![("owing", Some("true".to_owned())), ("server", self.server.map(|server| server.to_string()))];
        let list = List { path: "/migrations", key: "migrations", id: "uuid", filters };
        let answer = list.read(client, limit).await?;
        let more = list.more(&answer, limit);
        Ok((answer, more))
    }
}

/// Lists debts, has them tried, or waits for them.
pub(super) fn run(options: Debts) -> Result<ExitCode, Failure> {
    let Debts { migration, service, limit: Limit { limit }, server, retry, wait, order, watch } = options;
    let select = async |client: &Client| {
        let migration = match &migration {
            Some(text) => Some(names::migration(client, text).await?),
            None => None,
        };
        let server = match &server {
            Some(text) => Some(names::server(client, text).await?),
            None => None,
        };
        Ok::<DebtFilter, Failure>(DebtFilter { migration, server })
    };
    on_service(async {
        if !retry && !wait {
            let screen = async |client: &Client| {
                let (mut answer, more) = select(client).await?.read(client, order.read_limit(limit)).await?;
                let (mut listed, now) = (debts(&answer), Env::system().now());
                let row = |debt: &Value| row(debt, now);
                order.arrange(&mut listed, limit, row);
                let listed = listed.as_array().map(Vec::as_slice).unwrap_or_default();
                follow_debts(&mut answer, listed);
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                Ok::<Screen, Failure>(Screen {
                    text: table(HEAD, listed.iter().map(row).take(most)),
                    answer,
                    remarks: more.into_iter().collect(),
                })
            };
            return watch.screens(service, screen).await;
        }
        let client = service.reach.client().await?;
        let selection = select(&client).await?;
        if let Some(migration) = selection.migration.filter(|_| retry) {
            client.post(OPERATORS, &format!("/migrations/{migration}/debts/retry"), json!({})).await?;
        }
        if wait {
            waited(&client, &selection).await?;
            say!("Nothing is owed any more.");
        } else {
            say!("The debts are tried again within seconds.");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns when nothing is owed.
async fn waited(client: &Client, selection: &DebtFilter) -> Result<(), Failure> {
    let progress = Progress::spinning();
    loop {
        let (answer, _) = selection.read(client, Some(u32::MAX)).await?;
        match waiting(&answer) {
            None => return Ok(()),
            Some(_) if terminal::is_gone() => return Ok(()),
            Some(words) => progress.says(words),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns how many debts are unpaid, in words; none if all are paid.
fn waiting(answer: &Value) -> Option<String> {
    let debts: Vec<&Value> = entries(answer, "migrations").iter().flat_map(|migration| entries(migration, "debts")).collect();
    let refused = debts.iter().filter(|debt| debt["needs_operator"] == true).count();
    let owed = counted(debts.len(), "debt");
    match (debts.len(), refused) {
        (0, _) => None,
        (_, 0) => Some(format!("waiting for {owed}")),
        (_, 1) => Some(format!("waiting for {owed}, of which 1 needs an operator")),
        (_, refused) => Some(format!("waiting for {owed}, of which {refused} need an operator")),
    }
}

const HEAD: [&str; 8] = ["MIGRATION", "SERVER", "OPERATION", "OWED", "BEGAN", "TRIES", "NEEDS OPERATOR", "WHY"];

/// Returns each debt beside its operation.
fn debts(answer: &Value) -> Value {
    let of = |migration: &Value| -> Vec<Value> {
        entries(migration, "debts").iter().map(|debt| json!({"migration": migration, "debt": debt})).collect()
    };
    entries(answer, "migrations").iter().flat_map(of).collect()
}

/// Returns the row of a debt beside its operation.
fn row(entry: &Value, now: DateTime<Utc>) -> [String; 8] {
    let (migration, debt) = (&entry["migration"], &entry["debt"]);
    [
        short(text(migration, "uuid")).to_owned(),
        server(migration).to_owned(),
        text(migration, "saga").to_owned(),
        format!("{} of {}", text(debt, "side"), text(debt, "step")),
        ago(&debt["since"], now),
        debt["tries"].to_string(),
        if debt["needs_operator"] == true { "yes" } else { "no" }.to_owned(),
        text(debt, "reason").to_owned(),
    ]
}

/// Orders the operations of an answer as their first debts are ordered.
fn follow_debts(answer: &mut Value, debts: &[Value]) {
    let first = |migration: &Value| debts.iter().position(|debt| debt["migration"]["uuid"] == migration["uuid"]).unwrap_or(usize::MAX);
    if let Some(migrations) = answer["migrations"].as_array_mut() {
        migrations.sort_by_cached_key(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::order::tests::words_name_the_columns;
    use crate::cli::words::moment;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<DebtList>(&HEAD);
    }

    #[test]
    fn operations_follow_the_order_of_their_debts() {
        let operation = |uuid: &str, tries: u32| json!({"uuid": uuid, "debts": [{"tries": tries}]});
        let mut answer = json!({"migrations": [operation("a", 1), operation("b", 2)]});
        let listed = [json!({"migration": {"uuid": "b"}}), json!({"migration": {"uuid": "a"}})];
        follow_debts(&mut answer, &listed);
        assert_eq!((&answer["migrations"][0]["uuid"], &answer["migrations"][1]["uuid"]), (&json!("b"), &json!("a")));
    }

    #[test]
    fn debts_are_counted_and_each_has_a_row() {
        let debt = |needs: bool| json!({"step": "bind", "side": "undo", "reason": "h2 is away", "tries": 4, "needs_operator": needs, "since": "2026-11-27T08:31:07Z"});
        let migration = json!({"uuid": "0123456789", "server_name": "web", "saga": "resize", "debts": [debt(false), debt(true)]});
        let now = moment(&json!("2026-11-27T08:31:27Z")).unwrap();
        let listed = debts(&json!({"migrations": [migration]}));
        assert_eq!(row(&listed[1], now), ["01234567", "web", "resize", "undo of bind", "20 s ago", "4", "yes", "h2 is away"]);
        let count = |debts: Value| waiting(&json!({"migrations": [{"debts": debts}]}));
        assert_eq!(count(json!([])), None);
        assert_eq!(count(json!([debt(false)])).as_deref(), Some("waiting for 1 debt"));
        assert_eq!(waiting(&json!({"migrations": [migration]})).as_deref(), Some("waiting for 2 debts, of which 1 needs an operator"));
    }
}
