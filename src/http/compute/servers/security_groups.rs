//! Security groups of servers: looks up groups by name, and serves `/servers/{id}/os-security-groups`.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::web;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ComputeApi;
use super::create::networks::service_error;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::error::ApiError;
use crate::services::network::NetworkService;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/servers/{id}/os-security-groups").route(web::get().to(index)));
}

/// A project's groups by id and by name.
pub struct ProjectGroups {
    by_id: BTreeMap<String, (Uuid, String)>,
    by_name: BTreeMap<String, Vec<(Uuid, String)>>,
}

impl ProjectGroups {
    /// Reads the groups once for many look-ups.
    pub async fn of(network: &dyn NetworkService, project: &str) -> Result<ProjectGroups, ApiError> {
        let (mut by_id, mut by_name): (BTreeMap<_, _>, BTreeMap<_, Vec<_>>) = Default::default();
        for (id, name) in network.security_groups_for(project).await.map_err(service_error)? {
            by_id.insert(id.to_string(), (id, name.clone()));
            by_name.entry(name.clone()).or_default().push((id, name));
        }
        Ok(ProjectGroups { by_id, by_name })
    }

    /// Returns the group with this id, or else the one with this name. 409 if several groups have the name.
    pub fn named(&self, name: &str) -> Result<Option<&(Uuid, String)>, ApiError> {
        if let Some(group) = self.by_id.get(name) {
            return Ok(Some(group));
        }
        match self.by_name.get(name).map(Vec::as_slice) {
            Some([_, _, ..]) => Err(conflict(format!("Multiple security groups found matching '{name}'. Use an ID to be more specific."))),
            Some([one]) => Ok(Some(one)),
            _ => Ok(None),
        }
    }
}

/// Returns the project's group with this id or name. 409 if several groups have the name.
pub async fn named(network: &dyn NetworkService, project: &str, name: &str) -> Result<Option<(Uuid, String)>, ApiError> {
    Ok(ProjectGroups::of(network, project).await?.named(name)?.cloned())
}

/// Returns the groups of a server's ports, each once, in the order of the ports.
async fn of_server(network: &dyn NetworkService, server: Uuid, project: &str) -> Result<Vec<(Uuid, String)>, ApiError> {
    let names: BTreeMap<Uuid, String> = network.security_groups_for(project).await.map_err(service_error)?.into_iter().collect();
    let (mut groups, mut ids): (Vec<(Uuid, String)>, BTreeSet<Uuid>) = Default::default();
    for id in network.ports_of(server).await.map_err(service_error)?.into_iter().flat_map(|port| port.security_groups) {
        if let Some(name) = names.get(&id)
            && ids.insert(id)
        {
            groups.push((id, name.clone()));
        }
    }
    Ok(groups)
}

/// Returns the names of the groups of a server's ports, each once, in the order of the ports.
pub async fn names(network: &dyn NetworkService, server: Uuid, project: &str) -> Result<Vec<String>, ApiError> {
    let mut names: Vec<String> = Vec::new();
    for (_, name) in of_server(network, server, project).await? {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Lists the groups of the server's ports.
async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let located = api.locate_for(&caller, &id, "os_compute_api:os-security-groups:list").await?;
    let project = &located.instance.project_id;
    let groups = of_server(&*api.network, located.instance.uuid, project).await?;
    let view = |(id, name): (Uuid, String)| json!({"id": id, "name": name, "tenant_id": project, "description": "", "rules": []});
    ok(&json!({"security_groups": groups.into_iter().map(view).collect::<Vec<Value>>()}))
}
