//! A drain that is only tried on paper: where each server could go now. Nothing is started or recorded.

use serde_json::{Value, json};

use super::choice::{self, Avoid, NoChoice};
use super::waiting::{WAITS, Waiting, left_by_moves};
use crate::db::cell::instances::Instance;
use crate::domain::drain::DrainPlan;
use crate::domain::inside;
use crate::domain::server::{PowerState, VmState};
use crate::saga::error::StepError;
use crate::saga::world::World;

/// Returns an entry per server of the plan's hosts. Each server is looked at as if it moved alone.
pub async fn preview(world: &World, plan: &DrainPlan) -> Result<Vec<Value>, StepError> {
    let mut entries = Vec::new();
    for host in &plan.hosts {
        for server in world.cell(&plan.cell)?.instances_on_host(host).await?.into_iter().filter(|server| !server.hidden) {
            entries.push(entry(world, plan, host, &server).await);
        }
    }
    entries.extend(left_by_moves(world, plan).await?.iter().map(|(waiting, host)| waits(plan, waiting, host)));
    Ok(entries)
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

/// Returns a server that waits for a confirm as it is after that.
fn confirmed(server: &Instance) -> Instance {
    let vm_state = if server.power_state == PowerState::Running { VmState::Active } else { VmState::Stopped };
    Instance { vm_state, ..server.clone() }
}

async fn entry(world: &World, plan: &DrainPlan, host: &str, server: &Instance) -> Value {
    let after_confirm = (plan.confirm_others && server.vm_state == VmState::Resized).then(|| confirmed(server));
    let looked_at = after_confirm.as_ref().unwrap_or(server);
    let chosen = match choice::obstacle(looked_at) {
        Some(why) => Err(why),
        None => choice::choose(world, plan, &plan.cell, looked_at, &Avoid::default()).await.map_err(|none| match none {
            NoChoice::Refused(why) | NoChoice::Silent(why) => inside::opened(&why),
        }),
    };
    let mut entry = json!({"server": server.uuid, "name": server.display_name, "host": host});
    let (kind, cell, target, flavor, reason) = match chosen {
        Ok(chosen) => {
            let flavor = chosen.flavor.map_or_else(|| server.flavor.name.clone(), |flavor| flavor.name);
            (Some(chosen.kind), Some(chosen.cell), Some(chosen.host), Some(flavor), None)
        }
        Err(why) => (None, None, None, None, Some(why)),
    };
    entry["kind"] = json!(kind);
    entry["cell"] = json!(cell);
    entry["target"] = json!(target);
    entry["flavor"] = json!(flavor);
    entry["reason"] = json!(reason);
    entry
}
