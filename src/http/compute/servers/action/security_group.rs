//! `addSecurityGroup` and `removeSecurityGroup`: change the groups of all of a server's ports. Ports of other projects that name the server
//! as their device are not its ports.

use actix_web::http::StatusCode;
use uuid::Uuid;

use super::ActionRequest;
use crate::domain::instance_change::InstanceChange;
use crate::cell_registry::Located;
use crate::http::compute::answer::{Answer, conflict, empty, not_found};
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::{schemas, security_groups};
use crate::http::error::ApiError;
use crate::services::network::Port;

pub(super) async fn add(asked: &ActionRequest<'_>) -> Answer {
    schemas::ADD_SECURITY_GROUP.check(asked.version, asked.body).await?;
    let (located, group) = server_and_group(asked, "addSecurityGroup", "os_compute_api:os-security-groups:add").await?;
    let ports = ports_of(asked, &located).await?;
    if ports.is_empty() {
        return Err(conflict(format!("Instance {} has no ports: a security group cannot be added to it.", located.instance.uuid)));
    }
    for port in ports.into_iter().filter(|port| !port.security_groups.contains(&group)) {
        let groups = port.security_groups.into_iter().chain([group]).collect();
        asked.api.network.set_security_groups(port.id, groups).await.map_err(service_error)?;
    }
    remember(asked, &located).await
}

pub(super) async fn remove(asked: &ActionRequest<'_>) -> Answer {
    schemas::REMOVE_SECURITY_GROUP.check(asked.version, asked.body).await?;
    let (located, group) = server_and_group(asked, "removeSecurityGroup", "os_compute_api:os-security-groups:remove").await?;
    let with_group = ports_of(asked, &located).await?.into_iter().filter(|port| port.security_groups.contains(&group));
    let mut removed = false;
    for port in with_group {
        let groups = port.security_groups.into_iter().filter(|known| *known != group).collect();
        asked.api.network.set_security_groups(port.id, groups).await.map_err(service_error)?;
        removed = true;
    }
    if !removed {
        let message = format!("Security group {group} is not associated with the instance {}.", located.instance.uuid);
        return Err(not_found(message));
    }
    remember(asked, &located).await
}

async fn server_and_group(asked: &ActionRequest<'_>, action: &str, rule: &str) -> Result<(Located, Uuid), ApiError> {
    let located = asked.api.locate_for(asked.caller, asked.id, rule).await?;
    let name = asked.body[action]["name"].as_str().unwrap_or_default();
    let found = security_groups::named(&*asked.api.network, &located.instance.project_id, name).await?;
    match found {
        Some((group, _)) => Ok((located, group)),
        None => Err(not_found(format!("Security group {name} not found for project {}.", located.instance.project_id))),
    }
}

async fn ports_of(asked: &ActionRequest<'_>, located: &Located) -> Result<Vec<Port>, ApiError> {
    let ports = asked.api.network.ports_of(located.instance.uuid).await.map_err(service_error)?;
    Ok(ports.into_iter().filter(|port| port.project_id == located.instance.project_id).collect())
}

/// Saves the ports' present groups in the server's record.
async fn remember(asked: &ActionRequest<'_>, located: &Located) -> Answer {
    let names = security_groups::names(&*asked.api.network, located.instance.uuid, &located.instance.project_id).await?;
    let change = InstanceChange { security_groups: Some(names), ..InstanceChange::default() };
    asked.api.registry.change_instance(located, change).await?;
    empty(StatusCode::ACCEPTED)
}
