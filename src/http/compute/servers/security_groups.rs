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
pub struct Known(BTreeMap<String, Vec<(Uuid, String)>>);

impl Known {
    /// Reads the groups once for many look-ups.
    pub async fn of(network: &dyn NetworkService, project: &str) -> Result<Known, ApiError> {
        let mut known: BTreeMap<String, Vec<(Uuid, String)>> = BTreeMap::new();
        for (id, name) in network.security_groups_for(project).await.map_err(service_error)? {
            if id.to_string() != name {
                known.entry(id.to_string()).or_default().push((id, name.clone()));
            }
            known.entry(name.clone()).or_default().push((id, name));
        }
        Ok(Known(known))
    }

    /// Returns the group with this id or name. 409 if several groups have the name.
    pub fn named(&self, name: &str) -> Result<Option<&(Uuid, String)>, ApiError> {
        match self.0.get(name).map(Vec::as_slice) {
            Some([_, _, ..]) => Err(conflict(format!("Multiple security groups found matching '{name}'. Use an ID to be more specific."))),
            Some([one]) => Ok(Some(one)),
            _ => Ok(None),
        }
    }
}

/// Returns the project's group with this id or name. 409 if several groups have the name.
pub async fn named(network: &dyn NetworkService, project: &str, name: &str) -> Result<Option<(Uuid, String)>, ApiError> {
    Ok(Known::of(network, project).await?.named(name)?.cloned())
}

/// Returns the names of the groups of a server's ports, each once, in the order of the ports.
pub async fn names(network: &dyn NetworkService, server: Uuid, project: &str) -> Result<Vec<String>, ApiError> {
    let known: BTreeMap<Uuid, String> = network.security_groups_for(project).await.map_err(service_error)?.into_iter().collect();
    let (mut names, mut told): (Vec<String>, BTreeSet<&str>) = Default::default();
    for id in network.ports_of(server).await.map_err(service_error)?.into_iter().flat_map(|port| port.security_groups) {
        if let Some(name) = known.get(&id)
            && told.insert(name)
        {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Lists the groups of the server's ports.
async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let located = api.locate_for(&caller, &id, "os_compute_api:os-security-groups:list").await?;
    let project = &located.instance.project_id;
    let names = names(&*api.network, located.instance.uuid, project).await?;
    let known = Known::of(&*api.network, project).await?;
    let mut groups: Vec<Value> = Vec::new();
    for name in names {
        if let Some((id, name)) = known.named(&name)? {
            groups.push(json!({"id": id, "name": name, "tenant_id": project, "description": "", "rules": []}));
        }
    }
    ok(&json!({"security_groups": groups}))
}
