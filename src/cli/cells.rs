//! `cellshift cells` and `cellshift hosts`: the cells with their health, and the hosts with their room.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::Failure;
use super::output::{Asked, Limit, List, entries, on_service, table, text};
use super::progress::patiently;
use super::words::{ago, mebibytes};
use crate::client::OPERATORS;
use crate::env::Env;

/// The hosts to list.
#[derive(Args)]
pub(super) struct Hosts {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    limit: Limit,
    /// Only hosts of this cell.
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// Only hosts in this state; those of a cell that does not answer are unknown.
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
}

/// Whether a host takes requests.
#[derive(Clone, Copy, ValueEnum)]
enum State {
    Up,
    Down,
    Unknown,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::Unknown => "unknown",
        }
    }
}

/// The cells without the lists of their hosts.
pub(super) const BRIEFLY: &str = "/cells?hosts=false";

/// The cells to list, and a cell that is to take no new servers, or to take them again.
#[derive(Args)]
pub(super) struct Cells {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    limit: Limit,
    /// First disable this cell: it gets no new servers, and those that it has stay.
    #[arg(long, value_name = "CELL")]
    disable: Option<String>,
    /// First enable this cell again.
    #[arg(long, value_name = "CELL", conflicts_with = "disable")]
    enable: Option<String>,
}

/// Lists the cells, after a change of one.
pub(super) fn cells(asked: Cells) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = asked.asked.reach.client().await?;
        let change = asked.disable.map(|cell| (cell, true)).or(asked.enable.map(|cell| (cell, false)));
        if let Some((cell, disabled)) = change {
            let path = format!("/cells/{}", utf8_percent_encode(&cell, NON_ALPHANUMERIC));
            client.put(OPERATORS, &path, json!({ "disabled": disabled })).await?;
        }
        let mut answer = patiently("asking the cells", client.get(OPERATORS, BRIEFLY)).await?;
        cut(&mut answer["cells"], asked.limit);
        asked.asked.output.show(&answer, |answer| table(CELL_HEAD, entries(answer, "cells").iter().map(|cell| cell_row(cell, now()))))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Lists the hosts of all cells, or of one.
pub(super) fn hosts(asked: Hosts) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = asked.asked.reach.client().await?;
        let filters = vec![("cell", asked.cell), ("state", asked.state.map(|state| state.word().to_owned()))];
        let list = List { path: "/hosts", key: "hosts", id: "name", filters };
        let answer = list.read(&client, asked.limit.limit).await?;
        asked.asked.output.show(&answer, |answer| table(HOST_HEAD, entries(answer, "hosts").iter().map(host_row)))?;
        list.mention_more(&answer, asked.limit.limit);
        Ok(ExitCode::SUCCESS)
    })
}

fn now() -> DateTime<Utc> {
    Env::system().now()
}

/// Keeps the first entries.
fn cut(list: &mut Value, limit: Limit) {
    if let (Some(entries), Some(limit)) = (list.as_array_mut(), limit.limit) {
        entries.truncate(limit as usize);
    }
}

pub(super) const CELL_HEAD: [&str; 8] = ["CELL", "HEALTH", "SINCE", "HOSTS UP", "SERVERS", "VCPU", "MEMORY", "WHY"];
const HOST_HEAD: [&str; 9] = ["HOST", "CELL", "ZONE", "STATE", "STATUS", "SERVERS", "VCPU", "MEMORY", "DISK"];

/// Returns a cell's row: its health, and the servers and the room of its hosts.
pub(super) fn cell_row(cell: &Value, now: DateTime<Utc>) -> [String; 8] {
    let hosts = |kind: &str| cell["host_counts"][kind].as_u64().unwrap_or_default();
    let health = match cell["disabled"] == true {
        true => format!("{}, disabled", text(cell, "health")),
        false => text(cell, "health").to_owned(),
    };
    [
        text(cell, "name").to_owned(),
        health,
        ago(&cell["since"], now),
        format!("{} of {}", hosts("up"), hosts("total")),
        servers(cell),
        room(cell, "VCPU", |number| number.to_string()),
        room(cell, "MEMORY_MB", mebibytes),
        text(cell, "reason").to_owned(),
    ]
}

fn host_row(host: &Value) -> [String; 9] {
    let state = if host["forced_down"] == true { "down, forced" } else { text(host, "state") };
    [
        text(host, "name").to_owned(),
        text(host, "cell").to_owned(),
        text(host, "availability_zone").to_owned(),
        state.to_owned(),
        text(host, "status").to_owned(),
        servers(host),
        room(host, "VCPU", |number| number.to_string()),
        room(host, "MEMORY_MB", mebibytes),
        room(host, "DISK_GB", |number| format!("{number} GB")),
    ]
}

/// Returns the number of servers of a cell or a host.
fn servers(of: &Value) -> String {
    of["servers"].as_u64().map_or_else(|| "unknown".to_owned(), |servers| servers.to_string())
}

/// Returns how much of a class is taken in a cell or on a host, and how much there is. Empty if that is not known.
fn room(of: &Value, class: &str, unit: impl Fn(u64) -> String) -> String {
    let room = &of["room"][class];
    let known = room["used"].as_u64().zip(room["capacity"].as_u64());
    known.map(|(used, all)| format!("{} of {}", unit(used), unit(all))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::words::moment;

    #[test]
    fn rows_tell_what_is_unknown() {
        let room = |used: u64| json!({"VCPU": {"used": used, "capacity": 16}, "MEMORY_MB": {"used": 1024, "capacity": 4096}});
        let now = moment(&json!("2026-11-27T08:31:07Z")).unwrap();
        let mut cell = json!({"name": "c", "health": "up", "since": "2026-11-27T08:30:57Z", "disabled": false, "reason": null,
            "host_counts": {"total": 2, "up": 2}, "servers": 4, "room": room(6)});
        assert_eq!(cell_row(&cell, now), ["c", "up", "10 s ago", "2 of 2", "4", "6 of 16", "1.0 GiB of 4.0 GiB", ""]);
        (cell["host_counts"]["up"], cell["servers"], cell["room"], cell["disabled"]) = (json!(0), json!(null), json!(null), json!(true));
        assert_eq!(cell_row(&cell, now)[1..6], ["up, disabled", "10 s ago", "0 of 2", "unknown", ""]);
        let mut host = json!({"name": "h1", "cell": "c", "availability_zone": "z", "state": "up", "status": "enabled", "forced_down": false,
            "servers": 1, "room": room(2)});
        assert_eq!(host_row(&host)[1..8], ["c", "z", "up", "enabled", "1", "2 of 16", "1.0 GiB of 4.0 GiB"]);
        host = json!({"name": "h2", "state": "unknown", "servers": null, "room": null});
        assert_eq!(host_row(&host)[5..], ["unknown", "", "", ""]);
    }
}
