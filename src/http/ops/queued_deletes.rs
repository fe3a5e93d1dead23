//! `GET /ops/v1/queued-deletes`: accepted deletes that have not run yet, and the reasons why they wait.

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cells::{health, instant};
use super::names::of_servers;
use super::{Catalog, Operators, next_page};
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::reason::Reason;
use crate::http::call::Call;
use crate::http::error::ApiError;

/// The requested page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<u32>,
    marker: Option<Uuid>,
}

pub async fn list(
    Call { request, api: operators, catalog, caller, .. }: Call<Operators>,
    query: web::Query<ListQuery>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:queued_deletes")?;
    let size = operators.page_size(query.limit);
    let page = catalog.api.queued_deletes(None, query.marker, size.into()).await?;
    let servers: Vec<Uuid> = page.iter().map(|mapping| mapping.instance_uuid).collect();
    let names = of_servers(&catalog, &operators, &servers).await?;
    let entries: Vec<Value> = page.iter().map(|mapping| entry(&catalog, mapping, names.get(&mapping.instance_uuid))).collect();
    let mut body = json!({ "queued_deletes": entries });
    if let Some(next) = next_page(&request, size, &servers, &[]) {
        body["queued_deletes_links"] = next;
    }
    Ok(HttpResponse::Ok().json(body))
}

fn entry(catalog: &Catalog, mapping: &InstanceMapping, name: Option<&String>) -> Value {
    let cell = catalog.cells.iter().find(|cell| Some(cell.uuid) == mapping.cell_uuid);
    let request = mapping.delete_request.as_ref();
    json!({
        "server": mapping.instance_uuid,
        "name": name,
        "project_id": mapping.project_id,
        "cell": cell.map(|cell| &cell.name),
        "cell_health": cell.map(|cell| health(cell.health.report().standing)),
        "cell_reason": cell.and_then(|cell| cell.health.report().reason).map(|reason| reason.to_string()),
        "since": request.and_then(|request| request.asked_at).or(mapping.updated_at).map(instant),
        "request_id": request.map(|request| &request.caller.request_id),
        "user_id": request.map(|request| &request.caller.user_id),
        "attempts": request.map_or(0, |request| request.attempts),
        "next_try_at": request.and_then(|request| request.next_try_at).map(instant),
        "last_error": request.and_then(|request| request.last_error.as_deref()).map(|stored| Reason::read(stored).to_string()),
    })
}
