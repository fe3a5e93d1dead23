//! `/limits`: the quotas and the usage of the caller's project under old names, or those of the caller where they leave less room.

use actix_web::{HttpRequest, web};
use serde_json::{Map, Value, json};

use super::answer::{Answer, ok};
use super::catalog::Catalog;
use super::query::Query;
use super::quota_sets::is_gone;
use super::quota_usage::{self, Counted, Usage, tell_missing};
use crate::domain::quota::{Limits, endless};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/limits").route(web::get().to(show)));
}

const LIMITS: &[(&str, &str)] = &[
    ("cores", "maxTotalCores"),
    ("floating_ips", "maxTotalFloatingIps"),
    ("injected_file_content_bytes", "maxPersonalitySize"),
    ("injected_files", "maxPersonality"),
    ("instances", "maxTotalInstances"),
    ("key_pairs", "maxTotalKeypairs"),
    ("metadata_items", "maxServerMeta"),
    ("metadata_items", "maxImageMeta"),
    ("ram", "maxTotalRAMSize"),
    ("security_group_rules", "maxSecurityGroupRules"),
    ("security_groups", "maxSecurityGroups"),
    ("server_group_members", "maxServerGroupMembers"),
    ("server_groups", "maxServerGroups"),
];

const USED: &[(&str, &str)] = &[
    ("cores", "totalCoresUsed"),
    ("floating_ips", "totalFloatingIpsUsed"),
    ("instances", "totalInstancesUsed"),
    ("ram", "totalRAMUsed"),
    ("security_groups", "totalSecurityGroupsUsed"),
    ("server_groups", "totalServerGroupsUsed"),
];

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:limits")?;
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["tenant_id", "reserved"])?;
    }
    let project = query.get("tenant_id").unwrap_or(&caller.0.project_id);
    if query.get("tenant_id").is_some() {
        api.allow(&caller, "os_compute_api:limits:other_project")?;
    }
    let own = (project == caller.0.project_id).then_some(caller.0.user_id.as_str());
    let Figures { limits, usage, missing } = figures(&api, project, own).await?;
    let mut absolute = Map::new();
    for (resource, name) in LIMITS.iter().filter(|(resource, _)| !is_gone(resource, version)) {
        if *name != "maxImageMeta" || version.at_most(38) {
            absolute.insert((*name).to_owned(), json!(limits.get(*resource).copied().unwrap_or(-1)));
        }
    }
    for (resource, name) in USED.iter().filter(|(resource, _)| !is_gone(resource, version)) {
        absolute.insert((*name).to_owned(), json!(usage.get(resource).copied().unwrap_or(0)));
    }
    tell_missing(ok(&json!({"limits": {"rate": [], "absolute": Value::Object(absolute)}})), &missing)
}

/// The limits and the usage to show.
struct Figures {
    limits: Limits,
    usage: Usage,
    missing: Vec<String>,
}

/// Returns the figures of a project, or in their place those of the user where they leave less room.
async fn figures(api: &Catalog, project: &str, user: Option<&str>) -> Result<Figures, ApiError> {
    let both = api.limits_of(project, user).await?;
    let Counted { mut usage, missing } = quota_usage::count(api, project, None).await?;
    let mut limits = both.lower();
    for resource in quota_usage::BY_USER {
        limits.insert(resource.to_owned(), both.of_user().get(resource).copied().unwrap_or(-1));
    }
    let counted = both.own.keys().any(|resource| usage.contains_key(resource.as_str()));
    let Some(user) = user.filter(|_| counted) else { return Ok(Figures { limits, usage, missing }) };
    let of_user = quota_usage::count(api, project, Some(user)).await?.usage;
    for (resource, used) in &mut usage {
        let limit_of = |limits: &Limits| endless(limits.get(*resource).copied().unwrap_or(-1));
        let used_by_user = of_user.get(resource).copied().unwrap_or(0);
        if both.own.contains_key(*resource) && limit_of(&both.own) - used_by_user < limit_of(&both.project) - *used {
            limits.insert((*resource).to_owned(), both.own[*resource]);
            *used = used_by_user;
        } else if let Some(of_project) = both.project.get(*resource) {
            limits.insert((*resource).to_owned(), *of_project);
        }
    }
    Ok(Figures { limits, usage, missing })
}
