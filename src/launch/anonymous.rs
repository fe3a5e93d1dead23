//! The caller of requests without a token, where the configuration allows them.

use cellshift_embedded::identity::{Target, User};

use super::LaunchError;
use crate::bootstrap::Cloud;
use crate::domain::context::RequestContext;

/// Returns the identity of requests without a token: the administrator, in the project `demo`, where ordinary servers are.
pub(super) async fn administrator(cloud: &Cloud) -> Result<RequestContext, LaunchError> {
    let identity = &cloud.services.identity;
    let project = match identity.projects().await?.into_iter().find(|project| project.name == "demo") {
        Some(project) => project,
        None => identity.ensure_project("demo").await?,
    };
    let admin = identity.roles().await?.into_iter().find(|role| role.name == "admin").map(|role| role.id);
    let held = identity.effective_assignments().await?;
    let rules = |user: &User| held.iter().any(|a| a.user_id == user.id && a.target == Target::System && Some(&a.role_id) == admin.as_ref());
    // The first administrator may have been renamed or replaced.
    let user = identity.users().await?.into_iter().filter(|user| user.enabled && rules(user)).min_by_key(|user| user.name != "admin");
    let user = user.ok_or(LaunchError::NoAdministrator)?;
    Ok(RequestContext {
        request_id: String::new(),
        user_id: user.id,
        user_name: user.name,
        project_id: project.id,
        project_name: project.name,
        roles: ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        project_domain_id: project.domain_id,
        domain_id: String::new(),
        system_scope: false,
        trace: None,
    })
}
