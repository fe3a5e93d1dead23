//! A cloud without a socket, with a specimen of each resource and a token for each caller.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::Service;
use actix_web::http::Method;
use actix_web::test::{TestRequest, init_service};
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use cellshift::actors::root::Tree;
use cellshift::bootstrap::{self, Cloud};
use cellshift::chaos::audit;
use cellshift::chaos::borders::FaultyBorders;
use cellshift::config::{Config, Seconds};
use cellshift::db::Conn;
use cellshift::env::{Blocking, Clock, Env, RandomIds, SystemClock};
use cellshift::http::server::{Wiring, app};
use cellshift::launch::{self, Assembled};
use cellshift_embedded::identity::{Cost, DomainRef, EmbeddedIdentity, ProjectRef, ScopeRequest, UserRef};

use super::routes;
use super::row::{Body, Row};
use super::stored::Stored;
use crate::bodies::{ApiAnswer, ApiRequest, judge};
use crate::client::PATIENCE;
use crate::databases;

/// Longer than any token lives.
const LONG_AGO: i64 = 72;
pub const PASSWORD: &str = "a long enough password";

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub text: String,
}

impl Answer {
    /// Returns the answer to this request, and panics unless it is as its route gives it.
    #[track_caller]
    fn judged(self, method: &str, path: &str, body: &Body) -> Answer {
        let body = match body {
            Body::None => None,
            Body::Json(body) => Some(body.to_string()),
            Body::Raw(_, text) => Some(text.clone()),
        };
        let header = |name: &str| self.headers.get(name).map(String::as_str);
        judge(ApiRequest { method, path, body: body.as_deref().map(str::as_bytes) }, ApiAnswer::new(self.status, header, &self.text));
        self
    }

    /// Parses the body; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

/// A row's request with its parameters filled in.
pub struct Filled {
    pub path: String,
    pub body: Body,
    /// The token in question, if it is not the caller's own.
    pub about: Option<String>,
}

/// Sends a request. The flag marks an endless answer, of which only the head is read on success.
type Serve = dyn Fn(TestRequest, bool) -> LocalBoxFuture<'static, Answer>;

/// The cloud.
pub struct House {
    serve: Rc<Serve>,
    pub tree: Tree,
    pub wiring: Wiring,
    pub cloud: Cloud,
    /// The router's methods and patterns, with unnamed parameters.
    pub routes: BTreeSet<(String, String)>,
    tokens: BTreeMap<&'static str, String>,
    /// The values of the rows' parameters.
    pub names: BTreeMap<&'static str, String>,
    count: std::cell::Cell<u32>,
    /// The database of the embedded services.
    services: RefCell<Conn>,
    _data: tempfile::TempDir,
}

/// The system's clock, which a test can set back.
#[derive(Default)]
struct SetBack {
    hours: AtomicI64,
}

impl Clock for SetBack {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() - TimeDelta::hours(self.hours.load(Ordering::SeqCst))
    }
}

/// Runs a story in its own house. The audit at its end must be clean.
pub fn visit<F: Future<Output = ()>>(story: impl FnOnce(Rc<House>) -> F) {
    visit_prepared(async |_: &mut House| {}, story);
}

/// Runs a story as [`visit`] does, after a preparation of the house.
pub fn visit_prepared<F: Future<Output = ()>>(prepare: impl AsyncFnOnce(&mut House), story: impl FnOnce(Rc<House>) -> F) {
    stay(|_| {}, prepare, story);
}

/// Runs a story as [`visit`] does, with a configuration that the caller changes.
pub fn visit_configured<F: Future<Output = ()>>(configure: impl FnOnce(&mut Config), story: impl FnOnce(Rc<House>) -> F) {
    stay(configure, async |_: &mut House| {}, story);
}

fn stay<F: Future<Output = ()>>(
    configure: impl FnOnce(&mut Config),
    prepare: impl AsyncFnOnce(&mut House),
    story: impl FnOnce(Rc<House>) -> F,
) {
    let config = actix_rt::System::new().block_on(async {
        let mut house = House::open(configure).await;
        prepare(&mut house).await;
        let house = Rc::new(house);
        story(house.clone()).await;
        let mut house = Rc::into_inner(house).expect("the story is over");
        house.let_admin_in_again().await;
        house.rest().await;
        house.tidy().await;
        let report = audit::audit(&house.tree.world).await.expect("an audit");
        assert!(report.clean && report.checked.unreachable.is_empty(), "{report:#?}");
        house.tree.stop();
        house.cloud.config.clone()
    });
    databases::remove(&config);
}

impl House {
    async fn open(configure: impl FnOnce(&mut Config)) -> House {
        let data = tempfile::tempdir().expect("a directory");
        let mut config = Config { data_dir: data.path().to_owned(), ..Config::default() };
        config.chaos.enabled = true;
        config.http.workers = 1;
        // The rows say which host takes a server.
        config.scheduler.shuffle_best_same_weighed_hosts = false;
        config.identity.password_cost = Cost::CHEAP;
        config.migration.back_off_first = Seconds::millis(5);
        config.migration.back_off_max = Seconds::millis(50);
        config.compute.shelved_offload_time = -1;
        (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
        (config.quota.key_pairs, config.quota.server_groups) = (-1, -1);
        (config.network.quota_router, config.network.quota_floatingip) = (-1, -1);
        (config.network.quota_security_group, config.network.quota_security_group_rule) = (-1, -1);
        configure(&mut config);
        databases::place(&mut config);
        databases::copy_files(&config);
        std::fs::write(config.policy_file(), "\"compute:servers:resize:cross_cell\": \"role:admin\"\n").expect("a policy");
        let clock = Arc::new(SetBack { hours: AtomicI64::new(LONG_AGO) });
        let env = FaultyBorders::of(Env::new(clock.clone(), Arc::new(RandomIds), Blocking::Pool));
        let cloud = bootstrap::open_with(config, env, databases::TWO_PIECES).await.expect("a cloud");
        let passwords = passwords(data.path());
        let expired = token_of_demo(&cloud.services.identity, &passwords["demo"]).await;
        clock.hours.store(0, Ordering::SeqCst);
        let mut parts = launch::parts(&cloud);
        // A debt is tried again at each look.
        parts.settings.debt_rest = Duration::ZERO;
        let Assembled { tree, wiring, .. } = launch::assemble(&cloud, parts, Some(launch::seams())).await.expect("a running cloud");
        let serve = serve(wiring.clone()).await;
        let routes = routes::of(&wiring).await;
        let services = RefCell::new(databases::services(&cloud.config));
        let mut house = House {
            serve,
            tree,
            wiring,
            cloud,
            routes,
            tokens: BTreeMap::from([("garbage", "gAAAAA-no-token".to_owned()), ("expired", expired)]),
            names: BTreeMap::new(),
            count: std::cell::Cell::new(0),
            services,
            _data: data,
        };
        house.let_in(&passwords).await;
        house.furnish().await;
        house
    }

    /// Returns all stored data, for a comparison.
    pub fn stored(&self) -> Stored {
        Stored::of(&self.cloud.config)
    }

    /// Signs in all callers. The reader, the member and the custom role are in project demo.
    async fn let_in(&mut self, passwords: &BTreeMap<String, String>) {
        let admin = self.sign_in("admin", &passwords["admin"], json!({"project": {"name": "admin", "domain": {"id": "default"}}})).await;
        self.keep("admin", admin);
        let member = self.sign_in("demo", &passwords["demo"], json!({"project": {"name": "demo", "domain": {"id": "default"}}})).await;
        self.keep("member", member);
        let unscoped = self.sign_in("demo", &passwords["demo"], json!("unscoped")).await;
        self.keep("unscoped", unscoped);
        let project = self.id_by_name("projects", "demo").await;
        let other = self.make("POST", "/identity/v3/projects", json!({"project": {"name": "other"}}), "/project/id").await;
        let services = self.make("POST", "/identity/v3/projects", json!({"project": {"name": "services"}}), "/project/id").await;
        self.make("POST", "/identity/v3/roles", json!({"role": {"name": "observer"}}), "/role/id").await;
        for (caller, role, project) in [
            ("reader", "reader", &project),
            ("other", "member", &other),
            ("custom", "observer", &project),
            ("service", "service", &services),
        ] {
            let user = json!({"user": {"name": caller, "password": PASSWORD}});
            let user = self.make("POST", "/identity/v3/users", user, "/user/id").await;
            let role = self.id_by_name("roles", role).await;
            let grant = format!("/identity/v3/projects/{project}/users/{user}/roles/{role}");
            self.send_as("admin", "PUT", &grant, "", &Body::None).await;
            let token = self.sign_in(caller, PASSWORD, json!({"project": {"id": project}})).await;
            self.keep(caller, token);
        }
        let member_role = self.id_by_name("roles", "member").await;
        let user = self.id_by_name("users", "demo").await;
        self.names.extend([
            ("home", project.clone()),
            ("project", project),
            ("other_project", other),
            ("user", user),
            ("role", member_role),
        ]);
    }

    /// Malformed requests may have ended the administrator's token.
    async fn let_admin_in_again(&mut self) {
        let password = &passwords(&self.cloud.config.data_dir)["admin"];
        let admin = self.sign_in("admin", password, json!({"project": {"name": "admin", "domain": {"id": "default"}}})).await;
        self.keep("admin", admin);
    }

    fn keep(&mut self, caller: &'static str, token: String) {
        self.tokens.insert(caller, token);
    }

    pub async fn sign_in(&self, name: &str, password: &str, scope: Value) -> String {
        let user = json!({"name": name, "domain": {"id": "default"}, "password": password});
        let body = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}});
        let answer = self.send_as("none", "POST", "/identity/v3/auth/tokens", "", &Body::Json(body)).await;
        assert_eq!(answer.status, 201, "{name}: {}", answer.text);
        answer.headers["x-subject-token"].clone()
    }

    async fn id_by_name(&self, collection: &str, name: &str) -> String {
        let answer = self.send_as("admin", "GET", &format!("/identity/v3/{collection}"), "", &Body::None).await.json();
        let entry = answer[collection].as_array().expect("a list").iter().find(|one| one["name"] == name);
        entry.and_then(|one| one["id"].as_str()).unwrap_or_else(|| panic!("{collection} have no {name}: {answer}")).to_owned()
    }

    /// Returns a caller's token, if it has one.
    pub fn token(&self, caller: &str) -> Option<&str> {
        self.tokens.get(caller).map(String::as_str)
    }

    /// Makes a resource as the administrator, and returns the part of the answer at the pointer.
    async fn make(&self, method: &str, path: &str, body: Value, pointer: &str) -> String {
        self.make_as("admin", method, path, body, pointer).await
    }

    pub async fn make_as(&self, caller: &str, method: &str, path: &str, body: Value, pointer: &str) -> String {
        let version = super::row::version_for(path);
        let answer = self.send_as(caller, method, path, version, &Body::Json(body)).await;
        assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.text);
        match answer.json().pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => panic!("{path}: there is no {pointer} in {}", answer.text),
        }
    }

    /// Reads as the administrator, and returns the part of the answer at the pointer.
    pub async fn look(&self, path: &str, pointer: &str) -> String {
        let answer = self.send_as("admin", "GET", path, super::row::version_for(path), &Body::None).await;
        match answer.json().pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => panic!("{path}: there is no {pointer} in {}", answer.text),
        }
    }

    /// Returns an unused name.
    pub fn fresh_name(&self) -> String {
        self.count.set(self.count.get() + 1);
        format!("new{}", self.count.get())
    }

    /// Sends the row's request with its parameters filled in.
    pub async fn ask(&self, caller: &str, row: &Row, filled: &Filled) -> Answer {
        let mut request = self.request(caller, &row.method, &filled.path, &row.version, &filled.body);
        if let Some(token) = filled.about.as_deref().or(self.tokens.get(caller).map(String::as_str)) {
            request = request.insert_header(("X-Subject-Token", token));
        }
        let answer = (self.serve)(request, row.endless).await;
        answer.judged(&row.method, &filled.path, &filled.body)
    }

    /// Sends a request with the caller's token.
    pub async fn send_as(&self, caller: &str, method: &str, path: &str, version: &str, body: &Body) -> Answer {
        let answer = (self.serve)(self.request(caller, method, path, version, body), false).await;
        answer.judged(method, path, body)
    }

    fn request(&self, caller: &str, method: &str, path: &str, version: &str, body: &Body) -> TestRequest {
        let mut request = TestRequest::with_uri(path).method(Method::from_bytes(method.as_bytes()).expect("a method"));
        request = request.peer_addr(([127, 0, 0, 1], 4711).into());
        if let Some(token) = self.tokens.get(caller) {
            request = request.insert_header(("X-Auth-Token", token.as_str()));
        }
        if !version.is_empty() {
            request = request.insert_header(("OpenStack-API-Version", version));
        }
        match body {
            Body::None => request,
            Body::Json(body) => request.set_json(body),
            Body::Raw(kind, text) => request.insert_header(("Content-Type", kind.as_str())).set_payload(text.clone()),
        }
    }

    /// Waits until no operation holds a server, and no volume, snapshot or backup is changing its state. Looks into the database, because
    /// the lists of the API grow with each specimen.
    pub async fn rest(&self) {
        let resting = async {
            let mut next = tokio::time::interval(Duration::from_millis(2));
            loop {
                let held = self.tree.world.operations.held_servers().await.expect("the journal");
                if held.is_empty() && !databases::any(&mut self.services.borrow_mut(), CHANGING) {
                    return;
                }
                next.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, resting).await.expect("the cloud comes to rest");
    }
}

/// Selects volumes, snapshots and backups that change their state. A volume that a server attaches has an operation; a volume that a user has
/// reserved stays so.
const CHANGING: &str = "SELECT status FROM (SELECT status FROM volumes UNION ALL SELECT status FROM volume_snapshots \
                        UNION ALL SELECT status FROM volume_backups) all_of_them \
                        WHERE status IN ('creating', 'downloading', 'deleting', 'extending', 'restoring')";

/// Makes the application.
async fn serve(wiring: Wiring) -> Rc<Serve> {
    let service = Rc::new(init_service(app(wiring)).await);
    let serve = move |request: TestRequest, head_only: bool| -> LocalBoxFuture<'static, Answer> {
        let service = service.clone();
        Box::pin(async move {
            let response = match service.call(request.to_request()).await {
                Ok(response) => response.into_parts().1.map_into_boxed_body(),
                Err(error) => error.error_response(),
            };
            let status = response.status().as_u16();
            let text = |value: &actix_web::http::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            let body = if head_only && status < 400 { Default::default() } else { whole(response.into_body()).await };
            Answer { status, headers, text: body }
        })
    };
    Rc::new(serve)
}

async fn whole(body: impl MessageBody) -> String {
    let bytes = actix_web::body::to_bytes(body).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn token_of_demo(identity: &EmbeddedIdentity, password: &str) -> String {
    let user = UserRef::Name { name: "demo".to_owned(), domain: DomainRef::default() };
    let project = ProjectRef::Name { name: "demo".to_owned(), domain: DomainRef::default() };
    identity.authenticate_password(&user, password, ScopeRequest::Project(project)).await.expect("a token").id
}

/// Returns the passwords of `clouds.yaml`, by user.
fn passwords(data: &std::path::Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(data.join("clouds.yaml")).expect("clouds.yaml");
    let clouds: Value = serde_yaml_ng::from_str(&text).expect("YAML");
    let clouds = clouds["clouds"].as_object().expect("clouds").values();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    clouds.map(|cloud| (text(&cloud["auth"]["username"]), text(&cloud["auth"]["password"]))).collect()
}
