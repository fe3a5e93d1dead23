//! Quotas and limits, of projects and of the default class. Numbers arrive as strings and leave as integers.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpResponse, web};
use cellshift_web::auth::{Caller, require_project};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use cellshift_web::schema::number;
use serde_json::{Map, Value, json};

use crate::identity::Authenticator;
use crate::request_bodies::RequestBody;

use crate::resource::Query;
use crate::volume::routes::{Call, bad_request, failed, not_found, require};
use crate::volume::{EmbeddedVolume, OF_TYPES, QUOTA_RESOURCES, QuotaUsage};

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] =
    &[("volume PUT /os-quota-sets/{}", || fields_of("quota_set")), ("volume PUT /os-quota-class-sets/{}", || fields_of("quota_class_set"))];

/// Returns the fields of a body with limits under this name. Those of a volume type end with its name.
fn fields_of(key: &str) -> BTreeSet<String> {
    let limits = QUOTA_RESOURCES.into_iter().chain([ABSENT]).chain(BESIDE_LIMITS).map(|name| format!("{key}.{name}"));
    let of_types = OF_TYPES.into_iter().map(|resource| format!("{key}.{resource}_*"));
    limits.chain(of_types).chain([key.to_owned()]).collect()
}

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    let one = web::resource("/os-quota-sets/{project}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(reset)));
    cfg.service(web::resource("/os-quota-sets/{project}/defaults").route(web::get().to(defaults)));
    cfg.service(web::resource("/os-quota-class-sets/{class}").route(web::get().to(show_class)).route(web::put().to(update_class)));
    cfg.service(web::resource("/limits").route(web::get().to(limits)));
}

/// The resource that the API knows but this service lacks: without limit and unused.
const ABSENT: &str = "groups";
/// The only class that there is.
const DEFAULT_CLASS: &str = "default";
/// The fields beside the limits. Clients send them, and they set nothing.
const BESIDE_LIMITS: [&str; 4] = ["force", "tenant_id", "id", "project_id"];
const UNLIMITED: QuotaUsage = QuotaUsage { limit: -1, in_use: 0 };

async fn show(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    project: web::Path<String>,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    permitted(&call.caller, &project)?;
    require_project(&**identity, &call.caller, ErrorForm::Compute, &project).await?;
    let quotas = call.service.quotas(&project).await.map_err(failed)?;
    let usage = query.get("usage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(HttpResponse::Ok().json(json!({"quota_set": render(Some(&project), &quotas, usage)})))
}

async fn defaults(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&call.caller, &project)?;
    require_project(&**identity, &call.caller, ErrorForm::Compute, &project).await?;
    let mut set = of_class(&call.service).await?;
    set.insert("id".to_owned(), json!(*project));
    Ok(HttpResponse::Ok().json(json!({"quota_set": set})))
}

/// Returns the limits of the default class.
async fn of_class(volumes: &EmbeddedVolume) -> Result<Map<String, Value>, ApiError> {
    let limits = volumes.default_quotas().await.map_err(failed)?;
    let mut set: Map<String, Value> = limits.into_iter().map(|(resource, limit)| (resource, json!(limit))).collect();
    set.insert(ABSENT.to_owned(), json!(UNLIMITED.limit));
    Ok(set)
}

/// Answers 404 for a class other than the default one.
fn check_class(class: &str) -> Result<(), ApiError> {
    if class == DEFAULT_CLASS { Ok(()) } else { Err(not_found("Quota class", class)) }
}

async fn show_class(call: Call, class: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    check_class(&class)?;
    let mut set = of_class(&call.service).await?;
    set.insert("id".to_owned(), json!(DEFAULT_CLASS));
    Ok(HttpResponse::Ok().json(json!({"quota_class_set": set})))
}

async fn update_class(call: Call, class: web::Path<String>, Json(body): Json<Map<String, Value>>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    check_class(&class)?;
    call.service.set_quotas(None, limits_in(&body, "quota_class_set")?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"quota_class_set": of_class(&call.service).await?})))
}

/// Answers 403 to non-administrators for another project's quotas.
fn permitted(caller: &Caller, project: &str) -> Result<(), ApiError> {
    if project == caller.0.project_id { Ok(()) } else { require(caller, "admin") }
}

async fn update(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    project: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    require_project(&**identity, &call.caller, ErrorForm::Compute, &project).await?;
    call.service.set_quotas(Some(&project), limits_in(&body, "quota_set")?).await.map_err(failed)?;
    let quotas = call.service.quotas(&project).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"quota_set": render(None, &quotas, false)})))
}

/// Reads the limits of a body. The service judges their names.
fn limits_in(body: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, i64>, ApiError> {
    let changes = body.get(key).and_then(Value::as_object).ok_or_else(|| bad_request(format!("The body has no {key}.")))?;
    let mut limits = BTreeMap::new();
    for (resource, value) in changes {
        let number = number(value).filter(|number| (-1..=i64::from(i32::MAX)).contains(number));
        match (resource.as_str(), number) {
            (name, _) if BESIDE_LIMITS.contains(&name) => {}
            (ABSENT, Some(-1)) => {}
            (_, Some(number)) => {
                limits.insert(resource.clone(), number);
            }
            _ => return Err(bad_request(format!("Bad quota: {resource:.255} = {value:.40}."))),
        }
    }
    Ok(limits)
}

async fn reset(call: Call, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    call.service.reset_quotas(&project).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn limits(call: Call) -> Result<HttpResponse, ApiError> {
    let quotas = call.service.quotas(&call.caller.0.project_id).await.map_err(failed)?;
    let [count, snapshots, gigabytes, backups, backup_gigabytes, _] =
        QUOTA_RESOURCES.map(|resource| quotas.get(resource).copied().unwrap_or(UNLIMITED));
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

fn render(project: Option<&str>, quotas: &BTreeMap<String, QuotaUsage>, with_usage: bool) -> Value {
    let view = |usage: &QuotaUsage| match with_usage {
        true => json!({"limit": usage.limit, "in_use": usage.in_use, "reserved": 0, "allocated": 0}),
        false => json!(usage.limit),
    };
    let mut set: Map<String, Value> = quotas.iter().map(|(resource, usage)| (resource.clone(), view(usage))).collect();
    set.insert(ABSENT.to_owned(), view(&UNLIMITED));
    if let Some(project) = project {
        set.insert("id".to_owned(), json!(project));
    }
    Value::Object(set)
}
