//! `cellshift cells`: the cells with their health and room, after a change of one.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::Failure;
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, counted, entries, examples, grouped, on_service, table, text};
use super::progress::patiently;
use super::watch::{Screen, Watch};
use super::words::{ago, mebibytes};
use crate::client::{Client, OPERATORS};
use crate::env::Env;

/// The cells without the lists of their hosts.
pub(super) const BRIEFLY: &str = "/cells?hosts=false";

/// The cells to list, and a cell that is to take no new servers, or to take them again.
#[derive(Args)]
pub(super) struct Cells {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// First disable this cell: it gets no new servers, and those that it has stay.
    #[arg(long, value_name = "CELL")]
    disable: Option<String>,
    /// First enable this cell again. Its hosts that are disabled by themselves stay so, and are named.
    #[arg(long, value_name = "CELL", conflicts_with = "disable")]
    enable: Option<String>,
    #[command(flatten)]
    order: Order<CellList>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of cells.
    CellList by
        "cell", "health", "changed" = Key::Field("/since"), "hosts" = Key::Field("/host_counts/up"),
        "servers" = Key::Field("/servers"), "vcpu" = Key::Field("/room/VCPU/used"),
        "memory" = Key::Field("/room/MEMORY_MB/used"), "why",
}

/// Lists the cells, after a change of one.
pub(super) fn cells(options: Cells) -> Result<ExitCode, Failure> {
    let Cells { service, limit, disable, enable, order, watch } = options;
    on_service(async {
        let change = disable.as_ref().map(|cell| (cell, true)).or(enable.as_ref().map(|cell| (cell, false)));
        if let Some((cell, disabled)) = change {
            let path = format!("/cells/{}", utf8_percent_encode(cell, NON_ALPHANUMERIC));
            service.reach.clone().client().await?.put(OPERATORS, &path, json!({ "disabled": disabled })).await?;
        }
        let screen = async |client: &Client| {
            let mut answer = patiently("asking the cells", client.get(OPERATORS, BRIEFLY)).await?;
            let now = Env::system().now();
            let row = |cell: &Value| cell_row(cell, now);
            order.arrange(&mut answer["cells"], limit.limit, row);
            cut(&mut answer["cells"], limit);
            let mut text = table(CELL_HEAD, entries(&answer, "cells").iter().map(row));
            if let Some(cell) = &enable {
                answer["hosts_disabled"] = disabled_hosts(client, cell).await?;
                text += &stay_disabled(cell, entries(&answer, "hosts_disabled"));
            }
            Ok::<Screen, Failure>(Screen { answer, text, remarks: Vec::new() })
        };
        watch.screens(service, screen).await
    })
}

/// Returns the names of a cell's hosts whose service is disabled, each with the reason.
async fn disabled_hosts(client: &Client, cell: &str) -> Result<Value, Failure> {
    let filters = vec![("cell", Some(cell.to_owned())), ("disabled", Some("true".to_owned()))];
    let answer = List { path: "/hosts", key: "hosts", id: "name", filters }.read(client, Some(u32::MAX)).await?;
    let named = |host: &Value| json!({"name": host["name"], "reason": host["disabled_reason"]});
    Ok(entries(&answer, "hosts").iter().map(named).collect())
}

/// Says which hosts of an enabled cell stay disabled, by reason, and how to enable them. Empty if there are none.
fn stay_disabled(cell: &str, hosts: &[Value]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    let mut lines = format!("\n{} of {cell} stay disabled:\n", counted(hosts.len(), "host"));
    let by_reason = hosts.iter().map(|host| (host["reason"].as_str().unwrap_or("no reason is given"), text(host, "name").to_owned()));
    for (reason, names) in grouped(by_reason) {
        lines += &format!("  {}: {reason}\n", examples(&names));
    }
    lines + &format!("Enable them with: cellshift hosts --cell {cell} --enable\n")
}

/// Keeps the first entries.
fn cut(list: &mut Value, limit: Limit) {
    if let (Some(entries), Some(limit)) = (list.as_array_mut(), limit.limit) {
        entries.truncate(limit as usize);
    }
}

pub(super) const CELL_HEAD: [&str; 8] = ["CELL", "HEALTH", "CHANGED", "HOSTS UP", "SERVERS", "VCPU", "MEMORY", "WHY"];

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

/// Returns the number of servers of a cell or a host.
pub(super) fn servers(of: &Value) -> String {
    of["servers"].as_u64().map_or_else(|| "unknown".to_owned(), |servers| servers.to_string())
}

/// Returns how much of a class is taken in a cell or on a host, and how much there is. Empty if that is not known.
pub(super) fn room(of: &Value, class: &str, unit: impl Fn(u64) -> String) -> String {
    let room = &of["room"][class];
    let amounts = room["used"].as_u64().zip(room["capacity"].as_u64());
    amounts.map(|(used, all)| format!("{} of {}", unit(used), unit(all))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::order::tests::words_name_the_columns;
    use crate::cli::words::moment;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<CellList>(&CELL_HEAD);
    }

    #[test]
    fn rows_tell_what_is_unknown() {
        let room = |used: u64| json!({"VCPU": {"used": used, "capacity": 16}, "MEMORY_MB": {"used": 1024, "capacity": 4096}});
        let now = moment(&json!("2026-11-27T08:31:07Z")).unwrap();
        let mut cell = json!({"name": "c", "health": "up", "since": "2026-11-27T08:30:57Z", "disabled": false, "reason": null,
            "host_counts": {"total": 2, "up": 2}, "servers": 4, "room": room(6)});
        assert_eq!(cell_row(&cell, now), ["c", "up", "10 s ago", "2 of 2", "4", "6 of 16", "1.0 GiB of 4.0 GiB", ""]);
        (cell["host_counts"]["up"], cell["servers"], cell["room"], cell["disabled"]) = (json!(0), json!(null), json!(null), json!(true));
        assert_eq!(cell_row(&cell, now)[1..6], ["up, disabled", "10 s ago", "0 of 2", "unknown", ""]);
    }

    #[test]
    fn hosts_that_stay_disabled_are_named_by_reason() {
        let host = |name: &str, reason: Value| json!({"name": name, "reason": reason});
        let hosts = [host("h1", json!("drained by drain d")), host("h2", json!("drained by drain d")), host("h3", Value::Null)];
        let lines = "\n3 hosts of cell1 stay disabled:\n  h1, h2: drained by drain d\n  h3: no reason is given\n\
                     Enable them with: cellshift hosts --cell cell1 --enable\n";
        assert_eq!(stay_disabled("cell1", &hosts), lines);
        assert_eq!(stay_disabled("cell1", &[]), "");
    }
}
