//! `cellshift servers`: the servers of all projects, with their cells, hosts, flavors, addresses, projects and states.

mod entry;
mod sort;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

pub(super) use self::entry::{Names, Projects};
use self::sort::Sort;
use super::Failure;
use super::output::{Asked, Limit, List, entries, on_service, table, text};
use super::progress::can_redraw;
use super::terminal;
use super::words::there_are;
use crate::client::{Client, OPERATORS};
use crate::domain::nearest::did_you_mean;
use crate::domain::server::{TaskState, VmState, api_status};
use crate::signals::Signals;

/// The pause between two lists that are watched.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// The terminal's code that clears the screen and goes to its beginning.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// The servers to list.
#[derive(Args)]
pub(super) struct Servers {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    limit: Limit,
    /// Only servers whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Only servers with this status, such as ACTIVE or VERIFY_RESIZE.
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = PossibleValuesParser::new(statuses()), hide_possible_values = true)]
    status: Option<String>,
    /// Only servers of this cell.
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// Only servers on this host.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Only servers with this flavor: its name or id.
    #[arg(long, value_name = "NAME|ID")]
    flavor: Option<String>,
    /// Only servers of this project: its name or id.
    #[arg(long, value_name = "NAME|ID")]
    project: Option<String>,
    /// Only servers with an IPv4 address that contains this text.
    #[arg(long, value_name = "TEXT")]
    address: Option<String>,
    /// The order of the list [default: the newest first]. By cell, flavor, addresses, project or state, all servers are read and sorted here.
    #[arg(long, value_enum, value_name = "FIELD")]
    sort: Option<Sort>,
    /// Turn the order of --sort round.
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// List again every two seconds, until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// Returns all statuses that a server can have.
fn statuses() -> Vec<&'static str> {
    let tasks = || std::iter::once(None).chain(TaskState::ALL.iter().copied().map(Some));
    let all: BTreeSet<&'static str> = VmState::ALL.iter().flat_map(|vm| tasks().map(|task| api_status(*vm, task))).collect();
    all.into_iter().collect()
}

/// Lists servers, once or again and again.
pub(super) fn run(options: Servers) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = options.asked.reach.clone().client().await?;
        if !options.watch {
            show(&client, &options).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = Signals::listen()?;
        while !terminal::is_gone() {
            if can_redraw(&std::io::stdout()) && !options.asked.output.is_json() {
                terminal::out(format_args!("{CLEAR}"));
            }
            show(&client, &options).await?;
            tokio::select! {
                () = tokio::time::sleep(WATCH_EVERY) => {}
                () = signals.received() => break,
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads the servers and prints them.
async fn show(client: &Client, options: &Servers) -> Result<(), Failure> {
    let names = Names::read(client).await?;
    if let Some(cell) = options.cell.as_deref().filter(|cell| names.cells().all(|name| name != *cell)) {
        let near = did_you_mean(cell, names.cells());
        return Err(format!("--cell: none is called {cell:?}.{near}{}", there_are(names.cells())).into());
    }
    let list = List { path: "/servers/detail", key: "servers", id: "id", filters: filters(client, &names, options).await? };
    let limit = options.limit.limit;
    let sort_here = options.sort.filter(|sort| sort.key().is_none());
    // The service does not know of these: all servers are read.
    let needs_all = options.cell.is_some() || sort_here.is_some();
    let answer = list.read_from("compute", client, if needs_all { Some(u32::MAX) } else { limit }).await?;
    let mut servers: Vec<Value> = entries(&answer, "servers").iter().map(|server| names.entry(server)).collect();
    servers.retain(|server| options.cell.as_ref().is_none_or(|cell| server["cell"] == cell.as_str()));
    if let Some(sort) = sort_here {
        sort.order(&mut servers, options.reverse);
    }
    servers.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    options
        .asked
        .output
        .show(&json!({ "servers": servers }), |answer| table(COLUMNS.map(|(_, head)| head), entries(answer, "servers").iter().map(row)))?;
    if !needs_all {
        list.mention_more(&answer, limit);
    }
    Ok(())
}

/// Returns the filters of the request. Names become ids.
async fn filters(client: &Client, names: &Names, options: &Servers) -> Result<Vec<(&'static str, Option<String>)>, Failure> {
    let flavor = match &options.flavor {
        Some(flavor) => Some(flavor_id(client, flavor).await?),
        None => None,
    };
    let project = options.project.as_ref().map(|project| names.project_id(project)).transpose()?;
    if let Some(host) = &options.host {
        // A host that does not exist is told with the nearest name; without this the list would be empty.
        client.get(OPERATORS, &format!("/hosts/{}", utf8_percent_encode(host, NON_ALPHANUMERIC))).await?;
    }
    let sort = options.sort.and_then(Sort::key);
    let direction = sort.map(|_| if options.reverse { "desc" } else { "asc" });
    Ok(vec![
        ("all_tenants", Some("1".to_owned())),
        ("name", options.name.as_ref().map(|name| regex::escape(name))),
        ("status", options.status.as_ref().map(|status| status.to_uppercase())),
        ("host", options.host.clone()),
        ("flavor", flavor),
        ("project_id", project),
        ("ip", options.address.as_ref().map(|address| regex::escape(address))),
        ("sort_key", sort.map(str::to_owned)),
        ("sort_dir", direction.map(str::to_owned)),
    ])
}

/// Returns the id of the flavor with this id or name.
async fn flavor_id(client: &Client, name: &str) -> Result<String, Failure> {
    let answer = client.get("compute", "/flavors?is_public=None").await?;
    let flavors = entries(&answer, "flavors");
    let by = |key: &str| flavors.iter().find(|flavor| flavor[key] == name);
    if let Some(flavor) = by("id").or_else(|| by("name")) {
        return Ok(text(flavor, "id").to_owned());
    }
    let names = || flavors.iter().map(|flavor| text(flavor, "name"));
    Err(format!("--flavor: none is called {name:?}.{}{}", did_you_mean(name, names()), there_are(names())).into())
}

/// The columns of the list, and the orders that sort by them.
const COLUMNS: [(Sort, &str); 8] = [
    (Sort::Name, "NAME"),
    (Sort::Id, "ID"),
    (Sort::Cell, "CELL"),
    (Sort::Host, "HOST"),
    (Sort::Flavor, "FLAVOR"),
    (Sort::Addresses, "ADDRESSES"),
    (Sort::Project, "PROJECT"),
    (Sort::State, "STATE"),
];

fn row(server: &Value) -> [String; 8] {
    let state = match server["task_state"].as_str() {
        Some(task) => format!("{}, {task}", text(server, "status")),
        None => text(server, "status").to_owned(),
    };
    let project = server["project"].as_str().unwrap_or_else(|| text(server, "project_id"));
    [
        text(server, "name").to_owned(),
        text(server, "id").to_owned(),
        text(server, "cell").to_owned(),
        text(server, "host").to_owned(),
        text(server, "flavor").to_owned(),
        entries(server, "addresses").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        project.to_owned(),
        state,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_all_states() {
        let all = statuses();
        for status in ["ACTIVE", "ERROR", "MIGRATING", "SHELVED_OFFLOADED", "VERIFY_RESIZE"] {
            assert!(all.contains(&status), "{all:?}");
        }
        assert!(all.is_sorted());
    }

    #[test]
    fn a_row_has_the_servers_place_and_state() {
        let mut server = json!({"name": "web", "id": "s", "cell": "c1", "host": "h1", "flavor": "small", "addresses": ["10.0.0.3", "172.24.4.2"],
            "project_id": "p", "project": "demo", "status": "RESIZE", "task_state": "resize_migrating"});
        assert_eq!(row(&server), ["web", "s", "c1", "h1", "small", "10.0.0.3, 172.24.4.2", "demo", "RESIZE, resize_migrating"]);
        (server["project"], server["task_state"]) = (Value::Null, Value::Null);
        assert_eq!(row(&server)[6..], ["p", "RESIZE"]);
    }
}
