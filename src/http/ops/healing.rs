//! `/ops/v1/servers/unhealed` and `/ops/v1/servers/{id}/heal`: servers whose allocations do not fit what their flavors and ports ask for.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Shared;
use super::unknown::no_cell;
use crate::db::DbError;
use crate::domain::instance::Instance;
use crate::domain::reason;
use crate::domain::request_spec::RequestSpec;
use crate::http::call::Call;
use crate::http::compute::answer::{bad_request, unavailable};
use crate::http::compute::servers::ComputeApi;
use crate::http::compute::servers::access::{no_such_server, refused};
use crate::http::error::ApiError;
use crate::saga::accept;
use crate::saga::context::{HealPlan, Place, Request};
use crate::saga::refusal::Refusal;
use crate::saga::tables::heal::{HealRecords, own_amounts, plan_over};
use crate::saga::world::{CELL0, World};
use crate::services::ServiceError;
use crate::services::network::Port;
use crate::services::placement::tree::Tree;
use crate::services::placement::{Allocations, Provider};

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
    Call { api: world, catalog, caller, .. }: Call<World>,
    query: web::Query<WhichServers>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, RULE)?;
    if let Some(cell) = query.cell.as_ref().filter(|cell| !world.cells.contains_key(*cell)) {
        return Err(bad_request(no_cell(&catalog, cell)));
    }
    if let Some(server) = query.server {
        match world.api.instance_mapping(server).await {
            Err(DbError::NotFound(_)) => return Err(no_such_server(&server.to_string())),
            mapping => drop(mapping.map_err(|error| refused(error.into()))?),
        }
    }
    let survey = Survey::of(&world, query.server).await?;
    let mut servers = Vec::new();
    for (cell, instance) in survey.servers(&world, query.cell.as_deref()).await? {
        servers.extend(survey.look(&cell, &instance));
    }
    Ok(HttpResponse::Ok().json(json!({ "servers": servers })))
}

/// Everything that the plans of many servers need, read with one question to each service and each cell.
struct Survey {
    /// The server to look at; none for all.
    only: Option<Uuid>,
    ports: BTreeMap<Uuid, Vec<Port>>,
    held: BTreeMap<Uuid, Allocations>,
    /// The request specs of servers whose ports ask for resources.
    specs: BTreeMap<Uuid, RequestSpec>,
    /// The providers of each host's tree, by the host's provider.
    trees: BTreeMap<Uuid, Vec<(Provider, Option<Uuid>)>>,
    names: BTreeMap<Uuid, String>,
}

impl Survey {
    /// Reads what is needed for one server, or for all.
    async fn of(world: &World, only: Option<Uuid>) -> Result<Survey, ApiError> {
        let silent = |error: ServiceError| unavailable(reason!("{error}"));
        let mut ports: BTreeMap<Uuid, Vec<Port>> = BTreeMap::new();
        for port in world.network.ports_in_use().await.map_err(silent)? {
            if let Some(server) = port.server.filter(|server| only.is_none_or(|only| only == *server)) {
                ports.entry(server).or_default().push(port);
            }
        }
        let held: BTreeMap<Uuid, Allocations> =
            world.placement.all_allocations().await.map_err(silent)?.into_iter().map(|held| (held.consumer, held)).collect();
        let all = world.placement.trees(None).await.map_err(silent)?;
        let names = all.iter().map(|(provider, _)| (provider.uuid, provider.name.clone())).collect();
        let roots = Tree::of(all.clone());
        let mut trees: BTreeMap<Uuid, Vec<(Provider, Option<Uuid>)>> = BTreeMap::new();
        for (provider, parent) in all {
            trees.entry(roots.root(provider.uuid)).or_default().push((provider, parent));
        }
        let asks = |ports: &[Port]| ports.iter().any(|port| port.resource_request.is_some());
        let asking = ports.iter().filter(|(_, ports)| asks(ports)).map(|(server, _)| *server).collect();
        let specs = world.api.request_specs(asking).await.map_err(|error| refused(error.into()))?;
        Ok(Survey { only, ports, held, specs, trees, names })
    }

    /// Returns the servers at rest that have a host, with their places, cell by cell.
    async fn servers(&self, world: &World, only: Option<&str>) -> Result<Vec<(Place, Instance)>, ApiError> {
        let failed = |error: DbError| refused(error.into());
        let home = match self.only {
            Some(server) => match accept::find(world, server).await {
                Ok((cell, _)) => Some(cell),
                // There is no such server on a host.
                Err(Refusal::NotFound(_) | Refusal::Conflict(_)) => return Ok(Vec::new()),
                Err(other) => return Err(refused(other)),
            },
            None => None,
        };
        let mut servers = Vec::new();
        for name in world.cells.keys() {
            let is_left_out = name == CELL0 || only.is_some_and(|only| only != name) || home.as_ref().is_some_and(|home| home != name);
            if is_left_out {
                continue;
            }
            let db = world.cell(name).map_err(|error| refused(error.into()))?;
            let nodes: BTreeMap<String, Uuid> =
                db.compute_nodes().await.map_err(failed)?.into_iter().map(|node| (node.host, node.uuid)).collect();
            let instances = match self.only {
                Some(server) => db.instances_of(vec![server]).await.map_err(failed)?,
                None => db.servers_at_rest_on_hosts().await.map_err(failed)?,
            };
            for instance in instances {
                let Some((host, provider)) = instance.host.clone().and_then(|host| Some((host.clone(), *nodes.get(&host)?))) else {
                    continue;
                };
                let place = Place { cell: name.clone(), host: host.clone(), node: host, provider, availability_zone: None };
                servers.push((place, instance));
            }
        }
        servers.sort_by_key(|(_, instance)| instance.uuid);
        Ok(servers)
    }

    /// Looks at one server. None if it needs nothing.
    fn look(&self, here: &Place, instance: &Instance) -> Option<Value> {
        let server = instance.uuid;
        let named = json!({"server": server, "name": instance.display_name, "cell": here.cell, "host": here.host});
        let held = self.held.get(&server);
        let records = HealRecords {
            held: held.cloned(),
            ports: self.ports.get(&server).cloned().unwrap_or_default(),
            tree: self.trees.get(&here.provider).cloned().unwrap_or_default(),
            spec: self.specs.get(&server),
            own: own_amounts(&instance.flavor, instance.is_volume_backed()),
        };
        match plan_over(server, here, records) {
            Ok(plan) if !plan.changes() => None,
            Ok(plan) => Some(with(named, "changes", self.changes(&plan))),
            Err(why) => Some(with(named, "obstacle", json!(why))),
        }
    }

    /// Returns the amounts that the server would hold more or less of each provider.
    fn changes(&self, plan: &HealPlan) -> Value {
        let name = |id: &Uuid| self.names.get(id).cloned().unwrap_or_else(|| id.to_string());
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
        json!({"amounts": amounts, "ports": ports})
    }
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

/// Answers `POST /servers/{id}/heal`: 202 with the operation.
pub async fn heal(
    Call { api: world, catalog, caller, .. }: Call<World>,
    id: web::Path<String>,
    api: Shared<ComputeApi>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, RULE)?;
    let server = Uuid::parse_str(&id).map_err(|_| no_such_server(&id))?;
    let (_, instance) = accept::find(&world, server).await.map_err(refused)?;
    let migration = api.begin(&caller.0, &instance, Request::Heal).await?;
    Ok(HttpResponse::build(StatusCode::ACCEPTED).json(json!({ "migration": migration })))
}
