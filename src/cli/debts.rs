//! `cellshift debts`: undos and clean-ups that are owed. They can be tried again at once, and waited for.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::migrations::server;
use super::output::{Asked, Limit, List, counted, entries, on_service, table, text};
use super::progress::Progress;
use super::terminal::{self, say};
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
    asked: Asked,
    #[command(flatten)]
    limit: Limit,
    /// Only debts of this server: its name, its id, or the beginning of its id.
    #[arg(long, conflicts_with = "migration")]
    server: Option<String>,
    /// Have the migration's debts tried again now, not after their pause.
    #[arg(long, requires = "migration")]
    retry: bool,
    /// Wait until all of these debts are paid.
    #[arg(long)]
    wait: bool,
}

/// Selects debts by their migration, by their server, or all.
struct Wanted {
    migration: Option<Uuid>,
    server: Option<Uuid>,
}

impl Wanted {
    /// Reads the operations that owe something. `limit` counts operations.
    async fn read(&self, client: &Client, limit: Option<u32>) -> Result<Value, Failure> {
        if let Some(migration) = self.migration {
            let mut one = client.get(OPERATORS, &format!("/migrations/{migration}")).await?;
            one.as_object_mut().map(|one| one.remove("steps"));
            return Ok(json!({"migrations": [one]}));
        }
        let filters = vec![("owing", Some("true".to_owned())), ("server", self.server.map(|server| server.to_string()))];
        let list = List { path: "/migrations", key: "migrations", id: "uuid", filters };
        let answer = list.read(client, limit).await?;
        list.mention_more(&answer, limit);
        Ok(answer)
    }
}

/// Lists debts, has them tried, or waits for them.
pub(super) fn run(asked: Debts) -> Result<ExitCode, Failure> {
    let Debts { migration, asked: Asked { reach, output }, limit: Limit { limit }, server, retry, wait } = asked;
    on_service(async {
        let client = reach.client().await?;
        let mut wanted = Wanted { migration: None, server: None };
        if let Some(text) = migration {
            wanted.migration = Some(names::migration(&client, &text).await?);
        }
        if let Some(text) = server {
            wanted.server = Some(names::server(&client, &text).await?);
        }
        if let Some(migration) = wanted.migration.filter(|_| retry) {
            client.post(OPERATORS, &format!("/migrations/{migration}/debts/retry"), json!({})).await?;
        }
        if wait {
            waited(&client, &wanted).await?;
            say!("Nothing is owed any more.");
            return Ok(ExitCode::SUCCESS);
        }
        if retry {
            say!("The debts are tried again within seconds.");
            return Ok(ExitCode::SUCCESS);
        }
        let answer = wanted.read(&client, limit).await?;
        let now = Env::system().now();
        output.show(&answer, |answer| {
            let most = limit.map_or(usize::MAX, |limit| limit as usize);
            table(HEAD, entries(answer, "migrations").iter().flat_map(|migration| rows(migration, now)).take(most))
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns when nothing is owed.
async fn waited(client: &Client, wanted: &Wanted) -> Result<(), Failure> {
    let progress = Progress::spinning();
    loop {
        let answer = wanted.read(client, Some(u32::MAX)).await?;
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

/// Returns a row for each debt of an operation.
fn rows(migration: &Value, now: DateTime<Utc>) -> Vec<[String; 8]> {
    let row = |debt: &Value| {
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
    };
    entries(migration, "debts").iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::words::moment;

    #[test]
    fn debts_are_counted_and_each_has_a_row() {
        let debt = |needs: bool| json!({"step": "bind", "side": "undo", "reason": "h2 is away", "tries": 4, "needs_operator": needs, "since": "2026-11-27T08:31:07Z"});
        let migration = json!({"uuid": "0123456789", "server_name": "web", "saga": "resize", "debts": [debt(false), debt(true)]});
        let now = moment(&json!("2026-11-27T08:31:27Z")).unwrap();
        let told = rows(&migration, now);
        assert_eq!(told[1], ["01234567", "web", "resize", "undo of bind", "20 s ago", "4", "yes", "h2 is away"]);
        let count = |debts: Value| waiting(&json!({"migrations": [{"debts": debts}]}));
        assert_eq!(count(json!([])), None);
        assert_eq!(count(json!([debt(false)])).as_deref(), Some("waiting for 1 debt"));
        assert_eq!(waiting(&json!({"migrations": [migration]})).as_deref(), Some("waiting for 2 debts, of which 1 needs an operator"));
    }
}
