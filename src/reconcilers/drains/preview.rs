//! A drain that is only tried on paper: where each server would go, one after the other in the order of a drain, and how full the hosts would be.
//! Nothing is started or recorded.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::choice::{self, Beside, Choice, NoChoice};
use super::outlook::{self, Planned};
use super::waiting::{WAITS, Waiting, left_by_moves};
use crate::domain::drain::DrainPlan;
use crate::domain::instance::Instance;
use crate::domain::server::{PowerState, VmState};
use crate::saga::error::StepError;
use crate::saga::world::World;

/// Returns an entry per server of the plan's hosts, the number of servers that stay and their reasons, the hosts that take servers, and the
/// time of the moves. Later moves cannot use the room of a move that is planned before them.
pub async fn preview(world: &World, plan: &DrainPlan) -> Result<Map<String, Value>, StepError> {
    let mut servers = Vec::new();
    for host in &plan.hosts {
        let here = world.cell(&plan.cell)?.instances_on_host(host).await?;
        servers.extend(here.into_iter().filter(|server| !server.hidden).map(|server| (server, host)));
    }
    servers.sort_by_key(|(server, _)| server.uuid);
    let (mut entries, mut planned, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
    for (server, host) in servers {
        let server = as_moved(plan, server);
        let beside = Beside { refused: None, planned: &rooms };
        let chosen = choice::choose(world, plan, &plan.cell, &server, beside).await;
        if let Ok(choice) = &chosen {
            let room = choice.planned(&server);
            rooms.push(room.clone());
            planned.push(Planned { kind: choice.kind, cell: choice.cell.clone(), room });
        }
        entries.push(entry(host, &server, chosen));
    }
    let stays = entries.len() - planned.len();
    let reasons = reasons(&entries);
    entries.extend(left_by_moves(world, plan).await?.iter().map(|(waiting, host)| waits(plan, waiting, host)));
    let (targets, time) = (outlook::targets(world, &planned).await?, outlook::time(world, &planned).await?);
    let parts = [("servers", json!(entries)), ("stays", json!(stays)), ("reasons", reasons), ("targets", json!(targets)), ("time", time)];
    Ok(parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Returns the reasons of the servers that stay, that of the most servers first.
fn reasons(entries: &[Value]) -> Value {
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in entries.iter().filter_map(|entry| entry["reason"].as_str()) {
        *numbers.entry(reason).or_default() += 1;
    }
    let mut groups: Vec<(&str, u64)> = numbers.into_iter().collect();
    groups.sort_by_key(|(_, servers)| std::cmp::Reverse(*servers));
    groups.into_iter().map(|(reason, servers)| json!({"reason": reason, "servers": servers})).collect()
}

/// Returns the entry of a server that has left the host by a move which waits for confirm or revert.
fn waits(plan: &DrainPlan, waiting: &Waiting, host: &str) -> Value {
    let server = &waiting.instance;
    let mut entry = json!({"server": server.uuid, "name": server.display_name, "host": host, "cell": waiting.cell, "target": server.host,
        "flavor": server.flavor.name, "kind": null, "reason": WAITS});
    if plan.confirm_others {
        entry["kind"] = json!("confirm");
        entry["reason"] = Value::Null;
    }
    entry
}

/// Returns a server as the drain moves it: one that waits for a confirm is confirmed first, if the drain does that.
fn as_moved(plan: &DrainPlan, server: Instance) -> Instance {
    if !plan.confirm_others || server.vm_state != VmState::Resized {
        return server;
    }
    let vm_state = if server.power_state == PowerState::Running { VmState::Active } else { VmState::Stopped };
    Instance { vm_state, ..server }
}

fn entry(host: &str, server: &Instance, chosen: Result<Choice, NoChoice>) -> Value {
    let (kind, cell, target, flavor, reason) = match chosen {
        Ok(chosen) => {
            let flavor = chosen.flavor.map_or_else(|| server.flavor.name.clone(), |flavor| flavor.name);
            (Some(chosen.kind), Some(chosen.cell), Some(chosen.host), Some(flavor), None)
        }
        Err(NoChoice::Refused(why) | NoChoice::Silent(why)) => (None, None, None, None, Some(why.to_string())),
    };
    json!({"server": server.uuid, "name": server.display_name, "host": host, "kind": kind, "cell": cell, "target": target, "flavor": flavor,
        "reason": reason})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_stay_are_counted_by_reason() {
        let entries = [json!({"reason": "locked"}), json!({"reason": null}), json!({"reason": "full"}), json!({"reason": "full"})];
        assert_eq!(reasons(&entries), json!([{"reason": "full", "servers": 2}, {"reason": "locked", "servers": 1}]));
    }
}
