//! `cellshift servers`: the servers of all projects, with their cells, hosts, flavors, addresses, projects and states.

mod entry;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

pub(super) use self::entry::{Names, Projects};
use super::Failure;
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::watch::{Screen, Watch};
use super::words::there_are;
use crate::client::{Client, OPERATORS};
use crate::domain::nearest::did_you_mean;
use crate::domain::server::{TaskState, VmState, api_status};

/// The servers to list.
#[derive(Args)]
pub(super) struct Servers {
    #[command(flatten)]
    service: ServiceOptions,
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
    #[command(flatten)]
    order: Order<ServerList>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of servers.
    ServerList by
        "name", "id", "cell", "host", "flavor", "addresses" = Key::Address("/addresses/0"), "project", "state",
        "created" = Key::Field("/created"), "updated" = Key::Field("/updated"),
}

/// The columns by which the service sorts, with its keys. By the others it could sort only by an id, or by nothing, where the column shows a
/// name.
const SERVICE_KEYS: [(&str, &str); 5] =
    [("name", "display_name"), ("id", "uuid"), ("host", "host"), ("created", "created_at"), ("updated", "updated_at")];

/// Returns all statuses that a server can have.
fn statuses() -> Vec<&'static str> {
    let tasks = || std::iter::once(None).chain(TaskState::ALL.iter().copied().map(Some));
    let all: BTreeSet<&'static str> = VmState::ALL.iter().flat_map(|vm| tasks().map(|task| api_status(*vm, task))).collect();
    all.into_iter().collect()
}

/// Lists servers.
pub(super) fn run(options: Servers) -> Result<ExitCode, Failure> {
    let (watch, service) = (options.watch, options.service.clone());
    on_service(watch.screens(service, async |client| screen(client, &options).await))
}

/// Returns the service's key for the order, if it has one.
fn service_key(order: &Order<ServerList>) -> Option<&'static str> {
    SERVICE_KEYS.iter().find(|(word, _)| order.word() == Some(*word)).map(|(_, key)| *key)
}

/// Reads the servers.
async fn screen(client: &Client, options: &Servers) -> Result<Screen, Failure> {
    let names = Names::read(client).await?;
    if let Some(cell) = options.cell.as_deref().filter(|cell| names.cells().all(|name| name != *cell)) {
        let near = did_you_mean(cell, names.cells());
        return Err(format!("--cell: none is called {cell:?}.{near}{}", there_are(names.cells())).into());
    }
    let list = List { path: "/servers/detail", key: "servers", id: "id", filters: filters(client, &names, options).await? };
    let limit = options.limit.limit;
    let is_sorted = service_key(&options.order).is_some();
    let reads = if options.cell.is_some() {
        // The service does not know of cells: all servers are read.
        Some(u32::MAX)
    } else if is_sorted {
        limit
    } else {
        options.order.read_limit(limit)
    };
    let answer = list.read_from("compute", client, reads).await?;
    let mut servers: Vec<Value> = entries(&answer, "servers").iter().map(|server| names.entry(server)).collect();
    servers.retain(|server| options.cell.as_ref().is_none_or(|cell| server["cell"] == cell.as_str()));
    let mut listed = json!({ "servers": servers });
    if !is_sorted {
        options.order.arrange(&mut listed["servers"], limit, row);
    }
    if let (Some(servers), Some(limit)) = (listed["servers"].as_array_mut(), limit) {
        servers.truncate(limit as usize);
    }
    let remarks = list.more(&answer, reads).into_iter().collect();
    Ok(Screen { text: table(HEAD, entries(&listed, "servers").iter().map(row)), answer: listed, remarks })
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
    let sort = service_key(&options.order);
    let direction = sort.map(|_| if options.order.is_reversed() { "desc" } else { "asc" });
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

const HEAD: [&str; 8] = ["NAME", "ID", "CELL", "HOST", "FLAVOR", "ADDRESSES", "PROJECT", "STATE"];

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
    use crate::cli::order::Sorted;
    use crate::cli::order::tests::words_name_the_columns;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<ServerList>(&HEAD);
        for (word, _) in SERVICE_KEYS {
            assert!(ServerList::SORTS.iter().any(|(sort, _)| *sort == word), "{word}");
        }
    }

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
