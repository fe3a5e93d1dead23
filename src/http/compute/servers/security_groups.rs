//! Security groups of servers: which one a name means, and `/servers/{id}/os-security-groups`.

use actix_web::web;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ComputeApi;
use super::create::networks::service_error;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::error::ApiError;
use crate::services::network::NetworkService;

/// Routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/servers/{id}/os-security-groups").route(web::get().to(index)));
}

/// The project's group of this id or name, if there is one; 409 when a name means several.
pub async fn named(network: &dyn NetworkService, project: &str, name: &str) -> Result<Option<(Uuid, String)>, ApiError> {
    let groups = network.security_groups_for(project).await.map_err(service_error)?;
    let mut found = groups.into_iter().filter(|(id, known)| known == name || id.to_string() == name);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(conflict(format!("Multiple security groups found matching '{name}'. Use an ID to be more specific."))),
        (found, _) => Ok(found),
    }
}

/// The names of the groups of a server's ports, each once, in the order of the ports.
pub async fn names(network: &dyn NetworkService, server: Uuid, project: &str) -> Result<Vec<String>, ApiError> {
    let known = network.security_groups_for(project).await.map_err(service_error)?;
    let mut names: Vec<String> = Vec::new();
    for id in network.ports_of(server).await.map_err(service_error)?.into_iter().flat_map(|port| port.security_groups) {
        if let Some((_, name)) = known.iter().find(|(known, _)| *known == id)
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// The groups of the server's ports.
async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let located = api.locate_for(&caller, &id, "os_compute_api:os-security-groups:list").await?;
    let project = &located.instance.project_id;
    let names = names(&*api.network, located.instance.uuid, project).await?;
    let mut groups: Vec<Value> = Vec::new();
    for name in names {
        if let Some((id, name)) = named(&*api.network, project, &name).await? {
            groups.push(json!({"id": id, "name": name, "tenant_id": project, "description": "", "rules": []}));
        }
    }
    ok(&json!({"security_groups": groups}))
}
