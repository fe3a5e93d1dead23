//! Removes the service of a host that is gone for good. Refused while the host has servers or takes part in a move.

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::migration::{MigrationFilter, MigrationStatus};
use crate::domain::service::Service;
use crate::http::auth::Caller;
use crate::http::compute::aggregates::leave_in_placement;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, not_found};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::zones::COMPUTE;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;

/// Answers `DELETE /os-services/{id}`.
pub async fn remove(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-services:delete")?;
    let (cell, service) = if version.at_least(53) { by_uuid(&api, &id).await? } else { by_number(&api, &id).await? };
    match service.binary == COMPUTE {
        true => remove_host(&api, cell, &service.host, Some(service.uuid)).await?,
        false => api.ask(cell, |db| db.remove_service(service.uuid, &service.host)).await?,
    }
    empty(StatusCode::NO_CONTENT)
}

/// Removes a host with its compute service, if it has one, from its cell, from placement and from its aggregates. Answers 409 while the host
/// is in use. Can be repeated.
pub(in crate::http) async fn remove_host(api: &Catalog, cell: &CellHandle, host: &str, service: Option<Uuid>) -> Result<(), ApiError> {
    refuse_while_in_use(api, cell, host).await?;
    forget_host(api, cell, host).await?;
    match service {
        Some(service) => Ok(api.ask(cell, |db| db.remove_service(service, host)).await?),
        None => Ok(()),
    }
}

async fn by_uuid<'a>(api: &'a Catalog, id: &str) -> Result<(&'a CellHandle, Service), ApiError> {
    let uuid = Uuid::parse_str(id).map_err(|_| bad_request(format!("Invalid uuid {id}")))?;
    Ok(api.find(|cell| cell.service(uuid)).await?)
}

/// Finds a service by its id in a cell's database. Several cells may have this id, so all cells must answer.
async fn by_number<'a>(api: &'a Catalog, id: &str) -> Result<(&'a CellHandle, Service), ApiError> {
    let number: i32 = id.parse().map_err(|_| bad_request(format!("Invalid id {id}: it is not a number.")))?;
    let mut services = Vec::new();
    for heard in api.ask_cells(|cell| cell.services()).await {
        services.extend(heard.answer?.into_iter().filter(|service| service.id == number).map(|service| (heard.cell, service)));
    }
    match services.len() {
        0 => Err(not_found(format!("Service {id} not found."))),
        1 => Ok(services.remove(0)),
        _ => Err(bad_request(format!("Service id {id} refers to multiple services."))),
    }
}

/// Answers 409 while the host has servers, hidden copies included, or takes part in a move, or anything is allocated from it. Placement
/// is asked too: an operation claims room there before it writes any other record, and a cell with a part of a move may be silent.
async fn refuse_while_in_use(api: &Catalog, cell: &CellHandle, host: &str) -> Result<(), ApiError> {
    if !api.ask(cell, |db| db.instances_on_host(host)).await?.is_empty() {
        return Err(conflict("Unable to delete compute service that is hosting instances. Migrate or delete the instances first."));
    }
    // An evacuation that is `done` holds room here until the host is cleaned up.
    let live: Vec<MigrationStatus> = MigrationStatus::LIVE.into_iter().chain([MigrationStatus::Done]).collect();
    let here = api.ask(cell, |db| db.migrations(involving(host, &live))).await?;
    let anywhere = api.gather_named(|cell| cell.migrations(involving(host, &live))).await;
    if !here.is_empty() || !anywhere.rows.is_empty() {
        return Err(conflict(
            "Unable to delete compute service that has in-progress migrations. Complete the migrations or delete the instances first.",
        ));
    }
    if is_claimed(api, host).await? {
        return Err(conflict(format!(
            "Unable to delete compute service that has in-progress migrations or servers in the making: placement has allocations on {host}. Wait \
             until they end; if nothing is under way, delete the allocations that GET /placement/resource_providers/{{uuid}}/allocations names."
        )));
    }
    Ok(())
}

/// True if anything is allocated from the host.
async fn is_claimed(api: &Catalog, host: &str) -> Result<bool, ApiError> {
    let providers = api.placement.providers().await.map_err(placement_error)?;
    let mut used = providers.iter().filter(|provider| provider.name == host).flat_map(|provider| provider.usages.values());
    Ok(used.any(|used| *used > 0))
}

fn placement_error(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Compute, error)
}

fn involving(host: &str, statuses: &[MigrationStatus]) -> MigrationFilter {
    MigrationFilter { host: Some(host.to_owned()), statuses: statuses.to_vec(), ..MigrationFilter::default() }
}

/// Removes the host from its aggregates, from placement and from its cell.
async fn forget_host(api: &Catalog, cell: &CellHandle, host: &str) -> Result<(), ApiError> {
    for aggregate in api.api.aggregates().await?.iter().filter(|aggregate| aggregate.hosts.contains(host)) {
        leave_in_placement(api, aggregate, host).await?;
        match api.api.remove_aggregate_host(aggregate.id, host).await {
            Ok(_) | Err(DbError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for node in api.ask(cell, |db| db.compute_nodes()).await?.iter().filter(|node| node.host == host) {
        api.placement.ensure_children(node.uuid, Vec::new()).await.map_err(placement_error)?;
        // Without inventories nothing can be allocated from it.
        api.placement.empty_provider(node.uuid).await.map_err(placement_error)?;
    }
    Ok(api.api.unmap_host(host).await?)
}
