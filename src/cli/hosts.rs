//! `cellshift hosts`: the hosts with their room, and a change of many at once: enable, disable, force down, force up.

mod change;
mod select;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::change::Change;
use super::Failure;
use super::cells::{room, servers};
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::watch::{Screen, Watch};
use super::words::mebibytes;
use crate::client::Client;

/// The hosts to list, or to change.
#[derive(Args)]
pub(super) struct Hosts {
    /// Only these hosts: names, or patterns with * and ?.
    #[arg(value_name = "HOST")]
    names: Vec<String>,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// Only hosts of this cell.
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// Only hosts in this aggregate: its name or id.
    #[arg(long, value_name = "NAME|ID")]
    aggregate: Option<String>,
    /// Only hosts in this state; those of a cell that does not answer are unknown.
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    #[command(flatten)]
    order: Order<HostList>,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    change: Wish,
}

sorted! {
    /// The list of hosts.
    HostList by
        "host", "cell", "zone", "state", "status", "servers" = Key::Field("/servers"),
        "vcpu" = Key::Field("/room/VCPU/used"), "memory" = Key::Field("/room/MEMORY_MB/used"),
        "disk" = Key::Field("/room/DISK_GB/used"), "why",
}

/// The change of the hosts.
#[derive(Args)]
struct Wish {
    /// Enable the hosts: they take new servers again.
    #[arg(long, group = "host_change", conflicts_with_all = ["sort", "watch"])]
    enable: bool,
    /// Disable the hosts: they get no new servers, and those that they have stay.
    #[arg(long, group = "host_change", conflicts_with_all = ["sort", "watch"])]
    disable: bool,
    /// Vouch that the hosts are off, so that their servers may be evacuated.
    #[arg(long, group = "host_change", conflicts_with_all = ["sort", "watch"])]
    force_down: bool,
    /// Take that back. Refused until a host has cleaned up after evacuations.
    #[arg(long, group = "host_change", conflicts_with_all = ["sort", "watch"])]
    force_up: bool,
    /// Why the hosts are disabled.
    #[arg(long, value_name = "TEXT", requires = "disable")]
    reason: Option<String>,
}

impl Wish {
    fn change(self) -> Option<Change> {
        let changes = [
            (self.enable, Change::Enable),
            (self.disable, Change::Disable { reason: self.reason }),
            (self.force_down, Change::ForceDown(true)),
            (self.force_up, Change::ForceDown(false)),
        ];
        changes.into_iter().find_map(|(is_wished, change)| is_wished.then_some(change))
    }
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

/// Lists the hosts, or changes them.
pub(super) fn run(options: Hosts) -> Result<ExitCode, Failure> {
    let Hosts { names, service, limit: Limit { limit }, cell, aggregate, state, order, watch, change } = options;
    let change = change.change();
    if change.is_some() && names.is_empty() && cell.is_none() && aggregate.is_none() {
        return Err("say which hosts: names, patterns such as 'cell1-*', --cell or --aggregate".into());
    }
    let narrows = !names.is_empty() || aggregate.is_some() || change.is_some();
    let filters = vec![("cell", cell), ("state", state.map(|state| state.word().to_owned()))];
    let list = List { path: "/hosts", key: "hosts", id: "name", filters };
    let read = async |client: &Client| {
        let mut answer = list.read(client, if narrows { Some(u32::MAX) } else { order.read_limit(limit) }).await?;
        select::Selection::read(client, names.clone(), aggregate.as_deref()).await?.narrow(&mut answer["hosts"])?;
        Ok::<Value, Failure>(answer)
    };
    on_service(async {
        if let Some(change) = change {
            let ServiceOptions { reach, output } = service;
            let client = reach.client().await?;
            let answer = read(&client).await?;
            return change.of_hosts(&client, entries(&answer, "hosts"), output).await;
        }
        let screen = async |client: &Client| {
            let mut answer = read(client).await?;
            order.arrange(&mut answer["hosts"], limit, row);
            if let (true, Some(hosts), Some(limit)) = (narrows, answer["hosts"].as_array_mut(), limit) {
                hosts.truncate(limit as usize);
            }
            let remarks = list.more(&answer, limit).into_iter().collect();
            Ok::<Screen, Failure>(Screen { text: table(HEAD, entries(&answer, "hosts").iter().map(row)), answer, remarks })
        };
        watch.screens(service, screen).await
    })
}

const HEAD: [&str; 10] = ["HOST", "CELL", "ZONE", "STATE", "STATUS", "SERVERS", "VCPU", "MEMORY", "DISK", "WHY"];

fn row(host: &Value) -> [String; 10] {
    [
        text(host, "name").to_owned(),
        text(host, "cell").to_owned(),
        text(host, "availability_zone").to_owned(),
        state(host),
        text(host, "status").to_owned(),
        servers(host),
        room(host, "VCPU", |number| number.to_string()),
        room(host, "MEMORY_MB", mebibytes),
        room(host, "DISK_GB", |number| format!("{number} GB")),
        text(host, "disabled_reason").to_owned(),
    ]
}

/// Tells whether the host takes requests, and whether it may have servers; of one that takes no requests, whether it may run its guests.
fn state(host: &Value) -> String {
    if host["discovered"] == true {
        return "discovered".to_owned();
    }
    let standing = &host["standing"];
    match (text(standing, "state"), text(standing, "by")) {
        ("silent", _) => format!("silent since {}", text(standing, "since")),
        ("off", "operator") => "off, forced down".to_owned(),
        ("off", "self_fence") => "off, fenced itself".to_owned(),
        ("off", _) => "off".to_owned(),
        _ if host["forced_down"] == true => "down, forced".to_owned(),
        _ => text(host, "state").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::order::tests::words_name_the_columns;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<HostList>(&HEAD);
    }

    #[test]
    fn rows_tell_what_is_unknown() {
        let room = json!({"VCPU": {"used": 2, "capacity": 16}, "MEMORY_MB": {"used": 1024, "capacity": 4096}});
        let mut host = json!({"name": "h1", "cell": "c", "availability_zone": "z", "state": "up", "status": "disabled", "forced_down": false,
            "disabled_reason": "a broken fan", "servers": 1, "room": room});
        assert_eq!(row(&host)[1..8], ["c", "z", "up", "disabled", "1", "2 of 16", "1.0 GiB of 4.0 GiB"]);
        assert_eq!(row(&host)[9], "a broken fan");
        host = json!({"name": "h2", "state": "unknown", "servers": null, "room": null});
        assert_eq!(row(&host)[5..], ["unknown", "", "", "", ""]);
    }

    #[test]
    fn a_silent_host_is_not_shown_as_off() {
        let shown = |forced: bool, standing: Value| state(&json!({"state": "down", "forced_down": forced, "standing": standing}));
        let silent = json!({"state": "silent", "since": "2026-11-20T12:00:00Z", "reason": "no connection"});
        assert_eq!(shown(false, silent), "silent since 2026-11-20T12:00:00Z");
        assert_eq!(shown(true, json!({"state": "off", "by": "operator"})), "off, forced down");
        assert_eq!(shown(false, json!({"state": "off", "by": "host"})), "off");
        assert_eq!(shown(false, json!({"state": "off", "by": "self_fence"})), "off, fenced itself");
        assert_eq!(shown(true, json!({"state": "up"})), "down, forced", "it answers, and is asked itself");
        assert_eq!(shown(false, Value::Null), "down");
    }

    #[test]
    fn a_discovered_host_is_not_told_as_up() {
        let host = json!({"state": "up", "forced_down": false, "standing": {"state": "up"}, "discovered": true});
        assert_eq!(state(&host), "discovered");
    }
}
