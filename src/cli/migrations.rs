//! `cellshift migrations` and `cellshift migration UUID`: the operators' API's sagas, for a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::reach::Reach;
use super::{Failure, names, terminal};
use crate::client::OPERATORS;

/// The pause between two reads of a watched migration.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) fn list(reach: Reach, server: Option<String>, status: Option<String>) -> Result<ExitCode, Failure> {
    actix_rt::System::new().block_on(async {
        let client = reach.client().await?;
        let server = match server {
            Some(server) => Some(format!("server={}", names::server(&client, &server).await?)),
            None => None,
        };
        let status = status.map(|status| format!("status={}", utf8_percent_encode(&status, NON_ALPHANUMERIC)));
        let query: Vec<String> = server.into_iter().chain(status).collect();
        let body = client.get(OPERATORS, &format!("/migrations?{}", query.join("&"))).await?;
        terminal::out(format_args!("{}", table(&body)));
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn show(reach: Reach, id: &str, watch: bool) -> Result<ExitCode, Failure> {
    actix_rt::System::new().block_on(async {
        let client = reach.client().await?;
        let path = format!("/migrations/{}", names::migration(&client, id).await?);
        let mut shown = 0;
        loop {
            let migration = client.get(OPERATORS, &path).await?;
            let over = matches!(migration["state"].as_str(), Some("done" | "unwound" | "needs_operator"));
            let lines = timeline(&migration, over || !watch);
            let fresh: String = lines.iter().skip(shown).fold(String::new(), |text, line| text + line + "\n");
            shown = lines.len().max(shown);
            terminal::out(format_args!("{fresh}"));
            if over || !watch || terminal::is_gone() {
                return Ok(ExitCode::SUCCESS);
            }
            if std::io::stderr().is_terminal() {
                terminal::err(format_args!("\r{}: {} %\x1b[K\r", migration["step"].as_str().unwrap_or_default(), migration["progress"]));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

fn table(body: &Value) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["MIGRATION", "SERVER", "SAGA", "STATE", "STEP"]);
    for migration in body["migrations"].as_array().into_iter().flatten() {
        table.add_row(["uuid", "server", "saga", "state", "step"].map(|key| text(migration, key)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    format!("{}\n", table.trim_fmt())
}

/// Returns one line per ended attempt and, with `whole`, the open attempts, the debts and the state. Without `whole`, later calls only add
/// lines, so that a watched migration can be printed line by line.
fn timeline(migration: &Value, whole: bool) -> Vec<String> {
    let word = |key: &str| migration[key].as_str().unwrap_or_default();
    let mut lines = vec![format!("{} of server {}, began {}", word("saga"), word("server"), word("started_at"))];
    for step in migration["steps"].as_array().into_iter().flatten() {
        match step["outcome"].as_str() {
            None if !whole => break,
            outcome => lines.push(attempt(step, outcome.unwrap_or("…"))),
        }
    }
    if whole {
        for debt in migration["debts"].as_array().into_iter().flatten() {
            lines.push(format!("owed: {} of {}: {}", text(debt, "side"), text(debt, "step"), text(debt, "reason")));
        }
        if let Some(reason) = migration["reason"].as_str() {
            lines.push(format!("cannot be read: {reason}"));
        }
        lines.push(format!("{} at {}", word("state"), word("updated_at")));
    }
    lines
}

fn attempt(step: &Value, outcome: &str) -> String {
    let began = text(step, "begun_at");
    let took = match (time(&step["begun_at"]), time(&step["ended_at"])) {
        (Some(begun), Some(ended)) => format!("{} ms", (ended - begun).num_milliseconds()),
        _ => String::new(),
    };
    let side = if text(step, "side") == "undo" { "undo " } else { "" };
    let name = format!("{side}{}", text(step, "step"));
    let mut line = format!("  {began}  {name:36} attempt {:<3} {outcome:8} {took:>9}", step["attempt"]);
    if let Some(error) = step["error"].as_str() {
        let _ = write!(line, "  {error}");
    }
    line.trim_end().to_owned()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<chrono::DateTime<chrono::FixedOffset>> {
    chrono::DateTime::parse_from_rfc3339(value.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_column_is_as_wide_as_its_longest_text() {
        let migration = |saga: &str, step: &str| json!({"uuid": "1", "server": "2", "saga": saga, "state": "done", "step": step});
        let body = json!({"migrations": [migration("resize", "publish"), migration("a longer kind of operation", "")]});
        let lines = [
            "MIGRATION  SERVER  SAGA                        STATE  STEP\n",
            "1          2       resize                      done   publish\n",
            "1          2       a longer kind of operation  done\n",
        ];
        assert_eq!(table(&body), lines.concat());
    }
}
