//! The agents of hosts' bridges and physical functions. An agent lives as long as its host's compute service reports. As in Neutron, agents
//! are for administrators; other callers see none.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use async_trait::async_trait;
use cellshift_domain::host_network::HostNetwork;
use cellshift_domain::network_agent::{NetworkAgent, agents};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::query::ListQuery;
use super::routes::{error, reader};

/// A host, whose agents live as long as it does.
pub struct AgentHost {
    pub name: String,
    pub network: HostNetwork,
    pub is_up: bool,
    /// The time since which the host is known; none if its cell is silent.
    pub since: Option<DateTime<Utc>>,
    /// The time of its last report.
    pub last_seen: Option<DateTime<Utc>>,
}

/// The hosts that have agents.
#[async_trait(?Send)]
pub trait AgentHosts: Send + Sync {
    /// Returns all hosts, by cell. Those of a silent cell are down.
    async fn all(&self) -> Result<Vec<AgentHost>, ApiError>;
}

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/agents").route(web::get().to(list)))
        .service(web::resource("/network/v2.0/agents/{id}").route(web::get().to(show)));
}

async fn list(caller: Caller, hosts: web::Data<dyn AgentHosts>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let query = ListQuery::of(&request)?;
    let agents = if caller.0.is_admin() { every_agent(&**hosts).await? } else { Vec::new() };
    query.answer(&request, "agents", agents)
}

async fn show(caller: Caller, hosts: web::Data<dyn AgentHosts>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let agents = if caller.0.is_admin() { every_agent(&**hosts).await? } else { Vec::new() };
    let agent = agents.into_iter().find(|agent| agent["id"] == id.as_str());
    let agent = agent.ok_or_else(|| error(StatusCode::NOT_FOUND, format!("Agent {id} could not be found.")))?;
    Ok(HttpResponse::Ok().json(json!({"agent": agent})))
}

/// Returns all agents, by host.
async fn every_agent(hosts: &dyn AgentHosts) -> Result<Vec<Value>, ApiError> {
    let hosts = hosts.all().await?;
    Ok(hosts.iter().flat_map(|host| agents(&host.name, &host.network).into_iter().map(|agent| body(host, &agent))).collect())
}

fn body(host: &AgentHost, agent: &NetworkAgent) -> Value {
    let moment = |at: Option<DateTime<Utc>>| at.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string());
    let since = moment(host.since);
    json!({
        "id": agent.id,
        "agent_type": agent.agent_type,
        "binary": agent.binary,
        "host": host.name,
        "topic": "N/A",
        "admin_state_up": true,
        "alive": host.is_up,
        "availability_zone": null,
        "description": null,
        "created_at": since,
        "started_at": since,
        "heartbeat_timestamp": moment(host.last_seen),
        "resources_synced": true,
        "configurations": agent.configurations,
    })
}
