//! `addSecurityGroup` and `removeSecurityGroup`: change the groups of all of a server's ports. Ports of other projects that name the server
//! as their device are not its ports.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::domain::instance_change::InstanceChange;
use crate::http::compute::answer::{Answer, conflict, empty, not_found};
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::rules::ServerName;
use crate::http::compute::servers::security_groups;
use crate::http::error::ApiError;
use crate::services::network::Port;

pub(super) static ADD: Body<GroupName> = Body::within("addSecurityGroup", ALWAYS);
pub(super) static REMOVE: Body<GroupName> = Body::within("removeSecurityGroup", ALWAYS);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupName {
    #[schemars(with = "ServerName")]
    name: String,
}

pub(super) async fn add(action: &ActionRequest<'_>) -> Answer {
    let GroupName { name } = action.read(&ADD).await?;
    let (located, group) = server_and_group(action, &name, "os_compute_api:os-security-groups:add").await?;
    let ports = ports_of(action, &located).await?;
    if ports.is_empty() {
        return Err(conflict(format!("Instance {} has no ports: a security group cannot be added to it.", located.instance.uuid)));
    }
    for port in ports.into_iter().filter(|port| !port.security_groups.contains(&group)) {
        let groups = port.security_groups.into_iter().chain([group]).collect();
        action.api.network.set_security_groups(port.id, groups).await.map_err(service_error)?;
    }
    remember(action, &located).await
}

pub(super) async fn remove(action: &ActionRequest<'_>) -> Answer {
    let GroupName { name } = action.read(&REMOVE).await?;
    let (located, group) = server_and_group(action, &name, "os_compute_api:os-security-groups:remove").await?;
    let with_group = ports_of(action, &located).await?.into_iter().filter(|port| port.security_groups.contains(&group));
    let mut removed = false;
    for port in with_group {
        let groups = port.security_groups.into_iter().filter(|other| *other != group).collect();
        action.api.network.set_security_groups(port.id, groups).await.map_err(service_error)?;
        removed = true;
    }
    if !removed {
        let message = format!("Security group {group} is not associated with the instance {}.", located.instance.uuid);
        return Err(not_found(message));
    }
    remember(action, &located).await
}

async fn server_and_group(action: &ActionRequest<'_>, name: &str, rule: &str) -> Result<(Located, Uuid), ApiError> {
    let located = action.api.locate_for(action.caller, action.id, rule).await?;
    match security_groups::named(&*action.api.network, &located.instance.project_id, name).await? {
        Some((group, _)) => Ok((located, group)),
        None => Err(not_found(format!("Security group {name} not found for project {}.", located.instance.project_id))),
    }
}

async fn ports_of(action: &ActionRequest<'_>, located: &Located) -> Result<Vec<Port>, ApiError> {
    let ports = action.api.network.ports_of(located.instance.uuid).await.map_err(service_error)?;
    Ok(ports.into_iter().filter(|port| port.project_id == located.instance.project_id).collect())
}

/// Saves the ports' present groups in the server's record.
async fn remember(action: &ActionRequest<'_>, located: &Located) -> Answer {
    let names = security_groups::names(&*action.api.network, located.instance.uuid, &located.instance.project_id).await?;
    let change = InstanceChange { security_groups: Some(names), ..InstanceChange::default() };
    action.api.registry.change_instance(located, change).await?;
    empty(StatusCode::ACCEPTED)
}
