//! `GET /ops/v1/servers/{id}/destinations`: where a server could move now, and which rule refuses each other host.

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::Catalog;
use super::unknown::near_host;
use crate::db::DbError;
use crate::domain::flavor::{Flavor, FlavorScope};
use crate::domain::instance::Instance;
use crate::domain::nearest::did_you_mean;
use crate::domain::policy::Target;
use crate::domain::reason;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{bad_request, conflict, unavailable};
use crate::http::compute::servers::access::{no_such_server, refused};
use crate::http::error::ApiError;
use crate::saga::accept;
use crate::saga::scheduling::{OperationKind, RequestedDestination, SchedulingError, SelectDestinations, SourceHost};
use crate::saga::steps::port_shares::requests_of;
use crate::saga::world::{CELL0, World};

/// The policy rule that lets a move leave its cell.
pub(super) const CROSS_CELL: &str = "compute:servers:resize:cross_cell";

/// The move to explain: a resize if a flavor is given, else a migration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// A flavor's id or name.
    flavor: Option<String>,
    /// The only host that the caller wants.
    host: Option<String>,
}

pub async fn show(
    Call { api: world, catalog, caller, .. }: Call<World>,
    id: web::Path<String>,
    query: web::Query<ExplainQuery>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:destinations")?;
    let server = Uuid::parse_str(&id).map_err(|_| no_such_server(&id))?;
    let (cell, instance) = accept::find(&world, server).await.map_err(refused)?;
    let Some(host) = instance.host.clone().filter(|_| cell.as_str() != CELL0) else {
        return Err(conflict(format!("Instance {server} has no host.")));
    };
    if let Some(name) = &query.host
        && world.api.host_mapping(name).await.is_err_and(|error| matches!(error, DbError::NotFound(_)))
    {
        return Err(bad_request(format!("Compute host {name} could not be found.{}", near_host(&catalog, name))));
    }
    let flavor = match &query.flavor {
        Some(name) => flavor_called(&world, name).await?,
        None => instance.flavor.clone(),
    };
    let spec = world.api.request_spec(server).await?;
    let allowed = may_leave_cell(&catalog, &caller, &instance);
    let port_requests = requests_of(&world, server).await.map_err(|error| unavailable(reason!("{error}")))?;
    let destination = RequestedDestination::of_move(&cell, query.host.clone(), allowed);
    let resources = flavor.resources(instance.is_volume_backed());
    let name = flavor.name.clone();
    let spec = crate::domain::request_spec::RequestSpec { flavor, ..spec };
    let question = SelectDestinations {
        operation: if query.flavor.is_some() { OperationKind::Resize } else { OperationKind::Migrate },
        port_requests,
        ..SelectDestinations::of_move(spec, resources, SourceHost { cell: cell.clone(), host: host.clone() }, destination)
    };
    let explanation = world.scheduling.explain(question, Vec::new()).await.map_err(not_explained)?;
    Ok(HttpResponse::Ok().json(json!({
        "server": server,
        "name": instance.display_name,
        "cell": cell,
        "host": host,
        "flavor": name,
        "may_leave_cell": allowed,
        "destinations": explanation.destinations,
        "silent_cells": explanation.silent_cells,
    })))
}

/// Returns the flavor with this id, or the only flavor with this name.
pub(super) async fn flavor_called(world: &World, name: &str) -> Result<Flavor, ApiError> {
    match world.api.flavor(name).await {
        Ok(record) => return Ok(record.flavor),
        Err(DbError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let flavors = world.api.flavors(FlavorScope::All).await?;
    let near = did_you_mean(name, flavors.iter().map(|record| record.flavor.name.as_str()));
    let named = flavors.into_iter().find(|record| record.flavor.name == name);
    named.map(|record| record.flavor).ok_or_else(|| bad_request(format!("Flavor {name} could not be found.{near}")))
}

/// True if policy lets a move that the caller requests leave the cell.
fn may_leave_cell(catalog: &Catalog, caller: &Caller, instance: &Instance) -> bool {
    let target = Target { project_id: &instance.project_id, user_id: &instance.user_id };
    catalog.policy.check(CROSS_CELL, &caller.0, &target)
}

fn not_explained(error: SchedulingError) -> ApiError {
    match error {
        SchedulingError::Invalid { reason } | SchedulingError::NoValidHost { reason } => bad_request(reason),
        error @ (SchedulingError::Unavailable { .. } | SchedulingError::Stale { .. }) => unavailable(reason!("{error}")),
    }
}
