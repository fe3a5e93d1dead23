//! `/ops/v1/servers/unhealed` and `/ops/v1/servers/{id}/heal`: servers whose allocations do not fit what their ports ask for.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Catalog, Shared};
use crate::http::auth::Caller;
use crate::http::compute::answer::{bad_request, unavailable};
use crate::http::compute::servers::ComputeApi;
use crate::http::compute::servers::access::{no_such_server, refused};
use crate::http::error::ApiError;
use crate::saga::accept;
use crate::saga::context::{Context, Place, Request};
use crate::saga::error::StepError;
use crate::saga::refusal::Refusal;
use crate::saga::steps::heal_plan::{HealPlan, NETWORK};
use crate::saga::tables::heal::plan_of;
use crate::saga::world::{CELL0, World};

const RULE: &str = "ops:heal_allocations";

/// The servers to look at; all if nothing is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhichServers {
    server: Option<Uuid>,
    cell: Option<String>,
}

/// Answers `GET /servers/unhealed`: what would be changed for each server, or why it cannot be healed in place.
pub async fn list(
    caller: Caller,
    query: web::Query<WhichServers>,
    catalog: Shared<Catalog>,
    world: Shared<World>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, RULE)?;
    if let Some(cell) = query.cell.as_ref().filter(|cell| !world.cells.contains_key(*cell)) {
        return Err(bad_request(format!("Cell {cell} could not be found.")));
    }
    let servers: BTreeSet<Uuid> = match query.server {
        Some(server) => BTreeSet::from([server]),
        None => {
            let ports = world.network.ports_in_use().await.map_err(|error| unavailable(error.to_string()))?;
            let asks = |port: &crate::services::network::Port| {
                port.resource_request.is_some() || port.bindings.iter().any(|binding| binding.allocation().is_some())
            };
            let held = world.placement.all_allocations().await.map_err(|error| unavailable(error.to_string()))?;
            // A port that is gone may have left its share behind.
            let of_networks =
                held.iter().filter(|held| held.allocations.values().flat_map(BTreeMap::keys).any(|class| class.starts_with(NETWORK)));
            let asking = ports.iter().filter(|port| asks(port)).filter_map(|port| port.server);
            asking.chain(of_networks.map(|held| held.consumer)).collect()
        }
    };
    let mut found = Vec::new();
    for server in servers {
        found.extend(look(&caller, &world, server, query.cell.as_deref()).await?);
    }
    Ok(HttpResponse::Ok().json(json!({ "servers": found })))
}

/// Looks at one server. None if it needs nothing, has no host, or is in another cell.
async fn look(caller: &Caller, world: &World, server: Uuid, only: Option<&str>) -> Result<Option<Value>, ApiError> {
    let (cell, instance) = match accept::find(world, server).await {
        Ok(found) => found,
        Err(Refusal::NotFound(_)) => return Ok(None),
        Err(refusal) => return Err(refused(refusal)),
    };
    let (Some(host), true) = (instance.host.clone(), cell != CELL0 && only.is_none_or(|only| only == cell)) else { return Ok(None) };
    let node = world.node_on(&cell, &host).await.map_err(|error| refused(error.into()))?;
    let here = Place { cell: cell.clone(), host: host.clone(), node: host.clone(), provider: node.uuid, availability_zone: None };
    let mut context = Context::new(Uuid::nil(), caller.0.clone(), server, Request::Heal);
    context.request_spec = Some(world.api.request_spec(server).await?);
    let named = json!({"server": server, "name": instance.display_name, "cell": cell, "host": host});
    match plan_of(world, &context, &here).await {
        Ok(plan) if !plan.changes() => Ok(None),
        Ok(plan) => Ok(Some(with(named, "changes", changes(world, &plan).await?))),
        Err(StepError::Refused(why)) => Ok(Some(with(named, "obstacle", json!(why)))),
        Err(error) => Err(refused(error.into())),
    }
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

/// Returns the amounts that the server holds more or less of each provider.
async fn changes(world: &World, plan: &HealPlan) -> Result<Value, ApiError> {
    let providers = world.placement.providers().await.map_err(|error| unavailable(error.to_string()))?;
    let name = |id: &Uuid| providers.iter().find(|known| known.uuid == *id).map_or_else(|| id.to_string(), |known| known.name.clone());
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    for (amounts, sign) in [(&plan.after, 1), (&plan.before, -1)] {
        for (provider, classes) in amounts {
            for (class, amount) in classes {
                *sums.entry((name(provider), class.clone())).or_default() += sign * amount;
            }
        }
    }
    let sums = sums.into_iter().filter(|(_, amount)| *amount != 0);
    let amounts: Vec<Value> =
        sums.map(|((provider, class), amount)| json!({"provider": provider, "class": class, "amount": amount})).collect();
    let ports: Vec<&Uuid> = plan.keys.iter().filter(|(_, (before, after))| before != after).map(|(port, _)| port).collect();
    Ok(json!({"amounts": amounts, "ports": ports}))
}

/// Answers `POST /servers/{id}/heal`: 202 with the operation.
pub async fn heal(
    caller: Caller,
    id: web::Path<String>,
    catalog: Shared<Catalog>,
    api: Shared<ComputeApi>,
    world: Shared<World>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, RULE)?;
    let server = Uuid::parse_str(&id).map_err(|_| no_such_server(&id))?;
    let (_, instance) = accept::find(&world, server).await.map_err(refused)?;
    let migration = api.begin(&caller.0, &instance, Request::Heal).await?;
    Ok(HttpResponse::build(StatusCode::ACCEPTED).json(json!({ "migration": migration })))
}
