//! `/ops/v1/enrolments`: the hosts whose agents may speak on their cell's NATS, each with the public half of its agent's key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use cellshift_nats::Name;
use cellshift_nats::credentials::UserKey;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cells::instant;
use super::unknown::{near_host, no_cell};
use super::{Catalog, Operators, next_page};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::enrolment::Enrolment;
use crate::domain::reason;
use crate::http::base_url::escape;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, not_found, ok};
use crate::http::compute::services::remove_host;
use crate::http::compute::zones::COMPUTE;
use crate::http::error::ApiError;
use crate::http::json::Json;

/// The rule of the policy for enrolments and for the configurations that are made of them.
pub(super) const RULE: &str = "ops:enrolments";

/// The cells whose hosts are agents on NATS, as the configuration has them.
#[derive(Clone, Debug, Default)]
pub struct AgentCells {
    /// The deployment's id, which marks an agent's directory.
    pub deployment: Uuid,
    /// By the cell's name.
    pub cells: BTreeMap<String, AgentCell>,
}

/// A cell whose hosts are agents.
#[derive(Clone, Debug)]
pub struct AgentCell {
    /// The addresses of its NATS servers.
    pub servers: Vec<String>,
    /// The file with the controllers' key, if they have one.
    pub key: Option<PathBuf>,
}

impl AgentCells {
    /// Returns a cell; 409 if the configuration has no NATS for it.
    pub(super) fn of(&self, cell: &str) -> Result<&AgentCell, ApiError> {
        let missing = || conflict(format!("Cell {cell} has no agents: the configuration has no [nats.{cell}]."));
        self.cells.get(cell).ok_or_else(missing)
    }
}

/// The cell of a list, and its page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    cell: Option<String>,
    limit: Option<u32>,
    /// The last host of the page before.
    marker: Option<String>,
}

/// Answers `GET /enrolments`, in the order of the hosts' names.
pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, RULE)?;
    ok(&page(&request, &query, &operators, &catalog).await?)
}

async fn page(request: &HttpRequest, query: &ListQuery, operators: &Operators, catalog: &Catalog) -> Result<Value, ApiError> {
    let cell = match &query.cell {
        Some(name) => Some(cell_named(catalog, name).ok_or_else(|| bad_request(no_cell(catalog, name)))?.uuid),
        None => None,
    };
    let size = operators.page_size(query.limit);
    let enrolments = catalog.api.enrolments(cell, query.marker.as_deref(), size.into()).await?;
    let names: Vec<String> = enrolments.iter().map(|enrolment| escape(&enrolment.host)).collect();
    let mut body = json!({"enrolments": enrolments.iter().map(|enrolment| view(catalog, enrolment)).collect::<Vec<_>>()});
    if let Some(next) = next_page(request, size, &names, &[("cell", query.cell.as_deref().map(escape))]) {
        body["enrolments_links"] = next;
    }
    Ok(body)
}

/// The body of `PUT`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrol {
    cell: String,
    public_key: String,
}

/// Answers `PUT /enrolments/{host}`: the host is in the cell, and its agent has the key. The answer has what the agent's configuration needs.
pub async fn enrol(Call { api: operators, catalog, caller, .. }: Call<Operators>, host: web::Path<String>, body: Json<Enrol>) -> Answer {
    catalog.allow(&caller, RULE)?;
    Name::parse(&host).map_err(|error| bad_request(reason!("{error}")))?;
    UserKey::check_public(&body.public_key).map_err(|_| bad_request("public_key is not the public half of a NATS user's key."))?;
    let cell = cell_named(&catalog, &body.cell).ok_or_else(|| bad_request(no_cell(&catalog, &body.cell)))?;
    let agents = operators.agents.of(&cell.name)?;
    match catalog.cell_of_host(&host).await {
        Ok(present) if present.uuid != cell.uuid => return Err(conflict(format!("Host {host} is in {}.", present.name))),
        Ok(_) | Err(DbError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let enrolment = catalog.api.enrol(&host, cell.uuid, &body.public_key).await?;
    let mut enrolled = view(&catalog, &enrolment);
    enrolled["agent"] = json!({"deployment": operators.agents.deployment, "nats_servers": agents.servers});
    ok(&json!({ "enrolment": enrolled }))
}

/// Answers `DELETE /enrolments/{host}`: the host is removed with its service, as if it had never been there. Its agent's life is forgotten
/// with the service, so another agent may have the name later.
pub async fn remove(Call { catalog, caller, .. }: Call<Operators>, host: web::Path<String>) -> Answer {
    catalog.allow(&caller, RULE)?;
    let missing = || not_found(format!("Host {host} is not enrolled.{}", near_host(&catalog, &host)));
    let enrolment = catalog.api.enrolment(&host).await?.ok_or_else(missing)?;
    let cell = catalog.cells.iter().find(|cell| cell.uuid == enrolment.cell).ok_or_else(missing)?;
    let service = match catalog.ask(cell, |db| db.service_on(&host, COMPUTE)).await {
        Ok(service) => Some(service.uuid),
        Err(DbError::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    remove_host(&catalog, cell, &host, service).await?;
    catalog.api.remove_enrolment(&host).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Returns the cell of this name.
pub(super) fn cell_named<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a CellHandle> {
    catalog.cells.iter().find(|cell| cell.name == name)
}

fn view(catalog: &Catalog, enrolment: &Enrolment) -> Value {
    let cell = catalog.cells.iter().find(|cell| cell.uuid == enrolment.cell).map(|cell| &cell.name);
    json!({
        "host": enrolment.host,
        "cell": cell,
        "public_key": enrolment.public_key,
        "created_at": instant(enrolment.created_at),
    })
}
