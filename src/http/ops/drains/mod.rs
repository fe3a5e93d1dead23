//! `/ops/v1/drains`: an operator moves all servers off a host or a cell.

pub(super) mod request;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::cells::instant;
use super::names::of_servers;
use super::{Catalog, Operators, Shared, next_page};
use crate::db::DbError;
use crate::domain::drain::{Counts, Destination, Drain, DrainPlan, DrainReason, DrainServer, DrainServerState, DrainState};
use crate::domain::reason;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, not_found};
use crate::http::compute::servers::access::refused;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::reconcilers::drains::outlook::time_left;
use crate::reconcilers::drains::preview::preview;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

const RULE: &str = "ops:drains";
/// The maximum number of reasons in an answer.
const REASONS_MAX: usize = 100;

/// Answers `POST /drains`: 202 with the drain, or 200 with what it would do if the caller only tries it.
pub async fn create(Call { api: operators, catalog, caller, .. }: Call<Operators>, body: Document, world: Shared<World>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let demand = request::read(&caller, &body, &catalog, &world).await?;
    if demand.dry_run {
        let mut answer = request_fields(&demand.plan);
        answer.insert("dry_run".to_owned(), json!(true));
        answer.extend(preview(&world, &demand.plan).await.map_err(|error| refused(Refusal::from(error)))?);
        return Ok(HttpResponse::Ok().json(answer));
    }
    let id = world.env.uuid();
    operators.operations.create_drain(id, demand.plan).await.map_err(|error| match error {
        DbError::Conflict(why) => conflict(why),
        other => other.into(),
    })?;
    answer(&operators, id, StatusCode::ACCEPTED).await
}

/// The requested page of drains.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<u32>,
    marker: Option<Uuid>,
}

/// Answers `GET /drains`, newest first.
pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let size = operators.page_size(query.limit);
    let page = operators.operations.drains(query.marker, size.into()).await.map_err(|error| match error {
        DbError::NotFound(_) => bad_request("The marker is not a drain."),
        other => other.into(),
    })?;
    let ids: Vec<Uuid> = page.iter().map(|drain| drain.id).collect();
    let mut views: Vec<Value> = Vec::new();
    for drain in &page {
        views.push(view(drain, &operators.operations.drain_counts(drain.id).await?).into());
    }
    let mut body = json!({ "drains": views });
    if let Some(next) = next_page(&request, size, &ids, &[]) {
        body["drains_links"] = next;
    }
    Ok(HttpResponse::Ok().json(body))
}

/// Answers `GET /drains/{id}`.
pub async fn show(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>) -> Answer {
    catalog.allow(&caller, RULE)?;
    answer(&operators, parsed(&id)?, StatusCode::OK).await
}

/// The requested page of a drain's servers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServersQuery {
    state: Option<String>,
    limit: Option<u32>,
    marker: Option<Uuid>,
}

/// Answers `GET /drains/{id}/servers`, by uuid.
pub async fn servers(
    Call { request, api: operators, catalog, caller, .. }: Call<Operators>,
    id: web::Path<String>,
    query: web::Query<ServersQuery>,
) -> Answer {
    catalog.allow(&caller, RULE)?;
    let drain = existing(&operators, parsed(&id)?).await?;
    let state = match query.state.as_deref() {
        None => None,
        Some(text) => Some(DrainServerState::parse(text).ok_or_else(|| {
            let states = DrainServerState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
            bad_request(format!("{text:?} is no state of a drain's server: it must be one of {states}"))
        })?),
    };
    let size = operators.page_size(query.limit);
    let page = operators.operations.drain_servers(drain.id, state, query.marker, size.into()).await?;
    let ids: Vec<Uuid> = page.iter().map(|server| server.server).collect();
    let names = of_servers(&catalog, &operators, &ids).await?;
    let views: Vec<Value> = page.iter().map(|server| server_view(server, names.get(&server.server))).collect();
    let mut body = json!({ "servers": views });
    if let Some(next) = next_page(&request, size, &ids, &[("state", query.state.clone())]) {
        body["servers_links"] = next;
    }
    Ok(HttpResponse::Ok().json(body))
}

/// Answers `POST /drains/{id}/pause`: no more moves begin, and those in flight end.
pub async fn pause(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>) -> Answer {
    change(&caller, &id, (&catalog, &operators), &[DrainState::Running], DrainState::Paused).await
}

/// Answers `POST /drains/{id}/resume`.
pub async fn resume(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>) -> Answer {
    change(&caller, &id, (&catalog, &operators), &[DrainState::Paused], DrainState::Running).await
}

/// Answers `POST /drains/{id}/cancel`: no more moves begin, and those in flight end. The hosts stay disabled.
pub async fn cancel(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>) -> Answer {
    let from = &[DrainState::Running, DrainState::Paused];
    change(&caller, &id, (&catalog, &operators), from, DrainState::Cancelled).await
}

/// Answers `POST /drains/{id}/undo`: moves in flight are cancelled, and the hosts that the drain disabled are enabled, also after its end.
pub async fn undo(Call { api: operators, catalog, caller, .. }: Call<Operators>, id: web::Path<String>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let id = parsed(&id)?;
    operators.operations.undo_drain(id).await.map_err(|error| match error {
        DbError::NotFound(_) => no_such(id),
        DbError::Conflict(why) => conflict(why),
        other => other.into(),
    })?;
    answer(&operators, id, StatusCode::ACCEPTED).await
}

async fn change(
    caller: &Caller,
    id: &str,
    (catalog, operators): (&Catalog, &Operators),
    from: &'static [DrainState],
    to: DrainState,
) -> Answer {
    catalog.allow(caller, RULE)?;
    let id = parsed(id)?;
    operators.operations.change_drain(id, from, to).await.map_err(|error| match error {
        DbError::NotFound(_) => no_such(id),
        DbError::Conflict(why) => conflict(reason!("{why} It cannot become {to}.")),
        other => other.into(),
    })?;
    answer(operators, id, StatusCode::OK).await
}

fn parsed(id: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(id).map_err(|_| no_such(id))
}

fn no_such(id: impl std::fmt::Display) -> ApiError {
    not_found(format!("Drain {id} could not be found."))
}

async fn existing(operators: &Operators, id: Uuid) -> Result<Drain, ApiError> {
    operators.operations.drain(id).await?.ok_or_else(|| no_such(id))
}

async fn answer(operators: &Operators, id: Uuid, status: StatusCode) -> Answer {
    let drain = existing(operators, id).await?;
    let counts = operators.operations.drain_counts(id).await?;
    let mut view = view(&drain, &counts);
    let reasons = operators.operations.drain_reasons(id).await?;
    view.insert("reasons".to_owned(), reasons.iter().take(REASONS_MAX).map(reason_view).collect());
    view.insert("time".to_owned(), json!(time_left(&operators.operations, &drain, &counts).await?));
    Ok(HttpResponse::build(status).json(view))
}

/// Returns the fields of a drain's request.
fn request_fields(plan: &DrainPlan) -> Map<String, Value> {
    let (cell, cells, zone) = match &plan.to {
        Destination::Cell(name) => (Some(name), Some(std::slice::from_ref(name)), None),
        Destination::Cells(names) => (None, Some(names.as_slice()), None),
        Destination::Zone { name, .. } => (None, None, Some(name)),
    };
    let fields = [
        ("cell", json!(plan.cell)),
        ("hosts", json!(plan.hosts)),
        ("whole_cell", json!(plan.whole_cell)),
        ("to_cell", json!(cell)),
        ("to_cells", json!(cells)),
        ("to_zone", json!(zone)),
        ("flavor_map", json!(plan.flavors)),
        ("max_in_flight", json!(plan.max_in_flight)),
        ("confirm", json!(plan.confirm)),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn reason_view(reason: &DrainReason) -> Value {
    json!({"state": reason.state, "reason": reason.reason, "servers": reason.servers})
}

/// Returns the number of servers that the drain leaves on its hosts: those that were refused, and those that will not be tried any more.
fn stays(drain: &Drain, counts: &Counts) -> i64 {
    let number = |state: DrainServerState| counts.get(&state).copied().unwrap_or_default();
    let abandoned = if drain.state.is_abandoned() { number(DrainServerState::Pending) } else { 0 };
    number(DrainServerState::Refused) + abandoned
}

fn view(drain: &Drain, counts: &Counts) -> Map<String, Value> {
    let mut view = request_fields(&drain.plan);
    let own = [
        ("id", json!(drain.id)),
        ("state", json!(drain.state)),
        ("hosts_disabled", json!(drain.hosts_disabled)),
        ("reason", json!(drain.reason)),
        ("user_id", json!(drain.plan.caller.user_id)),
        ("request_id", json!(drain.plan.caller.request_id)),
        ("created_at", json!(instant(drain.created_at))),
        ("updated_at", json!(instant(drain.updated_at))),
        ("stays", json!(stays(drain, counts))),
        ("servers", counts.iter().map(|(state, count)| (state.to_string(), json!(count))).collect::<Map<_, _>>().into()),
    ];
    view.extend(own.into_iter().map(|(key, value)| (key.to_owned(), value)));
    view
}

fn server_view(server: &DrainServer, name: Option<&String>) -> Value {
    json!({
        "server": server.server,
        "name": name,
        "host": server.host,
        "state": server.state,
        "kind": server.kind,
        "target": server.target,
        "migration": server.operation,
        "confirm": server.confirm,
        "tries": server.tries,
        "next_try_at": server.next_try_at.map(instant),
        "reason": server.reason,
        "updated_at": instant(server.updated_at),
    })
}
