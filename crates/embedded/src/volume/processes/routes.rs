//! The volume service's own parts as administrators see them: its processes with their hosts, its pool, the pool's capabilities, and the filters of lists.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::request_bodies::{RequestBody, of_type};

use crate::resource::Query;
use crate::volume::routes::{bad_request, failed, not_found, require, time};
use crate::volume::{BACKEND, CAPABILITIES, EmbeddedVolume, HOST, Process, VOLUME_PROCESS, ZONE};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/os-services").route(web::get().to(services)));
    cfg.service(web::resource("/os-services/enable").route(web::put().to(enable)));
    cfg.service(web::resource("/os-services/disable").route(web::put().to(disable)));
    cfg.service(web::resource("/os-services/disable-log-reason").route(web::put().to(disable_with_reason)));
    cfg.service(web::resource("/os-services/freeze").route(web::put().to(freeze)));
    cfg.service(web::resource("/os-services/thaw").route(web::put().to(thaw)));
    cfg.service(web::resource("/os-hosts").route(web::get().to(hosts)));
    cfg.service(web::resource("/os-hosts/{host}").route(web::get().to(host)));
    cfg.service(web::resource("/scheduler-stats/get_pools").route(web::get().to(pools)));
    cfg.service(web::resource("/capabilities/{host}").route(web::get().to(capabilities)));
    cfg.service(web::resource("/resource_filters").route(web::get().to(filters)));
}

/// The maximum length of a reason, a binary or a host's name, in characters.
const LONGEST: usize = 255;

async fn services(
    env: web::Data<Env>,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    version: ApiVersion,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let processes = volumes.processes().await.map_err(failed)?;
    // A host stands for all backends on it.
    let is_on = |process: &Process, name: &str| process.host == name || process.host.split('@').next() == Some(name);
    let matches = |process: &&Process| {
        query.get("binary").is_none_or(|name| *name == process.binary) && query.get("host").is_none_or(|name| is_on(process, name))
    };
    let views: Vec<Value> = processes.iter().filter(matches).map(|process| service(&env, version, process)).collect();
    Ok(HttpResponse::Ok().json(json!({"services": views})))
}

/// Describes a service. The one with volumes tells of its backend: nothing is replicated.
fn service(env: &Env, version: ApiVersion, process: &Process) -> Value {
    let mut service = json!({
        "binary": process.binary,
        "host": process.host,
        "zone": ZONE,
        "status": if process.disabled { "disabled" } else { "enabled" },
        "state": "up",
        "disabled_reason": process.disabled_reason,
        "updated_at": time(env.now()),
    });
    if version.at_least(7) {
        service["cluster"] = Value::Null;
    }
    if process.binary == VOLUME_PROCESS {
        service["replication_status"] = json!("disabled");
        service["active_backend_id"] = Value::Null;
        service["frozen"] = json!(process.frozen);
        if version.at_least(49) {
            service["backend_state"] = json!("up");
        }
    }
    service
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume PUT /os-services/enable", of_type::<ProcessReference>),
    ("volume PUT /os-services/disable", of_type::<ProcessReference>),
    ("volume PUT /os-services/disable-log-reason", fields_with_reason),
    ("volume PUT /os-services/freeze", of_type::<ProcessReference>),
    ("volume PUT /os-services/thaw", of_type::<ProcessReference>),
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProcessReference {
    host: Option<String>,
    binary: Option<String>,
    /// The old name of `binary`.
    service: Option<String>,
    /// There are no clusters.
    cluster: Option<String>,
    /// Why the service is disabled.
    #[serde(skip)]
    reason: Option<String>,
}

/// The field of a body that says why a service is disabled.
const REASON: &str = "disabled_reason";

fn fields_with_reason() -> BTreeSet<String> {
    of_type::<ProcessReference>().into_iter().chain([REASON.to_owned()]).collect()
}

async fn enable(volumes: web::Data<EmbeddedVolume>, caller: Caller, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let answer = switch(&volumes, &caller, read("enable", body)?, true).await?;
    Ok(HttpResponse::Ok().json(answer))
}

async fn disable(volumes: web::Data<EmbeddedVolume>, caller: Caller, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let answer = switch(&volumes, &caller, read("disable", body)?, false).await?;
    Ok(HttpResponse::Ok().json(answer))
}

async fn disable_with_reason(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    Json(mut body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let reason = body.remove(REASON).and_then(|reason| reason.as_str().map(str::to_owned));
    let fits = |reason: &String| !reason.trim().is_empty() && reason.chars().nth(LONGEST).is_none();
    let reason = reason.filter(fits).ok_or_else(|| bad_request(format!("{REASON} must be a text of 1 to {LONGEST} characters.")))?;
    let reference = ProcessReference { reason: Some(reason.clone()), ..read("disable-log-reason", Value::Object(body))? };
    let mut answer = switch(&volumes, &caller, reference, false).await?;
    answer[REASON] = json!(reason);
    Ok(HttpResponse::Ok().json(answer))
}

/// Enables or disables a service, and returns the answer.
async fn switch(volumes: &EmbeddedVolume, caller: &Caller, reference: ProcessReference, enabled: bool) -> Result<Value, ApiError> {
    require(caller, "admin")?;
    let host = reference.host.unwrap_or_default();
    let binary = reference.binary.as_ref().or(reference.service.as_ref()).ok_or_else(|| bad_request("A service needs a binary."))?;
    volumes.set_enabled(binary, &host, enabled, reference.reason).await.map_err(failed)?;
    Ok(json!({
        "host": host,
        "service": reference.service.unwrap_or_default(),
        "binary": reference.binary.unwrap_or_default(),
        "status": if enabled { "enabled" } else { "disabled" },
        "disabled": !enabled,
    }))
}

async fn freeze(volumes: web::Data<EmbeddedVolume>, caller: Caller, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    set_frozen(&volumes, &caller, read("freeze", body)?, true).await
}

async fn thaw(volumes: web::Data<EmbeddedVolume>, caller: Caller, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    set_frozen(&volumes, &caller, read("thaw", body)?, false).await
}

async fn set_frozen(
    volumes: &EmbeddedVolume,
    caller: &Caller,
    reference: ProcessReference,
    frozen: bool,
) -> Result<HttpResponse, ApiError> {
    require(caller, "admin")?;
    if reference.binary.is_some() || reference.service.is_some() {
        return Err(bad_request("Only the host of a backend is frozen or thawed."));
    }
    volumes.set_frozen(&reference.host.unwrap_or_default(), frozen).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

fn read(action: &str, body: Value) -> Result<ProcessReference, ApiError> {
    let reference: ProcessReference = serde_json::from_value(body).map_err(|error| bad_request(format!("{action}: {error}.")))?;
    let texts = [&reference.host, &reference.binary, &reference.service, &reference.cluster].into_iter().flatten();
    if reference.cluster.is_some() || texts.into_iter().any(|text| text.is_empty() || text.chars().nth(LONGEST).is_some()) {
        return Err(bad_request(format!("{action}: a host and a binary have 1 to {LONGEST} characters, and there are no clusters.")));
    }
    Ok(reference)
}

/// Lists the hosts of enabled services.
async fn hosts(
    env: web::Data<Env>,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let zone = query.get("zone").is_none_or(|name| name.is_empty() || name == ZONE);
    let processes = volumes.processes().await.map_err(failed)?;
    let processes = processes.into_iter().filter(|process| zone && !process.disabled).map(|process| {
        json!({
            "host_name": process.host,
            "service": process.binary,
            "zone": ZONE,
            "service-status": "available",
            "service-state": "enabled",
            "last-update": time(env.now()),
        })
    });
    Ok(HttpResponse::Ok().json(json!({"hosts": processes.collect::<Vec<_>>()})))
}

/// Sums up the volumes and snapshots of each project on the host. As in Cinder the figures are texts.
async fn host(volumes: web::Data<EmbeddedVolume>, caller: Caller, host: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let processes = volumes.processes().await.map_err(failed)?;
    if !processes.iter().any(|process| process.host == *host && process.binary == VOLUME_PROCESS && !process.disabled) {
        return Err(not_found("Host", &host));
    }
    let mut projects: BTreeMap<String, Held> = BTreeMap::new();
    for volume in volumes.list(None).await.map_err(failed)? {
        projects.entry(volume.project_id).or_default().add(volume.size_gb, 0);
    }
    for snapshot in volumes.list_snapshots(None).await.map_err(failed)? {
        projects.entry(snapshot.project_id).or_default().add(0, snapshot.size_gb);
    }
    let mut total = Held::default();
    projects.values().for_each(|held| total.add_all(held));
    let rows = std::iter::once(("(total)".to_owned(), total)).chain(projects);
    let rows: Vec<Value> = rows.map(|(project, held)| json!({"resource": held.shown(&host, &project)})).collect();
    Ok(HttpResponse::Ok().json(json!({"host": rows})))
}

/// The numbers and gigabytes of a project's volumes and snapshots on the host.
#[derive(Default)]
struct Held {
    volumes: i64,
    volumes_gb: i64,
    snapshots: i64,
    snapshots_gb: i64,
}

impl Held {
    /// Adds a volume or a snapshot, whose size is not zero.
    fn add(&mut self, volume_gb: i32, snapshot_gb: i32) {
        self.volumes += i64::from(volume_gb > 0);
        self.volumes_gb += i64::from(volume_gb);
        self.snapshots += i64::from(snapshot_gb > 0);
        self.snapshots_gb += i64::from(snapshot_gb);
    }

    fn add_all(&mut self, other: &Held) {
        self.volumes += other.volumes;
        self.volumes_gb += other.volumes_gb;
        self.snapshots += other.snapshots;
        self.snapshots_gb += other.snapshots_gb;
    }

    fn shown(&self, host: &str, project: &str) -> Value {
        json!({
            "host": host,
            "project": project,
            "volume_count": self.volumes.to_string(),
            "total_volume_gb": self.volumes_gb.to_string(),
            "snapshot_count": self.snapshots.to_string(),
            "total_snapshot_gb": self.snapshots_gb.to_string(),
        })
    }
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
        for (name, value) in CAPABILITIES {
            pool["capabilities"][name] = json!(value);
        }
    }
    let is_shown = query.get("name").is_none_or(|name| name == HOST);
    Ok(HttpResponse::Ok().json(json!({"pools": if is_shown { vec![pool] } else { Vec::new() }})))
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
    let by_resource: [(&str, &[&str]); 4] = [
        ("volume", &["name", "status", "bootable", "availability_zone"]),
        ("snapshot", &["name", "status", "volume_id"]),
        ("attachment", &["volume_id", "instance_id", "status", "attach_status"]),
        ("pool", &["name"]),
    ];
    let matching = by_resource.into_iter().filter(|(resource, _)| query.get("resource").is_none_or(|name| name == resource));
    let filters: Vec<Value> = matching.map(|(resource, filters)| json!({"resource": resource, "filters": filters})).collect();
    HttpResponse::Ok().json(json!({"resource_filters": filters}))
}
