//! `/ops/v1/server-groups/{id}/moves`: moves all members of a server group to one host, together.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::unknown::{near_host, no_cell};
use super::{Catalog, Shared};
use crate::db::DbError;
use crate::domain::cancellation::Cancellation;
use crate::domain::counted::counted;
use crate::domain::flavor::Resources;
use crate::domain::group_move::{GroupMove, GroupMoveState, HostOfCell, MemberMove};
use crate::domain::instance::Instance;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::server::VmState;
use crate::domain::server_group::{GroupPolicy, ServerGroupRecord};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{bad_request, conflict, not_found, unavailable};
use crate::http::compute::servers::access::refused;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::reconcilers::group_moves::travels_alive;
use crate::saga::accept;
use crate::saga::refusal::Refusal;
use crate::saga::scheduling::{RequestedDestination, SelectDestinations, SourceHost};
use crate::saga::steps::port_shares::requests_of;
use crate::saga::world::{CELL0, World};
use crate::services::ServiceError;
use crate::services::placement::Provider;

/// The number of moves in a list.
const LISTED: i64 = 20;
/// The maximum number of hosts that a refusal names with its reasons.
const REASONS_MAX: usize = 20;

/// The requested move.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMove {
    /// The only host that the caller wants.
    host: Option<String>,
    /// The only cell that the caller wants.
    cell: Option<String>,
    /// True to answer what would be done, and to do nothing.
    #[serde(default)]
    dry_run: bool,
}

/// A member that is to travel.
struct Traveller {
    server: Uuid,
    cell: String,
    host: String,
    instance: Instance,
}

/// Answers `GET`: the group's moves, newest first.
pub async fn list(caller: Caller, id: web::Path<String>, catalog: Shared<Catalog>) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:group_moves")?;
    let group = group_with(&catalog, &id).await?;
    let moves = catalog.api.group_moves(Some(group.uuid), LISTED).await?;
    let entries: Vec<Value> = moves.iter().map(entry).collect();
    Ok(HttpResponse::Ok().json(json!({ "moves": entries })))
}

/// Answers `POST`: plans a move and, unless the caller only asks, records it. The periodic work carries it out.
pub async fn create(
    Call { api: world, catalog, caller, .. }: Call<World>,
    id: web::Path<String>,
    body: Json<NewMove>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:group_moves")?;
    let group = group_with(&catalog, &id).await?;
    if group.policy != GroupPolicy::Affinity {
        return Err(bad_request(format!(
            "The policy of server group {} is {}: only the members of an affinity group must move together.",
            group.uuid, group.policy
        )));
    }
    let body = body.into_inner();
    let members = travellers(&world, &group.members).await?;
    check_names(&catalog, body.host.as_deref(), body.cell.as_deref()).await?;
    let target = choose(&world, &members, body.host.as_deref(), body.cell.as_deref()).await?;
    let travelling: Vec<&Traveller> = members.iter().filter(|member| member.host != target.host).collect();
    if travelling.is_empty() {
        return Err(conflict(format!("All members of server group {} are on {} already.", group.uuid, target.host)));
    }
    let parts = members.iter().map(|one| MemberMove::new(one.server, HostOfCell { cell: one.cell.clone(), host: one.host.clone() }));
    let moving = GroupMove {
        id: world.env.uuid(),
        group: group.uuid,
        target,
        state: GroupMoveState::Reserving,
        reason: None,
        caller: caller.0.clone(),
        stop: None,
        members: parts.collect(),
    };
    if body.dry_run {
        let how = |one: &&Traveller| match travels_alive(&one.instance, &one.cell, &moving.target) {
            true => "live",
            false => "cold",
        };
        let members: Vec<Value> = travelling
            .iter()
            .map(
                |one| json!({"server": one.server, "name": one.instance.display_name, "from": one.host, "cell": one.cell, "how": how(one)}),
            )
            .collect();
        let plan = json!({"group": moving.group, "target": moving.target, "members": members});
        return Ok(HttpResponse::Ok().json(json!({ "plan": plan })));
    }
    let answer = json!({ "move": entry(&moving) });
    match world.api.create_group_move(moving).await {
        Ok(()) => Ok(HttpResponse::Accepted().json(answer)),
        Err(DbError::Conflict(_)) => Err(conflict(format!("Server group {} is moving already.", group.uuid))),
        Err(error) => Err(error.into()),
    }
}

/// Answers `POST …/stop`: the members of the group's open move come back. The periodic work brings them.
pub async fn stop(Call { api: world, catalog, caller, .. }: Call<World>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:group_moves")?;
    let group = group_with(&catalog, &id).await?;
    let wish = Cancellation::new(&caller.0, "the move of the server group is stopped", world.env.now());
    match world.api.stop_group_move(group.uuid, wish).await? {
        Some(moving) if moving.state.may_stop() => Ok(HttpResponse::Accepted().json(json!({ "move": entry(&moving) }))),
        Some(_) => Err(conflict(format!("All members of server group {} are at the target: move the group back.", group.uuid))),
        None => Err(conflict(format!("No move of server group {} is open.", group.uuid))),
    }
}

async fn group_with(catalog: &Catalog, id: &str) -> Result<ServerGroupRecord, ApiError> {
    let unknown = || not_found(format!("Instance group {id} could not be found."));
    match catalog.api.server_group(Uuid::parse_str(id).map_err(|_| unknown())?).await {
        Err(DbError::NotFound(_)) => Err(unknown()),
        group => Ok(group?),
    }
}

fn entry(moving: &GroupMove) -> Value {
    let member = |one: &MemberMove| json!({"server": one.server, "from": one.origin, "operation": one.there, "way_back": one.back});
    let members: Vec<Value> = moving.members.iter().map(member).collect();
    json!({
        "id": moving.id,
        "group": moving.group,
        "target": moving.target,
        "state": moving.state,
        "open": moving.state.is_open(),
        "reason": moving.reason.as_deref().map(|stored| Reason::read(stored).to_string()),
        "members": members,
    })
}

/// Returns the members that are on a host. 409 if one of them cannot travel now.
async fn travellers(world: &World, members: &[Uuid]) -> Result<Vec<Traveller>, ApiError> {
    let mut travellers = Vec::new();
    for server in members {
        let (cell, instance) = match accept::find(world, *server).await {
            Ok(place) => place,
            Err(Refusal::NotFound(_)) => continue,
            Err(refusal) => return Err(refused(refusal)),
        };
        let Some(host) = instance.host.clone().filter(|_| cell != CELL0) else { continue };
        if world.operations.holder(*server).await?.is_some() {
            return Err(conflict(format!("Server {server} has an operation in flight: wait for its end.")));
        }
        if !matches!(instance.vm_state, VmState::Active | VmState::Stopped) {
            return Err(conflict(format!("Server {server} is in vm_state {}: it must be active or stopped to move.", instance.vm_state)));
        }
        travellers.push(Traveller { server: *server, cell, host, instance });
    }
    match travellers.is_empty() {
        true => Err(conflict("No member of the server group is on a host.".to_owned())),
        false => Ok(travellers),
    }
}

/// Refuses a host or a cell that does not exist.
async fn check_names(catalog: &Catalog, host: Option<&str>, cell: Option<&str>) -> Result<(), ApiError> {
    if let Some(host) = host {
        catalog.cell_of_host(host).await.map_err(|error| match error {
            DbError::NotFound(_) => bad_request(format!("Compute host {host} could not be found.{}", near_host(catalog, host))),
            other => other.into(),
        })?;
    }
    match cell.filter(|cell| *cell == CELL0 || catalog.cells.iter().all(|other| other.name != *cell)) {
        Some(cell) => Err(bad_request(no_cell(catalog, cell))),
        None => Ok(()),
    }
}

/// Returns the best host that takes every member and has room for all of them. 409 if there is none.
async fn choose(world: &World, members: &[Traveller], host: Option<&str>, cell: Option<&str>) -> Result<HostOfCell, ApiError> {
    // For each host the sum of its weights and the members that would go there, or a reason against it.
    let mut verdicts: BTreeMap<HostKey, Result<(f64, Resources), String>> = BTreeMap::new();
    for member in members {
        let spec = world.api.request_spec(member.server).await?;
        let resources = member.instance.flavor.resources(member.instance.is_volume_backed());
        // The group itself is what moves, so its own rule is left out.
        let spec = crate::domain::request_spec::RequestSpec { instance_group: None, ..spec };
        let port_requests = requests_of(world, member.server).await.map_err(|error| unavailable(reason!("{error}")))?;
        let destination = RequestedDestination::of_move(&member.cell, host.map(str::to_owned), true);
        let source = SourceHost { cell: member.cell.clone(), host: member.host.clone() };
        let question = SelectDestinations { port_requests, ..SelectDestinations::of_move(spec, resources, source, destination) };
        let explanation = world.scheduling.explain(question, Vec::new()).await.map_err(|error| unavailable(reason!("{error}")))?;
        for one in explanation.destinations {
            let key = (one.cell.clone(), one.host.clone());
            let stays = member.host == one.host;
            let verdict = verdicts.entry(key).or_insert(Ok((0.0, Resources::default())));
            let Ok((weight, sum)) = verdict else { continue };
            match one.weight {
                _ if stays => {}
                Some(more) => {
                    *weight += more;
                    *sum = Resources {
                        vcpu: sum.vcpu + resources.vcpu,
                        memory_mb: sum.memory_mb + resources.memory_mb,
                        disk_gb: sum.disk_gb + resources.disk_gb,
                    };
                }
                None => {
                    let why: Vec<&str> = one.refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
                    *verdict = Err(format!("{} for server {}", why.join(", "), member.server));
                }
            }
        }
    }
    best(world, verdicts, members, host, cell).await
}

/// A cell's and a host's name.
type HostKey = (String, String);

async fn best(
    world: &World,
    verdicts: BTreeMap<HostKey, Result<(f64, Resources), String>>,
    members: &[Traveller],
    host: Option<&str>,
    cell: Option<&str>,
) -> Result<HostOfCell, ApiError> {
    let providers = world.placement.providers().await.map_err(|error: ServiceError| unavailable(reason!("{error}")))?;
    let providers: BTreeMap<&str, &Provider> = providers.iter().map(|provider| (provider.name.as_str(), provider)).collect();
    let (mut fits, mut against): (Vec<(f64, HostOfCell)>, Vec<String>) = (Vec::new(), Vec::new());
    for ((in_cell, name), verdict) in verdicts {
        let is_home = members.iter().all(|member| member.host == name);
        if host.is_some_and(|host| host != name) || cell.is_some_and(|cell| cell != in_cell) || (is_home && host.is_none()) {
            continue;
        }
        let judged = verdict.and_then(|(weight, sum)| match providers.get(name.as_str()) {
            None => Err("it has no resource provider".to_owned()),
            Some(provider) => {
                let sum = sum.by_class();
                let free = |class: &str| {
                    let used = provider.usages.get(class).copied().unwrap_or(0);
                    provider.inventories.get(class).map_or(0, |inventory| inventory.capacity() - used)
                };
                let short = sum.iter().find(|(class, amount)| **amount > 0 && **amount > free(class));
                short.map_or(Ok(weight), |(class, amount)| Err(format!("{class}: {amount} wanted for all members, {} free", free(class))))
            }
        });
        match judged {
            Ok(weight) => fits.push((weight, HostOfCell { cell: in_cell, host: name })),
            Err(why) => against.push(format!("{name}: {why}")),
        }
    }
    fits.sort_by(|(one, here), (other, there)| other.total_cmp(one).then_with(|| here.host.cmp(&there.host)));
    match fits.into_iter().next() {
        Some((_, target)) => Ok(target),
        None => {
            let more = against.len().saturating_sub(REASONS_MAX);
            against.truncate(REASONS_MAX);
            against.extend((more > 0).then(|| format!("and {more} more hosts")));
            Err(conflict(format!("No host takes {} together. {}", counted(members.len(), "member"), against.join("; "))))
        }
    }
}
