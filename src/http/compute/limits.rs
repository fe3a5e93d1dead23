//! `/limits`: a project's quotas and usage, under old names.

use actix_web::{HttpRequest, web};
use serde_json::{Map, Value, json};

use super::answer::{Answer, ok};
use super::catalog::Catalog;
use super::query::Query;
use super::quota_sets::is_gone;
use super::quota_usage::{self, Counted, tell_missing};
use crate::http::auth::Caller;
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
    let limits = api.limits_of(project, None).await?;
    let Counted { usage, missing } = quota_usage::count(&api, project, None).await?;
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
