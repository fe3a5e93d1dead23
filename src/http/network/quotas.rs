//! Quotas: this service sets no limits, and says so; usage is counted.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::{Map, Value, json};

use super::{Service, error, reader, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::network::PortFilter;

const UNLIMITED: i64 = -1;
const COUNTED: &[&str] =
    &["network", "subnet", "port", "security_group", "security_group_rule", "router", "floatingip", "rbac_policy", "subnetpool"];

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/quotas").route(web::get().to(list)))
        .service(web::resource("/network/v2.0/quotas/{project}").route(web::get().to(show)).route(web::put().to(update)))
        .service(web::resource("/network/v2.0/quotas/{project}/default").route(web::get().to(show)))
        .service(
            web::resource(["/network/v2.0/quotas/{project}/details", "/network/v2.0/quotas/{project}/details.json"])
                .route(web::get().to(details)),
        );
}

/// Projects whose quotas differ from the default: none.
async fn list(_caller: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"quotas": []}))
}

async fn show(caller: Caller, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&caller, &project)?;
    let limits: Map<String, Value> = COUNTED.iter().map(|name| ((*name).to_owned(), json!(UNLIMITED))).collect();
    Ok(HttpResponse::Ok().json(json!({"quota": limits})))
}

async fn details(service: Service, caller: Caller, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&caller, &project)?;
    let scope = reader(&caller);
    let of_project = PortFilter { project_id: Some(project.to_string()), ..PortFilter::default() };
    let ports = service.ports(scope.clone(), of_project).await.map_err(refusal)?.len();
    let own = |owner: &str| owner == project.as_str();
    let networks = service.networks(scope.clone()).await.map_err(refusal)?.iter().filter(|n| own(&n.project_id)).count();
    let subnets = service.subnets(scope.clone()).await.map_err(refusal)?.iter().filter(|s| own(&s.project_id)).count();
    let groups = service.security_groups(scope).await.map_err(refusal)?;
    let groups: Vec<_> = groups.iter().filter(|group| own(&group.project_id)).collect();
    let rules: usize = groups.iter().map(|group| group.security_group_rules.len()).sum();
    let used = |name: &str| match name {
        "network" => networks,
        "subnet" => subnets,
        "port" => ports,
        "security_group" => groups.len(),
        "security_group_rule" => rules,
        // What cannot be made is not there.
        _ => 0,
    };
    let counts = COUNTED.iter().map(|name| ((*name).to_owned(), json!({"limit": UNLIMITED, "used": used(name), "reserved": 0})));
    Ok(HttpResponse::Ok().json(json!({"quota": counts.collect::<Map<_, _>>()})))
}

async fn update(_caller: Caller) -> Result<HttpResponse, ApiError> {
    Err(error(StatusCode::NOT_IMPLEMENTED, "This network service has no limits, and none can be set."))
}

fn permitted(caller: &Caller, project: &str) -> Result<(), ApiError> {
    if caller.0.is_admin() || caller.0.project_id == project {
        return Ok(());
    }
    Err(error(StatusCode::FORBIDDEN, "Another project's quotas are for administrators: disallowed by policy"))
}
