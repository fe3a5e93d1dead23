//! Quotas and limits. Numbers arrive as strings and leave as integers.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde_json::{Map, Value, json};

use super::{bad_request, failed, require};
use crate::http::auth::{Caller, known_project};
use crate::http::compute::schema::number;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Json;
use crate::services::identity::Authenticator;
use crate::services::volume::embedded::{EmbeddedVolume, QUOTA_RESOURCES, QuotaUsage};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let one = web::resource("/os-quota-sets/{project}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(reset)));
    cfg.service(web::resource("/os-quota-sets/{project}/defaults").route(web::get().to(defaults)));
    cfg.service(web::resource("/limits").route(web::get().to(limits)));
}

/// Resources that the API knows but this service lacks: without limit and unused.
const ABSENT: [&str; 2] = ["groups", "per_volume_gigabytes"];
const UNLIMITED: QuotaUsage = QuotaUsage { limit: -1, in_use: 0 };

async fn show(
    volumes: web::Data<EmbeddedVolume>,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    permitted(&caller, &project)?;
    known_project(&**identity, &caller, ErrorForm::Compute, &project).await?;
    let known = volumes.quotas(&project).await.map_err(failed)?;
    let usage = query.get("usage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(HttpResponse::Ok().json(json!({"quota_set": render(Some(&project), &known, usage)})))
}

async fn defaults(identity: web::Data<dyn Authenticator>, caller: Caller, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&caller, &project)?;
    known_project(&**identity, &caller, ErrorForm::Compute, &project).await?;
    Ok(HttpResponse::Ok().json(json!({"quota_set": render(Some(&project), &BTreeMap::new(), false)})))
}

/// Answers 403 to non-administrators for another project's quotas.
fn permitted(caller: &Caller, project: &str) -> Result<(), ApiError> {
    if project == caller.0.project_id { Ok(()) } else { require(caller, "admin") }
}

async fn update(
    volumes: web::Data<EmbeddedVolume>,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    known_project(&**identity, &caller, ErrorForm::Compute, &project).await?;
    let wanted = body.get("quota_set").and_then(Value::as_object).ok_or_else(|| bad_request("The body has no quota_set."))?;
    let mut limits = BTreeMap::new();
    for (resource, value) in wanted {
        let number = number(value).filter(|number| (-1..=i64::from(i32::MAX)).contains(number));
        match (resource.as_str(), number) {
            ("force" | "tenant_id" | "id" | "project_id", _) => {}
            (resource, Some(number)) if QUOTA_RESOURCES.contains(&resource) => {
                limits.insert(resource.to_owned(), number);
            }
            (resource, Some(-1)) if ABSENT.contains(&resource) => {}
            _ => return Err(bad_request(format!("Bad quota: {resource} = {value} ({} have limits here).", QUOTA_RESOURCES.join(", ")))),
        }
    }
    volumes.set_quotas(&project, limits).await.map_err(failed)?;
    let known = volumes.quotas(&project).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"quota_set": render(None, &known, false)})))
}

async fn reset(volumes: web::Data<EmbeddedVolume>, caller: Caller, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    volumes.reset_quotas(&project).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn limits(volumes: web::Data<EmbeddedVolume>, caller: Caller) -> Result<HttpResponse, ApiError> {
    let known = volumes.quotas(&caller.0.project_id).await.map_err(failed)?;
    let [count, snapshots, gigabytes, backups, backup_gigabytes] =
        QUOTA_RESOURCES.map(|resource| known.get(resource).copied().unwrap_or(UNLIMITED));
    let absolute = json!({
        "maxTotalVolumes": count.limit,
        "totalVolumesUsed": count.in_use,
        "maxTotalVolumeGigabytes": gigabytes.limit,
        "totalGigabytesUsed": gigabytes.in_use,
        "maxTotalSnapshots": snapshots.limit,
        "totalSnapshotsUsed": snapshots.in_use,
        "maxTotalBackups": backups.limit,
        "totalBackupsUsed": backups.in_use,
        "maxTotalBackupGigabytes": backup_gigabytes.limit,
        "totalBackupGigabytesUsed": backup_gigabytes.in_use,
    });
    Ok(HttpResponse::Ok().json(json!({"limits": {"rate": [], "absolute": absolute}})))
}

fn render(project: Option<&str>, known: &BTreeMap<&'static str, QuotaUsage>, with_usage: bool) -> Value {
    let mut set = Map::new();
    for resource in QUOTA_RESOURCES.into_iter().chain(ABSENT) {
        let usage = known.get(resource).copied().unwrap_or(UNLIMITED);
        let value = match with_usage {
            true => json!({"limit": usage.limit, "in_use": usage.in_use, "reserved": 0, "allocated": 0}),
            false => json!(usage.limit),
        };
        set.insert(resource.to_owned(), value);
    }
    if let Some(project) = project {
        set.insert("id".to_owned(), json!(project));
    }
    Value::Object(set)
}
