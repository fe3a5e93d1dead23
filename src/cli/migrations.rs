//! `cellshift migrations` and `cellshift migration ID`: moves and other operations as a table, and one operation's journal as a timeline.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::progress::{Progress, patiently};
use super::terminal::{self, say};
use super::watch::{Screen, Watch};
use super::words::{date, moment, short};
use super::{Failure, names};
use crate::client::{Client, OPERATORS};
use crate::domain::saga_state::SagaState;
use crate::domain::span::span;
use crate::env::Env;
use crate::saga::context::Kind;
use crate::saga::migration_view::MigrationView;
use crate::timeline::{Paint, Timeline, plain};

/// The pause between two reads of a watched migration.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The operations to list.
#[derive(Args)]
pub(super) struct Migrations {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// All operations: also creates, deletes, confirms and so on.
    #[arg(long)]
    all: bool,
    /// Only operations of this server: its name, its id, or the beginning of its id.
    #[arg(long)]
    server: Option<String>,
    /// Only operations in this state: running, unwinding, done, unwound or needs_operator.
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(SagaState::ALL.iter().map(|state| state.as_str())), hide_possible_values = true)]
    status: Option<String>,
    #[command(flatten)]
    order: Order<Operations>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of operations.
    Operations by
        "migration", "server", "operation", "from", "flavor", "began" = Key::Field("/started_at"),
        "took" = Key::Number(|migration| Some(took(migration, Env::system().now())?.num_milliseconds())), "state",
        "why",
}

/// The operation to show.
#[derive(Args)]
pub(super) struct Migration {
    /// The migration's id, or the beginning of it.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    service: ServiceOptions,
    /// Follow the migration until it ends.
    #[arg(long)]
    watch: bool,
}

/// Returns the kinds that the list shows by default, as the route's filter takes them.
pub(super) fn moves() -> String {
    Kind::moves().map(Kind::as_str).collect::<Vec<_>>().join(",")
}

/// Lists moves, or all operations.
pub(super) fn list(options: Migrations) -> Result<ExitCode, Failure> {
    let Migrations { service, limit: Limit { limit }, all, server, status, order, watch } = options;
    on_service(watch.screens(service, async |client| {
        let server = match &server {
            Some(server) => Some(names::server(client, server).await?.to_string()),
            None => None,
        };
        let filters = vec![("saga", (!all).then(moves)), ("server", server), ("status", status.clone())];
        let list = List { path: "/migrations", key: "migrations", id: "uuid", filters };
        let mut answer = list.read(client, order.read_limit(limit)).await?;
        let now = Env::system().now();
        let row = |migration: &Value| row(migration, now);
        order.arrange(&mut answer[list.key], limit, row);
        let remarks = list.more(&answer, limit).into_iter().collect();
        Ok(Screen { text: table(HEAD, entries(&answer, list.key).iter().map(row)), answer, remarks })
    }))
}

pub(super) const HEAD: [&str; 9] = ["MIGRATION", "SERVER", "OPERATION", "FROM → TO", "FLAVOR", "BEGAN", "TOOK", "STATE", "WHY"];

/// Returns an operation's row.
pub(super) fn row(migration: &Value, now: DateTime<Utc>) -> [String; 9] {
    let open = is_open(migration);
    let state = match open {
        true => format!("{} {} %", text(migration, "state"), migration["progress"]),
        false => text(migration, "state").to_owned(),
    };
    [
        short(text(migration, "uuid")).to_owned(),
        server(migration).to_owned(),
        text(migration, "saga").to_owned(),
        places(migration),
        flavors(migration),
        date(&migration["started_at"]),
        took(migration, now).map(span).unwrap_or_default(),
        state,
        why(migration),
    ]
}

/// Returns the time that an operation took, or has taken so far.
fn took(migration: &Value, now: DateTime<Utc>) -> Option<TimeDelta> {
    let (began, changed) = moment(&migration["started_at"]).zip(moment(&migration["updated_at"]))?;
    Some(if is_open(migration) { now } else { changed } - began)
}

/// True while the operation goes on.
fn is_open(migration: &Value) -> bool {
    matches!(text(migration, "state"), "running" | "unwinding")
}

/// Returns the server's name, or the beginning of its id if it has none.
pub(super) fn server(migration: &Value) -> &str {
    migration["server_name"].as_str().unwrap_or_else(|| short(text(migration, "server")))
}

/// Returns where the server was and where it goes, as far as both are known.
pub(super) fn places(migration: &Value) -> String {
    let place = |key: &str| Some(format!("{}/{}", migration[key]["cell"].as_str()?, migration[key]["host"].as_str()?));
    match (place("source"), place("target")) {
        (Some(source), Some(target)) => format!("{source} → {target}"),
        (Some(source), None) => source,
        (None, Some(target)) => format!("→ {target}"),
        (None, None) => String::new(),
    }
}

/// Returns the flavor, and the one after the move if it changes.
pub(super) fn flavors(migration: &Value) -> String {
    match migration["new_flavor"].as_str() {
        Some(new) => format!("{} → {new}", text(migration, "flavor")),
        None => text(migration, "flavor").to_owned(),
    }
}

/// Returns the reason of an operation's state: why it went back or waits, the step that runs, what it owes.
pub(super) fn why(migration: &Value) -> String {
    let debts = entries(migration, "debts").len();
    let error = migration["reason"].as_str().or(migration["error"].as_str());
    let step = Some(text(migration, "step")).filter(|step| is_open(migration) && !step.is_empty()).map(|step| format!("at {step}"));
    let owed = (debts > 0).then(|| format!("owes {debts}"));
    let parts: Vec<String> = step.into_iter().chain(error.map(|error| format!("{}{error}", stays(migration)))).chain(owed).collect();
    parts.join("; ")
}

/// Says that a move which went back changed nothing: `openstack server resize --wait` prints "Complete" all the same.
fn stays(migration: &Value) -> String {
    let undone = text(migration, "state") == SagaState::Unwound.as_str();
    let kind = Kind::parse(text(migration, "saga")).filter(|_| undone);
    kind.and_then(|kind| kind.operation().when_undone).map(|words| format!("{words}: ")).unwrap_or_default()
}

/// Shows an operation's journal, and follows it if it is watched.
pub(super) fn show(options: Migration) -> Result<ExitCode, Failure> {
    on_service(async {
        let Migration { id, service: ServiceOptions { reach, output }, watch } = options;
        let client = reach.client().await?;
        let path = format!("/migrations/{}", names::migration(&client, &id).await?);
        let mut answer = patiently("reading the journal", client.get(OPERATORS, &path)).await?;
        if watch && is_open(&answer) && !output.is_json() {
            return follow(&client, &path).await;
        }
        let progress = watch.then(Progress::spinning);
        while watch && is_open(&answer) {
            progress.iter().for_each(|progress| progress.says(present(&answer)));
            tokio::time::sleep(LOOK_EVERY).await;
            answer = client.get(OPERATORS, &path).await?;
        }
        drop(progress);
        let view: MigrationView = serde_json::from_value(answer.clone())?;
        output.show(&answer, |_| whole(&view, Env::system().now(), &|code: &str, text: &str| terminal::paint(code, text)))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints each try when it has ended, and the end of the operation.
async fn follow(client: &Client, path: &str) -> Result<ExitCode, Failure> {
    let (mut printed, mut answer, progress) = (0, client.get(OPERATORS, path).await?, Progress::spinning());
    loop {
        let view: MigrationView = serde_json::from_value(answer.clone())?;
        let timeline = Timeline::of(&view, Env::system().now(), &plain);
        let mut lines = if printed == 0 { opening(&view, &timeline) } else { Vec::new() };
        let steps = view.steps.as_deref().unwrap_or_default();
        let ended = if view.is_over() { steps.len() } else { steps.iter().take_while(|step| step.outcome.is_some()).count() };
        for at in printed..ended {
            lines.push(format!("  {}", timeline.row(&steps[at]).trim_end()));
            lines.extend(timeline.error(&steps[at], at.checked_sub(1).map(|before| &steps[before])).iter().map(|line| format!("  {line}")));
        }
        printed = ended.max(printed);
        if view.is_over() {
            lines.extend(closing(&view, &timeline));
        }
        progress.says(present(&answer));
        progress.aside(|| lines.iter().for_each(|line| say!("{line}")));
        if view.is_over() || terminal::is_gone() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        answer = client.get(OPERATORS, path).await?;
    }
}

fn present(migration: &Value) -> String {
    format!("{}: {} %", text(migration, "step"), migration["progress"])
}

/// Returns the whole journal: the operation, its tries with their bars, what it owes, and its state.
pub(super) fn whole(view: &MigrationView, now: DateTime<Utc>, paint: Paint<'_>) -> String {
    let timeline = Timeline::of(view, now, paint);
    let rows = timeline.rows().into_iter().map(|row| format!("  {row}"));
    let lines = opening(view, &timeline).into_iter().chain(rows).chain(closing(view, &timeline));
    lines.map(|line| line + "\n").collect()
}

fn opening(view: &MigrationView, timeline: &Timeline<'_>) -> Vec<String> {
    let name = view.server_name.as_ref().map(|name| format!(" ({})", super::output::printable(name))).unwrap_or_default();
    let began = view.started_at.format("%Y-%m-%d %H:%M:%SZ");
    let first = format!("{} of server {}{name}, began {began}, migration {}", view.saga, view.server, view.uuid);
    let value = serde_json::to_value(view).unwrap_or_default();
    let second: Vec<String> = [places(&value), flavors(&value)].into_iter().filter(|text| !text.is_empty()).collect();
    let second = Some(second.join(", ")).filter(|line| !line.is_empty()).map(|line| format!("  {line}"));
    std::iter::once(first).chain(second).chain([format!("  {}", timeline.head())]).collect()
}

fn closing(view: &MigrationView, timeline: &Timeline<'_>) -> Vec<String> {
    let unread = view.reason.as_ref().map(|reason| format!("cannot be read: {reason}"));
    let error = view.error.as_ref().map(|error| format!("went back: {error}"));
    let after = span(TimeDelta::milliseconds(timeline.span()));
    let last = format!("{} after {after}", view.state);
    timeline.debts(true).into_iter().chain(unread).chain(error).chain([last]).collect()
}

/// Reads the newest operations of all servers, for the search of an id.
pub(super) async fn newest(client: &Client, most: u32) -> Result<Vec<Value>, Failure> {
    let list = List { path: "/migrations", key: "migrations", id: "uuid", filters: Vec::new() };
    let mut answer = list.read(client, Some(most)).await?;
    Ok(answer["migrations"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::order::tests::words_name_the_columns;

    fn migration(state: &str) -> Value {
        json!({
            "uuid": "0123456789", "server": "abcdef0123", "server_name": "web", "saga": "resize", "state": state, "step": "upload_snapshot",
            "progress": 40, "source": {"cell": "c1", "host": "h1"}, "target": {"cell": "c2", "host": "h2"}, "flavor": "small",
            "new_flavor": "large", "debts": [], "started_at": "2026-11-27T08:31:07Z", "updated_at": "2026-11-27T08:31:11.500Z",
        })
    }

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<Operations>(&HEAD);
    }

    #[test]
    fn a_row_tells_the_move_and_why_it_went_back() {
        let now = moment(&json!("2026-11-27T08:31:47Z")).unwrap();
        let running = row(&migration("running"), now);
        let expected = ["01234567", "web", "resize", "c1/h1 → c2/h2", "small → large", "2026-11-27 08:31:07Z", "40 s", "running 40 %"];
        assert_eq!(running[..8], expected);
        assert_eq!(running[8], "at upload_snapshot");
        let mut back = migration("unwound");
        back["error"] = json!("h2 is away");
        back["debts"] = json!([{}, {}]);
        back["server_name"] = Value::Null;
        back["source"] = Value::Null;
        let columns = row(&back, now);
        assert_eq!((&*columns[1], &*columns[3], &*columns[6], &*columns[7]), ("abcdef01", "→ c2/h2", "4.5 s", "unwound"));
        assert_eq!(columns[8], "the server is where it was: h2 is away; owes 2");
        back["saga"] = json!("rebuild");
        assert_eq!(row(&back, now)[8], "h2 is away; owes 2");
    }

    #[test]
    fn the_journal_begins_with_the_move_and_ends_with_its_state() {
        let id = uuid::Uuid::from_u128(1).to_string();
        let mut done = migration("unwound");
        done["uuid"] = json!(id);
        done["server"] = json!(id);
        done["error"] = json!("h2 is away");
        done["steps"] = json!([{"seq": 1, "step": "accept", "side": "act", "attempt": 1, "outcome": "ok", "error": null,
            "begun_at": "2026-11-27T08:31:07Z", "ended_at": "2026-11-27T08:31:08Z"}]);
        let view: MigrationView = serde_json::from_value(done).unwrap();
        let journal = whole(&view, Env::system().now(), &plain);
        let lines: Vec<&str> = journal.lines().collect();
        assert_eq!(lines[0], format!("resize of server {id} (web), began 2026-11-27 08:31:07Z, migration {id}"));
        assert_eq!(lines[1], "  c1/h1 → c2/h2, small → large");
        assert!(lines[2].contains("at ms") && lines[3].contains("accept") && lines[3].ends_with('▬'), "{journal}");
        assert_eq!(lines[4..], ["went back: h2 is away", "unwound after 1.0 s"]);
    }
}
