//! Tests of the compute API without servers, by exact statuses and bodies, over databases of each kind.

mod definitions;
mod hosts;
mod migrations;
mod quotas;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::http::header::HeaderMap;
use actix_web::test::{TestRequest, init_service, read_body, try_call_service};
use actix_web::web;
use async_trait::async_trait;
use cellshift_embedded::placement::EmbeddedPlacement;
use serde_json::{Value, json};
use uuid::Uuid;

use super::catalog::Catalog;
use super::quota_usage::Counting;
use crate::actors::cell::CellHandle;
use crate::chaos::borders::FaultyBorders;
use crate::db::api::ApiDb;
use crate::db::cell::fixture::register_host;
use crate::db::cell::{CellDb, CellTxn};
use crate::db::fixture::fresh_postgres;
use crate::db::{Db, Schema};
use crate::domain::cell_mapping::CellMapping;
use crate::domain::compute_node::ComputeNode;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::host_network::HostNetwork;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::network_agent::HostNetworks;
use crate::domain::quota::default_limits;
use crate::domain::server::VmState;
use crate::domain::service::Service;
use crate::env::turns::Turns;
use crate::env::{Blocking, Env, RandomIds, SystemClock};
use crate::http::arrival::Arrivals;
use crate::http::clients::Clients;
use crate::http::limits::{InFlight, Transfers};
use crate::http::server::{Part, Wiring, app};
use crate::policy_file::PolicyFile;
use crate::services::ServiceError;
use crate::services::identity::Authenticator;
use crate::services::placement::PlacementService;

/// Typed users by their tokens.
struct Users;

#[async_trait]
impl Authenticator for Users {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        let (user, project, roles): (_, _, &[&str]) = match token {
            "admin" => ("root", "admins", &["admin", "manager", "member", "reader"]),
            "manager" => ("mary", "demo", &["manager", "member", "reader"]),
            "member" => ("alice", "demo", &["member", "reader"]),
            "reader" => ("rita", "demo", &["reader"]),
            "other" => ("bob", "elsewhere", &["member", "reader"]),
            _ => return Err(ServiceError::NotFound("no such token".into())),
        };
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Ok(RequestContext { user_id: user.into(), project_id: project.into(), roles, ..RequestContext::default() })
    }

    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError> {
        Ok(!id.starts_with("no-such"))
    }
}

/// Two cells with a host each, `host1` and `host2`.
pub(super) struct Cloud {
    pub env: Env,
    pub api: ApiDb,
    pub placement: EmbeddedPlacement,
    pub cells: Vec<CellHandle>,
    pub catalog: web::Data<Catalog>,
    policy: Arc<PolicyFile>,
}

/// Makes a cloud on each available database.
pub(super) async fn clouds() -> Vec<Cloud> {
    clouds_counting(true).await
}

/// Makes clouds as [`clouds`] does. Quotas are counted in placement, or from the request specs.
pub(super) async fn clouds_counting(from_placement: bool) -> Vec<Cloud> {
    let counting = Counting { from_placement, recheck: true };
    let env = FaultyBorders::of(Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline));
    let mut clouds = vec![Cloud::new(env, counting, |_| String::new()).await];
    if fresh_postgres().is_some() {
        clouds.push(Cloud::new(FaultyBorders::of(Env::system()), counting, |_| fresh_postgres().unwrap()).await);
    }
    clouds
}

impl Cloud {
    async fn new(env: Env, counting: Counting, url: impl Fn(&str) -> String) -> Cloud {
        let open = |name: &str, schema| Db::open(name, &url(name), schema, &env).unwrap();
        let api = ApiDb::new(open("api", Schema::Api));
        let placement = EmbeddedPlacement::new(open("services", Schema::Services));
        let mut cells = Vec::new();
        for number in 1..=2 {
            let (name, uuid) = (format!("cell{number}"), env.uuid());
            let mapping = CellMapping {
                uuid,
                created_at: env.now(),
                updated_at: None,
                name: name.clone(),
                database_url: String::new(),
                disabled: false,
            };
            api.create_cell_mapping(mapping).await.unwrap();
            cells.push(CellHandle::new(uuid, &name, CellDb::new(open(&name, Schema::Cell)), &env));
        }
        let policy = Arc::new(PolicyFile::built_in().unwrap());
        let catalog = web::Data::new(Catalog {
            env: env.clone(),
            api: api.clone(),
            cells: cells.clone(),
            placement: Arc::new(placement.clone()),
            policy: policy.clone(),
            service_down_time: Duration::from_secs(60),
            cell_timeout: Duration::from_secs(5),
            default_zone: "nova".into(),
            default_limits: default_limits(),
            counting,
            max_limit: 1000,
            skip_down_cells: true,
            host_networks: HostNetworks { usual: HostNetwork::default(), own: Default::default(), hosts_with_functions: 1 },
            key_turns: Turns::new(Turns::half_of_the_cores()),
        });
        let cloud = Cloud { env, api, placement, cells, catalog, policy };
        cloud.add_host(0, "host1").await;
        cloud.add_host(1, "host2").await;
        cloud
    }

    async fn add_host(&self, cell: usize, host: &str) {
        let (cell, now) = (&self.cells[cell], self.env.now());
        let service = Service {
            last_seen_up: Some(now),
            report_count: 1,
            version: 70,
            ..Service::new(self.env.uuid(), host, "nova-compute", "nova", now)
        };
        let node = ComputeNode {
            vcpus: 8,
            memory_mb: 8192,
            local_gb: 100,
            cpu_allocation_ratio: 4.0,
            cpu_info: "{\"arch\":\"x86_64\"}".into(),
            ..ComputeNode::new(self.env.uuid(), host, service.uuid, now)
        };
        self.placement.ensure_provider(node.uuid, host, std::collections::BTreeMap::new(), Vec::new()).await.unwrap();
        register_host(&cell.db, service, node).await;
        self.api.map_hosts(vec![host.to_owned()], cell.uuid).await.unwrap();
    }

    /// Puts an active server of alice's on a host.
    pub async fn add_server(&self, cell: usize, host: &str, name: &str, hidden: bool) -> Uuid {
        let uuid = self.env.uuid();
        self.add_server_as(cell, host, name, hidden, uuid).await;
        uuid
    }

    /// Puts an active server of alice's on a host, under a given id.
    pub async fn add_server_as(&self, cell: usize, host: &str, name: &str, hidden: bool, uuid: Uuid) {
        let flavor = Flavor { id: "1".into(), name: "small".into(), vcpus: 2, memory_mb: 512, root_gb: 10, ..Flavor::default() };
        let mut instance = Instance::new(uuid, "demo", "alice", name, flavor, self.env.now());
        instance.host = Some(host.into());
        instance.node = Some(host.into());
        instance.image_ref = "image".into();
        instance.vm_state = VmState::Active;
        instance.task_state = None;
        instance.hidden = hidden;
        instance.launched_at = Some(self.env.now());
        let fence = Fence { server: uuid, epoch: 1, attempt: 1 };
        self.cells[cell].db.apply(fence, CellTxn::new().create_instance(InstanceBundle::new(instance))).await.unwrap();
        self.cells[cell].db.apply_unfenced(CellTxn::new().recount_usage([host.to_owned()].into())).await.unwrap();
    }

    /// Sends a request with a token at a microversion, and returns status and body; an empty body is null. Checks that the answer names the
    /// version, and that an error has compute's form.
    pub async fn send(&self, token: &str, version: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let (status, _, body) = self.answer(token, version, method, path, body).await;
        (status, body)
    }

    /// Sends a request as `send` does, and also returns the answer's headers.
    pub async fn answer(&self, token: &str, version: &str, method: Method, path: &str, body: Option<Value>) -> (u16, HeaderMap, Value) {
        let catalog = self.catalog.clone();
        let part: Part = Arc::new(move |config| {
            config.app_data(catalog.clone());
            super::configure(config);
        });
        let wiring = Wiring {
            env: self.env.clone(),
            authenticator: Arc::new(Users),
            policy: self.policy.clone(),
            anonymous: None,
            in_flight: InFlight::new(100),
            transfers: Transfers(InFlight::new(100)),
            arrivals: Arrivals::generous(1_000_000),
            clients: Clients::default(),
            cell_timeout: std::time::Duration::from_secs(5),
            parts: vec![part],
        };
        let service = init_service(app(wiring)).await;
        let mut request = TestRequest::default().method(method).uri(&format!("/compute/v2.1{path}"));
        request = request.insert_header(("X-Auth-Token", token)).insert_header(("OpenStack-API-Version", format!("compute {version}")));
        if let Some(body) = body {
            request = request.set_json(body);
        }
        let response = match try_call_service(&service, request.to_request()).await {
            Ok(response) => response,
            Err(error) => panic!("{path}: the door let an error through: {error}"),
        };
        let status = response.status();
        assert_eq!(response.headers().get("X-OpenStack-Nova-API-Version").unwrap(), version, "{path}");
        let headers = response.headers().clone();
        let bytes = read_body(response).await;
        let body: Value = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        if status.is_client_error() || status.is_server_error() {
            let (_, error) = body.as_object().unwrap().iter().next().unwrap();
            assert_eq!(error["code"], status.as_u16(), "{path}: {body}");
        }
        (status.as_u16(), headers, body)
    }

    pub async fn get(&self, token: &str, version: &str, path: &str) -> (u16, Value) {
        self.send(token, version, Method::GET, path, None).await
    }

    pub async fn post(&self, token: &str, version: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(token, version, Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, token: &str, version: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(token, version, Method::PUT, path, Some(body)).await
    }

    pub async fn delete(&self, token: &str, version: &str, path: &str) -> (u16, Value) {
        self.send(token, version, Method::DELETE, path, None).await
    }
}

/// Returns the value at a JSON pointer in each element.
pub(super) fn column(list: &Value, pointer: &str) -> Vec<Value> {
    list.as_array().unwrap().iter().map(|element| element.pointer(pointer).cloned().unwrap_or(Value::Null)).collect()
}

/// Returns the names of an object's fields.
pub(super) fn fields(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// In all microversions unknown names are 404, and others' things need their rule.
#[actix_web::test]
async fn unknown_names_are_not_found_and_rules_hold() {
    for cloud in clouds().await {
        for path in [
            "/flavors/nosuch",
            "/os-keypairs/nosuch",
            "/os-server-groups/nosuch",
            "/os-aggregates/nosuch",
            "/os-hypervisors/nosuch",
            "/extensions/nosuch",
            "/os-keypairs/",
            "/os-simple-tenant-usage/",
            "/nosuch",
        ] {
            for version in ["2.1", "2.104"] {
                assert_eq!(cloud.get("admin", version, path).await.0, 404, "{version} {path}");
            }
        }
        for path in [
            "/os-aggregates",
            "/os-services",
            "/os-hypervisors",
            "/os-hypervisors/detail",
            "/os-availability-zone/detail",
            "/os-quota-sets/elsewhere",
            "/os-quota-class-sets/default",
            "/os-simple-tenant-usage",
            "/os-migrations",
            "/limits?tenant_id=elsewhere",
            "/os-simple-tenant-usage/elsewhere",
        ] {
            let (status, body) = cloud.get("member", "2.80", path).await;
            assert_eq!(status, 403, "{path}: {body}");
        }
        let (_, body) = cloud.get("member", "2.1", "/extensions").await;
        assert!(column(&body["extensions"], "/name").contains(&json!("Hypervisors")));
    }
}
