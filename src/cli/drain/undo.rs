//! `cellshift drain --undo`: the hosts are enabled again, moves in flight are cancelled, and servers that have moved stay where they are.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{follow_until_over, in_state, report, source, with_servers};
use crate::cli::output::{List, Output, entries, text};
use crate::cli::terminal::say;
use crate::cli::{Failure, names};
use crate::client::{Client, OPERATORS};

/// Turns the newest drain of a host or a cell back, or the drain with this id, and follows it until nothing is in flight.
pub(super) async fn of(client: &Client, name: &str, output: Output) -> Result<ExitCode, Failure> {
    let list = List { path: "/drains", key: "drains", id: "id", filters: Vec::new() };
    let answer = list.read(client, Some(u32::MAX)).await?;
    let id = match newest_of(&answer, name) {
        Some(drain) => text(drain, "id").to_owned(),
        None => match names::drain(client, name).await {
            Ok(id) => id.to_string(),
            Err(_) => {
                source::Source::called(client, name, &source::cells(client).await?).await?;
                return Err(format!("no drain of {name} can be undone: see cellshift drains").into());
            }
        },
    };
    by_id(client, &id, output).await
}

/// Turns the drain with this id back, and follows it until nothing is in flight.
pub(super) async fn by_id(client: &Client, id: &str, output: Output) -> Result<ExitCode, Failure> {
    client.post(OPERATORS, &format!("/drains/{id}/undo"), json!({})).await?;
    let Some(drain) = follow_until_over(client, id).await? else { return Ok(super::interrupted(id)) };
    let moved = in_state(client, id, "moved").await?;
    let disabled = still_disabled(client, &drain).await?;
    output.show(&with_servers(&drain, &moved), |drain| report::undone(drain, &moved, &disabled))?;
    if !output.is_json() && !moved.is_empty() {
        say!("To bring a server back, migrate it: openstack server migrate --host HOST SERVER");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the newest drain of a host or a whole cell that is not undone yet. The list begins with the newest.
fn newest_of<'a>(answer: &'a Value, name: &str) -> Option<&'a Value> {
    entries(answer, "drains").iter().filter(|drain| text(drain, "state") != "undone").find(|drain| match drain["whole_cell"] == true {
        true => drain["cell"] == name,
        false => entries(drain, "hosts").iter().any(|host| host == name),
    })
}

/// Returns the drain's hosts whose service is disabled still, because somebody else disabled it.
async fn still_disabled(client: &Client, drain: &Value) -> Result<Vec<Value>, Failure> {
    let filters = vec![("cell", Some(text(drain, "cell").to_owned())), ("disabled", Some("true".to_owned()))];
    let list = List { path: "/hosts", key: "hosts", id: "name", filters };
    let mut answer = list.read(client, Some(u32::MAX)).await?;
    let mut hosts = answer["hosts"].as_array_mut().map(std::mem::take).unwrap_or_default();
    hosts.retain(|host| entries(drain, "hosts").contains(&host["name"]));
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_drain_that_is_not_undone_is_chosen() {
        let drain = |id: &str, state: &str, whole: bool, hosts: &[&str]| json!({"id": id, "state": state, "cell": "cell1", "whole_cell": whole, "hosts": hosts});
        let answer = json!({"drains": [
            drain("d4", "undone", false, &["h1"]), drain("d3", "done", true, &["h1", "h2"]), drain("d2", "done", false, &["h1"]),
            drain("d1", "done", false, &["h1"]),
        ]});
        let id = |name: &str| newest_of(&answer, name).map(|drain| text(drain, "id"));
        assert_eq!((id("h1"), id("cell1"), id("h2")), (Some("d2"), Some("d3"), None));
    }
}
