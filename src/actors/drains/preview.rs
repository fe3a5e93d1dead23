//! A drain that is only tried on paper: where each server could go now. Nothing is started or recorded.

use serde_json::{Value, json};

use super::choice::{self, Avoid, NoChoice};
use crate::db::cell::instances::Instance;
use crate::domain::drain::DrainPlan;
use crate::domain::inside;
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
    Ok(entries)
}

async fn entry(world: &World, plan: &DrainPlan, host: &str, server: &Instance) -> Value {
    let chosen = match choice::obstacle(server) {
        Some(why) => Err(why),
        None => choice::choose(world, plan, &plan.cell, server, &Avoid::default()).await.map_err(|none| match none {
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
