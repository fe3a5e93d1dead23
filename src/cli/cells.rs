//! `cellshift cells` and `cellshift hosts`: the cells with their health, and the hosts with their room.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::Failure;
use super::output::{Asked, Limit, entries, on_service, table, text};
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
}

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
        let mut answer = patiently("asking the cells", client.get(OPERATORS, "/cells")).await?;
        cut(&mut answer["cells"], asked.limit);
        asked.asked.output.show(&answer, |answer| table(CELL_HEAD, entries(answer, "cells").iter().map(|cell| cell_row(cell, now()))))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Lists the hosts of all cells, or of one.
pub(super) fn hosts(asked: Hosts) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = asked.asked.reach.client().await?;
        let mut answer = patiently("asking the cells", client.get(OPERATORS, "/cells")).await?;
        if let Some(name) = &asked.cell {
            let cells = answer["cells"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let named: Vec<Value> = cells.into_iter().filter(|cell| cell["name"] == name.as_str()).collect();
            if named.is_empty() {
                return Err(format!("no cell is called {name:?}").into());
            }
            answer["cells"] = named.into();
        }
        asked.asked.output.show(&answer, |answer| {
            let most = asked.limit.limit.map_or(usize::MAX, |limit| limit as usize);
            let hosts =
                entries(answer, "cells").iter().flat_map(|cell| entries(cell, "hosts").iter().map(move |host| host_row(cell, host)));
            table(HOST_HEAD, hosts.take(most))
        })?;
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
    let hosts = entries(cell, "hosts");
    let up = hosts.iter().filter(|host| host["state"] == "up").count();
    let servers: Option<u64> = hosts.iter().map(|host| host["servers"].as_u64()).sum();
    let health = match cell["disabled"] == true {
        true => format!("{}, disabled", text(cell, "health")),
        false => text(cell, "health").to_owned(),
    };
    [
        text(cell, "name").to_owned(),
        health,
        ago(&cell["since"], now),
        format!("{up} of {}", hosts.len()),
        servers.map_or_else(|| "unknown".to_owned(), |servers| servers.to_string()),
        room(hosts, "VCPU", |number| number.to_string()),
        room(hosts, "MEMORY_MB", mebibytes),
        text(cell, "reason").to_owned(),
    ]
}

fn host_row(cell: &Value, host: &Value) -> [String; 9] {
    let one = std::slice::from_ref(host);
    let state = if host["forced_down"] == true { "down, forced" } else { text(host, "state") };
    [
        text(host, "name").to_owned(),
        text(cell, "name").to_owned(),
        text(host, "availability_zone").to_owned(),
        state.to_owned(),
        text(host, "status").to_owned(),
        host["servers"].as_u64().map_or_else(|| "unknown".to_owned(), |servers| servers.to_string()),
        room(one, "VCPU", |number| number.to_string()),
        room(one, "MEMORY_MB", mebibytes),
        room(one, "DISK_GB", |number| format!("{number} GB")),
    ]
}

/// Returns how much of a class is taken on these hosts, and how much they have. Empty if no host's room is known.
fn room(hosts: &[Value], class: &str, unit: impl Fn(u64) -> String) -> String {
    let known: Vec<(u64, u64)> = hosts
        .iter()
        .filter_map(|host| {
            let room = &host["room"][class];
            Some((room["used"].as_u64()?, room["capacity"].as_u64()?))
        })
        .collect();
    if known.is_empty() {
        return String::new();
    }
    let (used, all) = known.iter().fold((0, 0), |(used, all), (one, whole)| (used + one, all + whole));
    format!("{} of {}", unit(used), unit(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::words::moment;

    #[test]
    fn rows_add_up_hosts_and_say_what_is_unknown() {
        let host = |name: &str, servers: Option<u64>, used: u64| {
            let room = json!({"VCPU": {"used": used, "capacity": 8}, "MEMORY_MB": {"used": 512, "capacity": 2048}});
            json!({"name": name, "availability_zone": "z", "state": "up", "status": "enabled", "forced_down": false, "servers": servers, "room": room})
        };
        let now = moment(&json!("2026-11-27T08:31:07Z")).unwrap();
        let mut cell = json!({"name": "c", "health": "up", "since": "2026-11-27T08:30:57Z", "disabled": false, "reason": null,
            "hosts": [host("h1", Some(1), 2), host("h2", Some(3), 4)]});
        assert_eq!(cell_row(&cell, now), ["c", "up", "10 s ago", "2 of 2", "4", "6 of 16", "1.0 GiB of 4.0 GiB", ""]);
        assert_eq!(host_row(&cell, &cell["hosts"][0])[3..8], ["up", "enabled", "1", "2 of 8", "512 MiB of 2.0 GiB"]);
        cell["hosts"][1] = json!({"name": "h2", "state": "unknown", "servers": null, "room": null});
        cell["disabled"] = json!(true);
        assert_eq!(cell_row(&cell, now)[1..6], ["up, disabled", "10 s ago", "1 of 2", "unknown", "2 of 8"]);
        assert_eq!(host_row(&cell, &cell["hosts"][1])[5..], ["unknown", "", "", ""]);
    }
}
