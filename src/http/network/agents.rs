//! The agents of hosts' bridges and physical functions. An agent lives as long as its host's compute service reports. As in Neutron, agents
//! are for administrators; other callers see none.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::query::ListQuery;
use super::{error, reader};
use crate::db::cell::services::Service;
use crate::domain::network_agent::{NetworkAgent, agents};
use crate::http::auth::Caller;
use crate::http::compute::catalog::Catalog;
use crate::http::compute::zones::COMPUTE;
use crate::http::error::ApiError;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/agents").route(web::get().to(list)))
        .service(web::resource("/network/v2.0/agents/{id}").route(web::get().to(show)));
}

async fn list(caller: Caller, api: web::Data<Catalog>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let query = ListQuery::of(&request)?;
    let all = if caller.0.is_admin() { all(&api).await? } else { Vec::new() };
    query.answer(&request, "agents", all)
}

async fn show(caller: Caller, api: web::Data<Catalog>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let all = if caller.0.is_admin() { all(&api).await? } else { Vec::new() };
    let agent = all.into_iter().find(|agent| agent["id"] == id.as_str());
    let agent = agent.ok_or_else(|| error(StatusCode::NOT_FOUND, format!("Agent {id} could not be found.")))?;
    Ok(HttpResponse::Ok().json(json!({"agent": agent})))
}

/// Returns all agents, by host. Those of a silent cell are shown as dead.
async fn all(api: &Catalog) -> Result<Vec<Value>, ApiError> {
    let mut found = Vec::new();
    for heard in api.ask_cells(|cell| cell.services()).await {
        match heard.answer {
            Ok(services) => {
                for service in services.iter().filter(|service| service.binary == COMPUTE) {
                    found.extend(of_host(api, &service.host, Some(service)));
                }
            }
            Err(why) => {
                log::warn!(cell = heard.cell.name.as_str(); "the hosts of a cell are not known to live: {why}");
                let hosts = api.api.hosts_of_cell(heard.cell.uuid).await?;
                found.extend(hosts.iter().flat_map(|mapping| of_host(api, &mapping.host, None)));
            }
        }
    }
    Ok(found)
}

fn of_host(api: &Catalog, host: &str, service: Option<&Service>) -> Vec<Value> {
    agents(host, &api.host_networks.of(host)).iter().map(|agent| body(api, host, agent, service)).collect()
}

fn body(api: &Catalog, host: &str, agent: &NetworkAgent, service: Option<&Service>) -> Value {
    let moment = |at: Option<DateTime<Utc>>| at.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string());
    let since = moment(service.map(|service| service.created_at));
    json!({
        "id": agent.id,
        "agent_type": agent.agent_type,
        "binary": agent.binary,
        "host": host,
        "topic": "N/A",
        "admin_state_up": true,
        "alive": service.is_some_and(|service| api.is_up(service)),
        "availability_zone": null,
        "description": null,
        "created_at": since,
        "started_at": since,
        "heartbeat_timestamp": moment(service.and_then(|service| service.last_seen_up.or(service.updated_at))),
        "resources_synced": true,
        "configurations": agent.configurations,
    })
}
