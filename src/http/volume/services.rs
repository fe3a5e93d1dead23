//! The volume service's own parts as administrators see them: its processes, its pool, the pool's capabilities, and the filters of lists.

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::paging::Query;
use super::{failed, not_found, require, time};
use crate::env::Env;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::volume::embedded::{EmbeddedVolume, HOST, ZONE};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/os-services").route(web::get().to(services)));
    cfg.service(web::resource("/scheduler-stats/get_pools").route(web::get().to(pools)));
    cfg.service(web::resource("/capabilities/{host}").route(web::get().to(capabilities)));
    cfg.service(web::resource("/resource_filters").route(web::get().to(filters)));
}

/// The host and the backend of this service, without its pool.
const BACKEND: &str = "cellshift@local";
/// The host of the service's scheduler.
const CONTROLLER: &str = "cellshift";
/// The binary of the service with volumes.
const VOLUME: &str = "cinder-volume";

async fn services(env: web::Data<Env>, caller: Caller, version: ApiVersion, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let known = [("cinder-scheduler", CONTROLLER), (VOLUME, BACKEND)];
    let asked = |(binary, host): &(&str, &str)| {
        query.get("binary").is_none_or(|wanted| wanted == binary) && query.get("host").is_none_or(|wanted| wanted == host)
    };
    let shown: Vec<Value> = known.into_iter().filter(asked).map(|(binary, host)| service(&env, version, binary, host)).collect();
    Ok(HttpResponse::Ok().json(json!({"services": shown})))
}

/// Describes a service. The one with volumes tells of its backend: nothing is replicated.
fn service(env: &Env, version: ApiVersion, binary: &str, host: &str) -> Value {
    let mut service = json!({
        "binary": binary,
        "host": host,
        "zone": ZONE,
        "status": "enabled",
        "state": "up",
        "disabled_reason": null,
        "updated_at": time(env.now()),
    });
    if version.at_least(7) {
        service["cluster"] = Value::Null;
    }
    if binary == VOLUME {
        service["replication_status"] = json!("disabled");
        service["active_backend_id"] = Value::Null;
        service["frozen"] = json!(false);
        if version.at_least(49) {
            service["backend_state"] = json!("up");
        }
    }
    service
}

async fn pools(
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<Env>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let mut pool = json!({"name": HOST});
    if query.get("detail").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        let room = volumes.room().await.map_err(failed)?;
        pool["capabilities"] = json!({
            "volume_backend_name": "local",
            "storage_protocol": "file",
            "vendor_name": "cellshift",
            "driver_version": env!("CARGO_PKG_VERSION"),
            "total_capacity_gb": room.total_gb,
            "free_capacity_gb": room.free_gb,
            "allocated_capacity_gb": room.allocated_gb,
            "thin_provisioning_support": true,
            "thick_provisioning_support": false,
            "max_over_subscription_ratio": "auto",
            "reserved_percentage": 0,
            "QoS_support": false,
            "multiattach": true,
            "backend_state": "up",
            "timestamp": time(env.now()),
        });
    }
    let wanted = query.get("name").is_none_or(|name| name == HOST);
    Ok(HttpResponse::Ok().json(json!({"pools": if wanted { vec![pool] } else { Vec::new() }})))
}

async fn capabilities(caller: Caller, host: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    if ![BACKEND, HOST].contains(&host.as_str()) {
        return Err(not_found("Host", &host));
    }
    Ok(HttpResponse::Ok().json(json!({
        "namespace": format!("OS::Storage::Capabilities::{BACKEND}"),
        "vendor_name": "cellshift",
        "volume_backend_name": "local",
        "pool_name": "local",
        "driver_version": env!("CARGO_PKG_VERSION"),
        "storage_protocol": "file",
        "display_name": "Files of the volume service",
        "description": "Each volume is a sparse file",
        "visibility": "public",
        "replication_targets": [],
        "properties": {},
    })))
}

/// Returns the parameters by which each list can be narrowed.
async fn filters(_: Caller, query: web::Query<Query>) -> HttpResponse {
    let known: [(&str, &[&str]); 4] = [
        ("volume", &["name", "status", "bootable", "availability_zone"]),
        ("snapshot", &["name", "status", "volume_id"]),
        ("attachment", &["volume_id", "instance_id", "status", "attach_status"]),
        ("pool", &["name"]),
    ];
    let asked = known.into_iter().filter(|(resource, _)| query.get("resource").is_none_or(|wanted| wanted == resource));
    let shown: Vec<Value> = asked.map(|(resource, filters)| json!({"resource": resource, "filters": filters})).collect();
    HttpResponse::Ok().json(json!({"resource_filters": shown}))
}
