//! `GET /ops/v1/migrations[/{uuid}]`: sagas as operators see them, and one saga's journal.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Operators, next_page};
use crate::db::DbError;
use crate::domain::debt::Debt;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::saga_record::{JournalEntry, SagaFilter, SagaRecord, UnknownTable, mark_of_request};
use crate::domain::saga_state::SagaState;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, not_found};
use crate::http::error::ApiError;
use crate::saga::context::{Context, Kind};
use crate::saga::migration_view::MigrationView;
use crate::saga::step::{Class, Table};
use crate::saga::tables::{self, Tables};

/// Operations that wait for an operator in one list.
const WAITING_MAX: i64 = 1000;
/// The maximum time for a host to report the progress of a copy. A host that does not answer in time has none.
const PROGRESS_PATIENCE: Duration = Duration::from_secs(1);

/// The filters of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    status: Option<String>,
    server: Option<Uuid>,
    /// Kinds of operations, with commas between them.
    saga: Option<String>,
    owing: Option<bool>,
    /// The id of the request that began the operation.
    request: Option<String>,
    limit: Option<u32>,
    marker: Option<Uuid>,
}

pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, "ops:migrations")?;
    if let Some(status) = query.status.as_deref().filter(|status| SagaState::parse(status).is_none()) {
        let states = SagaState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
        return Err(bad_request(format!("{status:?} is no state of a migration: it must be one of {states}")));
    }
    let kinds = kinds(query.saga.as_deref())?;
    check_request_id(query.request.as_deref())?;
    operators.recent.answer(&request, listed(&request, &query, kinds, &operators)).await
}

async fn listed(request: &HttpRequest, query: &ListQuery, kinds: Vec<String>, operators: &Operators) -> Result<Value, ApiError> {
    let size = operators.page_size(query.limit);
    let debts = operators.operations.debts(None).await?;
    let page = page(operators, query, kinds, &debts, size).await?;
    let ids: Vec<Uuid> = page.iter().map(|saga| saga.id).collect();
    let views = views(operators, &page, &debts).await?;
    // A saga that needs an operator has this state, even if its record has another.
    let views: Vec<_> = views.into_iter().filter(|view| query.status.as_ref().is_none_or(|status| *status == view.state)).collect();
    let mut body = json!({ "migrations": views });
    let filters = [
        ("status", query.status.clone()),
        ("server", query.server.map(|server| server.to_string())),
        ("saga", query.saga.clone()),
        ("owing", query.owing.map(|owing| owing.to_string())),
        ("request", query.request.clone()),
    ];
    if let Some(next) = next_page(request, size, &ids, &filters) {
        body["migrations_links"] = next;
    }
    Ok(body)
}

/// Returns the requested kinds; empty if all are requested.
fn kinds(names: Option<&str>) -> Result<Vec<String>, ApiError> {
    let kinds: Vec<String> = names.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
    match kinds.iter().find(|kind| Kind::parse(kind).is_none()) {
        Some(unknown) => {
            let all = Kind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
            Err(bad_request(format!("{unknown:?} is no kind of operation: it must be one of {all}")))
        }
        None => Ok(kinds),
    }
}

/// Answers 400 for a text that is no request's id: `req-` and a UUID.
fn check_request_id(text: Option<&str>) -> Result<(), ApiError> {
    let is_id = |text: &str| text.strip_prefix("req-").is_some_and(|id| Uuid::parse_str(id).is_ok());
    match text.filter(|text| !is_id(text)) {
        Some(text) => Err(bad_request(format!("{text:?} is no request's id: it must be req- and a UUID"))),
        None => Ok(()),
    }
}

/// Returns the records of a page, newest first.
async fn page(
    operators: &Operators,
    query: &ListQuery,
    kinds: Vec<String>,
    debts: &[Debt],
    limit: u32,
) -> Result<Vec<SagaRecord>, ApiError> {
    let state = query.status.as_deref().and_then(SagaState::parse);
    let owing = query.owing == Some(true);
    let request = query.request.clone();
    if state != Some(SagaState::NeedsOperator) {
        let filter = SagaFilter { server: query.server, state, kinds, owing, request, marker: query.marker, limit: limit.into() };
        return operators.operations.list(filter).await.map_err(|error| match error {
            DbError::NotFound(_) => bad_request("The marker is not a migration."),
            other => other.into(),
        });
    }
    // Few operations need an operator: their journals cannot be read, or their debts say so.
    let parked =
        SagaFilter { server: query.server, state, kinds: kinds.clone(), owing, request, limit: WAITING_MAX, ..SagaFilter::default() };
    let mut sagas = operators.operations.list(parked).await?;
    let mut owing: Vec<Uuid> = debts.iter().filter(|debt| debt.needs_operator).map(|debt| debt.saga).collect();
    owing.sort();
    owing.dedup();
    owing.retain(|id| sagas.iter().all(|saga| saga.id != *id));
    for id in owing {
        let fits = |saga: &SagaRecord| {
            query.server.is_none_or(|server| saga.server == server)
                && (kinds.is_empty() || kinds.contains(&saga.kind))
                && query.request.as_ref().is_none_or(|request| saga.context.contains(&mark_of_request(request)))
        };
        sagas.extend(operators.operations.saga(id).await?.filter(fits));
    }
    sagas.sort_by_key(|saga| std::cmp::Reverse((saga.created_at, saga.id)));
    let after = match query.marker {
        None => 0,
        Some(marker) => {
            1 + sagas.iter().position(|saga| saga.id == marker).ok_or_else(|| bad_request("The marker is not in this list."))?
        }
    };
    Ok(sagas.into_iter().skip(after).take(limit as usize).collect())
}

pub async fn show(Call { api: operators, catalog, caller, .. }: Call<Operators>, uuid: web::Path<Uuid>) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:migrations")?;
    let saga = operators.operations.saga(*uuid).await?;
    let saga = saga.ok_or_else(|| not_found(format!("Migration {uuid} could not be found.")))?;
    let debts = operators.operations.debts(Some(saga.server)).await?;
    let entries = operators.operations.entries(saga.id).await?;
    let view = view(&operators, &saga, &entries, &debts).await;
    Ok(HttpResponse::Ok().json(view.with_steps(&entries).with_plan(plan(&saga))))
}

/// Returns these operations as a list has them, without those that are gone.
pub(super) async fn views_of(operators: &Operators, ids: BTreeSet<Uuid>) -> Result<Vec<MigrationView>, ApiError> {
    let debts = operators.operations.debts(None).await?;
    let sagas = operators.operations.sagas(ids.into_iter().collect()).await?;
    views(operators, &sagas, &debts).await
}

/// Returns these operations as a list has them. The journal of one that is done adds nothing.
async fn views(operators: &Operators, sagas: &[SagaRecord], debts: &[Debt]) -> Result<Vec<MigrationView>, ApiError> {
    let open = sagas.iter().filter(|saga| saga.state != SagaState::Done).map(|saga| saga.id).collect();
    let journals = operators.operations.journals(open).await?;
    let views = sagas.iter().map(|saga| view(operators, saga, journals.get(&saga.id).map_or(&[], Vec::as_slice), debts));
    Ok(join_all(views).await)
}

async fn view(operators: &Operators, saga: &SagaRecord, entries: &[JournalEntry], debts: &[Debt]) -> MigrationView {
    // An operation that this release cannot read is shown all the same.
    let context: Option<Context> = serde_json::from_str(&saga.context).ok();
    let copied = match &context {
        Some(context) if saga.state == SagaState::Running => copied(operators, context).await,
        _ => None,
    };
    let table = context.as_ref().and_then(|context| table_of(saga, context));
    let mut view = MigrationView::of(saga, entries, debts, table.as_ref().map_or(0, |table| table.steps.len()), copied);
    if !saga.state.is_over() && !tables::is_known(&saga.kind, saga.table_version) {
        view.reason = Some(UnknownTable { kind: saga.kind.clone(), version: saga.table_version }.reason());
    }
    if let Some(context) = &context {
        let pivot = table.and_then(|table| table.steps.iter().find(|step| step.class == Class::Pivot));
        view = view.with_places(context.source.as_ref(), context.target.as_ref(), pivot.map(|step| step.name.as_str().to_owned()));
        view = view.with_server(&context.display_name, context.old_flavor.as_ref(), context.new_flavor.as_ref());
    }
    view
}

/// Returns the table of an operation; none if this release does not know it.
fn table_of(saga: &SagaRecord, context: &Context) -> Option<Table> {
    Some(Tables::released(context.kind, saga.table_version)?.of(context))
}

/// Returns the names of an operation's steps; none if this release cannot read the operation.
fn plan(saga: &SagaRecord) -> Option<Vec<String>> {
    let context: Context = serde_json::from_str(&saga.context).ok()?;
    Some(table_of(saga, &context)?.steps.iter().map(|step| step.name.as_str().to_owned()).collect())
}

/// Returns the bytes that the hosts of a move have copied in the present step, and all bytes to copy.
async fn copied(operators: &Operators, context: &Context) -> Option<(u64, u64)> {
    let places = [&context.source, &context.target].into_iter().flatten();
    let questions = places.map(|place| {
        let query = HostQuery::Progress { operation: context.saga };
        operators.hosts.query(&place.cell, &place.host, query, PROGRESS_PATIENCE)
    });
    let answers = join_all(questions).await;
    let moved = answers.into_iter().filter_map(|answer| match answer {
        Ok(HostAnswer::Progress { done, total }) if total > 0 => Some((done, total)),
        _ => None,
    });
    moved.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
}
