//! A whole cloud in its own directory, for tests that crash it. Each life runs on its own thread. [`Cloud::restart`] ends a life as the
//! death of its process would, and starts the next over the same files.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use uuid::Uuid;

use cellshift::actors::root::Tree;
use cellshift::bootstrap::seat::LOCK_FILE;
use cellshift::bootstrap::{self, Samples};
use cellshift::chaos::audit;
use cellshift::chaos::borders::FaultyBorders;
use cellshift::chaos::point::FaultPoints;
use cellshift::chaos::seams::Seams;
use cellshift::config::Config;
use cellshift::db::cell::CellTxn;
use cellshift::domain::host_trial::HostTrial;
use cellshift::domain::service::ServiceChange;
use cellshift::env::{Blocking, Clock, Env, RandomIds, SystemClock};
use cellshift::launch::{self, Running};
use cellshift::saga::world::World;
use cellshift::virt::HostUnreachable;

use crate::stage::quick_config;
use crate::{bodies, databases};

/// The maximum time of any wait: a run that takes longer is stuck.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n\
                      \"os_compute_api:os-migrate-server:migrate_live\": \"rule:project_member_or_admin\"\n\
                      \"os_compute_api:os-evacuate\": \"rule:project_member_or_admin\"\n\
                      \"ops:heal_allocations\": \"role:member\"\n";

/// The cloud: cell1 (hardware gen1) and cell2 (gen2) with two hosts each; members may move servers between cells, and
/// alive within them.
pub struct Cloud {
    pub config: Config,
    samples: Samples,
    life: Option<RunningService>,
    http: reqwest::Client,
    /// The token of `demo`, a member of project demo.
    member: String,
    admin: String,
    /// The network `private`, of new servers' ports.
    pub network: Uuid,
    /// None when it was given away.
    dir: Option<TempDir>,
}

/// A clock whose drop shows when nobody holds it any more.
struct ServiceClock {
    _held: mpsc::Sender<()>,
}

impl Clock for ServiceClock {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now()
    }
}

/// A run of the process.
struct RunningService {
    tree: Tree,
    seams: Seams,
    address: SocketAddr,
    image: Uuid,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    /// Carries no messages. It closes when the last part of this life is dropped, because each part holds its environment.
    gone: mpsc::Receiver<()>,
}

impl RunningService {
    fn start(config: Config, seams: Seams, samples: Samples) -> RunningService {
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let (held, gone) = mpsc::channel();
        let env = Env::new(Arc::new(ServiceClock { _held: held }), Arc::new(RandomIds), Blocking::Pool);
        let env = FaultyBorders::of(env);
        let fitted = seams.clone();
        let thread = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let cloud = bootstrap::open_with(config, env, samples).await.expect("a cloud opens");
                let images = cloud.services.images.list(&Default::default(), Default::default()).await.expect("images");
                let image = images.iter().find(|image| image.name.as_deref() == Some("tiny")).expect("the image").id;
                let parts = launch::parts(&cloud);
                let running = launch::launch_with(cloud, parts, Some(fitted), listener).await.expect("a cloud runs");
                let Running { tree, address, server, .. } = running;
                started.send((tree, address, image)).expect("the test waits");
                let _ = ended.await;
                server.stop(false).await;
            });
            // The runtime drops all unfinished work here: nothing is told to stop.
        });
        let (tree, address, image) = starting.recv_timeout(PATIENCE).expect("the cloud starts");
        RunningService { tree, seams, address, image, end, thread, gone }
    }

    /// Returns when nothing of the life is left: no actor, no request, no database, no waiting write.
    fn crash(self) {
        let RunningService { tree, end, thread, gone, .. } = self;
        let _ = end.send(());
        thread.join().expect("the life ends");
        drop(tree);
        let left = gone.recv_timeout(PATIENCE).expect_err("nothing is ever sent");
        assert_eq!(left, mpsc::RecvTimeoutError::Disconnected, "something of a dead process lives on");
    }
}

impl Cloud {
    /// Starts a new cloud, on PostgreSQL if `CELLSHIFT_TEST_POSTGRES` names a server.
    pub async fn start() -> Cloud {
        Cloud::start_with(|_| {}).await
    }

    /// Starts as [`Cloud::start`] does, with a configuration changed by `configure`, which may also place databases.
    pub async fn start_with(configure: impl FnOnce(&mut Config)) -> Cloud {
        Cloud::start_from(databases::TWO_PIECES, configure).await
    }

    /// Starts as [`Cloud::start_with`] does, with an image of 64 KiB, for tests with hundreds of moves.
    pub async fn start_light(configure: impl FnOnce(&mut Config)) -> Cloud {
        Cloud::start_from(Samples { image_bytes: 64 * 1024 }, configure).await
    }

    async fn start_from(samples: Samples, configure: impl FnOnce(&mut Config)) -> Cloud {
        let place_and_configure = |config: &mut Config| {
            databases::place(config);
            configure(config);
            databases::copy_files(config);
        };
        Cloud::start_in(tempfile::tempdir().expect("a directory"), samples, place_and_configure).await
    }

    /// A new cloud on SQLite whose image has a few bytes, so that its data directory can be kept.
    pub async fn start_small(configure: impl FnOnce(&mut Config)) -> Cloud {
        Cloud::start_in(tempfile::tempdir().expect("a directory"), Samples { image_bytes: 4096 }, configure).await
    }

    /// A cloud over a data directory that another process left; on SQLite.
    pub async fn start_over(dir: TempDir, configure: impl FnOnce(&mut Config)) -> Cloud {
        Cloud::start_in(dir, databases::TWO_PIECES, configure).await
    }

    async fn start_in(dir: TempDir, samples: Samples, configure: impl FnOnce(&mut Config)) -> Cloud {
        let mut config = quick_config(dir.path(), 2);
        // A guest waits for its ports, so shorten the deadlines of steps that wait for ports that cannot be plugged.
        config.migration.deadlines = ["stop_source_guest", "stop_target_guest", "fence_source"].map(|step| (step.to_owned(), 3)).into();
        std::fs::write(config.policy_file(), POLICY).expect("a policy");
        configure(&mut config);
        // The lock file of the program: a start knows by it that the former process is dead, and does not wait for the end of its seat.
        std::fs::File::create(config.data_dir.join(LOCK_FILE)).expect("a file");
        let life = RunningService::start(config.clone(), launch::seams(), samples);
        // A connection of its own for each request: the server ends idle ones, at any moment, and so does a restart.
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
        let mut cloud = Cloud {
            config,
            samples,
            life: Some(life),
            http,
            member: String::new(),
            admin: String::new(),
            network: Uuid::nil(),
            dir: Some(dir),
        };
        cloud.member = cloud.sign_in("cellshift").await;
        cloud.admin = cloud.sign_in("cellshift-admin").await;
        cloud.network = id_of(&cloud.look("/network/v2.0/networks?name=private").await["networks"][0]);
        cloud
    }

    fn life(&self) -> &RunningService {
        self.life.as_ref().expect("a cloud lives until it is dropped")
    }

    /// Kills the process at any point, and starts another over the same files.
    pub fn restart(&mut self) {
        self.restart_after(|_| {});
    }

    /// Restarts as [`Cloud::restart`] does, with work between the two lives.
    pub fn restart_after(&mut self, between: impl FnOnce(&Config)) {
        self.restart_with(launch::seams(), between);
    }

    /// Restarts as [`Cloud::restart`] does, and keeps the armed faults.
    pub fn restart_under_faults(&mut self) {
        let seams = self.life().seams.clone();
        self.restart_with(seams, |_| {});
    }

    fn restart_with(&mut self, seams: Seams, between: impl FnOnce(&Config)) {
        if let Some(life) = self.life.take() {
            life.crash();
        }
        between(&self.config);
        self.life = Some(RunningService::start(self.config.clone(), seams, self.samples));
    }

    /// The process dies, wherever it is, and leaves its data directory and its databases.
    pub fn abandon(mut self) -> TempDir {
        if let Some(life) = self.life.take() {
            life.crash();
        }
        self.dir.take().expect("a directory")
    }

    /// Returns the faults of steps.
    pub fn faults(&self) -> &FaultPoints {
        &self.life().seams.steps
    }

    pub fn tree(&self) -> &Tree {
        &self.life().tree
    }

    pub fn world(&self) -> &World {
        &self.tree().world
    }

    /// Returns the public image `tiny`.
    pub fn image(&self) -> Uuid {
        self.life().image
    }

    /// Returns the token of a cloud in `clouds.yaml`.
    async fn sign_in(&self, cloud: &str) -> String {
        let text = std::fs::read_to_string(self.config.data_dir.join("clouds.yaml")).expect("clouds.yaml");
        let clouds: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let auth = &clouds["clouds"][cloud]["auth"];
        let domain = json!({"id": "default"});
        let user = json!({"name": auth["username"], "domain": domain, "password": auth["password"]});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": auth["project_name"], "domain": domain}},
        }});
        let url = format!("http://{}/identity/v3/auth/tokens", self.life().address);
        let answer = self.http.post(url).json(&body).send().await.expect("an answer");
        answer.headers()["X-Subject-Token"].to_str().expect("a token").to_owned()
    }

    /// Sends a request of the member for `path` below the root. Returns the status and the body (null if it is not JSON).
    pub async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.try_send(method, path, body).await.expect("an answer")
    }

    /// Reads as an administrator; the service must answer.
    pub async fn look(&self, path: &str) -> Value {
        let (status, body) = self.send_as(&self.admin, "GET", path, None).await.expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Sends a request of an administrator, as [`Cloud::send`] does.
    pub async fn operate(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send_as(&self.admin, method, path, Some(body)).await.expect("an answer")
    }

    /// Sends as [`Cloud::send`] does, to a process that may die before it answers.
    pub async fn try_send(&self, method: &str, path: &str, body: Option<Value>) -> reqwest::Result<(u16, Value)> {
        self.send_as(&self.member, method, path, body).await
    }

    async fn send_as(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> reqwest::Result<(u16, Value)> {
        let method = method.parse().expect("a method");
        let url = format!("http://{}{path}", self.life().address);
        let mut request = self.http.request(method, url).header("X-Auth-Token", token).timeout(PATIENCE);
        // The last one with these actions.
        let is_old = body.as_ref().is_some_and(|body| body.get("addFixedIp").or(body.get("removeFixedIp")).is_some());
        request = request.header("OpenStack-API-Version", if is_old { "compute 2.43" } else { "compute 2.93" });
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let (status, _, text) = bodies::send(request).await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }

    /// Sends `POST /servers/{id}/action`, which must be accepted.
    pub async fn act(&self, server: Uuid, action: Value) {
        let (status, body) = self.send("POST", &format!("/compute/v2.1/servers/{server}/action"), Some(action)).await;
        assert!(status == 202 || status == 204 || status == 200, "{status}: {body}");
    }

    /// Returns the body that requests a server in cell1 with a port and a volume, which is deleted with the server.
    pub fn new_server(&self) -> Value {
        let root = json!({"boot_index": 0, "uuid": self.image(), "source_type": "image", "destination_type": "local",
            "delete_on_termination": true});
        let data = json!({"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1,
            "delete_on_termination": true});
        json!({"server": {"name": "one", "flavorRef": "gen1.small", "imageRef": self.image(), "networks": "auto",
            "block_device_mapping_v2": [root, data]}})
    }

    /// Changes the request for a server: it has these ports, and one that is made for it.
    #[must_use]
    pub fn with_ports(&self, mut new: Value, ports: &[Uuid]) -> Value {
        let mut networks: Vec<Value> = ports.iter().map(|port| json!({"port": port})).collect();
        networks.push(json!({"uuid": self.network}));
        new["server"]["networks"] = json!(networks);
        new
    }

    /// Makes a port of the member's that asks for bandwidth and packet rates.
    pub async fn make_asking_port(&self) -> Uuid {
        let rules = [
            ("minimum_bandwidth", json!({"min_kbps": 1000, "direction": "egress"})),
            ("minimum_bandwidth", json!({"min_kbps": 2000, "direction": "ingress"})),
            ("minimum_packet_rate", json!({"min_kpps": 3, "direction": "any"})),
        ];
        self.make_port("minimum", &rules, "normal").await
    }

    /// Makes a port of the member's that asks for bandwidth of a physical function, and so for a virtual function.
    pub async fn make_direct_port(&self) -> Uuid {
        self.make_port("function", &[("minimum_bandwidth", json!({"min_kbps": 1000, "direction": "egress"}))], "direct").await
    }

    async fn make_port(&self, policy: &str, rules: &[(&str, Value)], vnic_type: &str) -> Uuid {
        let policy = self.policy(policy, rules).await;
        let port = json!({"port": {"network_id": self.network, "qos_policy_id": policy, "binding:vnic_type": vnic_type}});
        let (status, body) = self.send("POST", "/network/v2.0/ports", Some(port)).await;
        assert_eq!(status, 201, "{body}");
        id_of(&body["port"])
    }

    /// Returns the policy with this name, and makes it first if need be.
    async fn policy(&self, name: &str, rules: &[(&str, Value)]) -> Value {
        let policies = "/network/v2.0/qos/policies";
        let id = self.look(&format!("{policies}?name={name}")).await["policies"][0]["id"].clone();
        if !id.is_null() {
            return id;
        }
        let (status, made) = self.operate("POST", policies, json!({"policy": {"name": name, "shared": true}})).await;
        assert_eq!(status, 201, "{made}");
        let id = made["policy"]["id"].clone();
        for (kind, rule) in rules {
            let path = format!("{policies}/{}/{kind}_rules", id.as_str().expect("an id"));
            let (status, made) = self.operate("POST", &path, json!({format!("{kind}_rule"): rule})).await;
            assert_eq!(status, 201, "{made}");
        }
        id
    }

    /// Requests [`Cloud::new_server`].
    pub async fn ask_for_server(&self) -> Uuid {
        self.ask_for(self.new_server()).await
    }

    /// Requests a server in cell2.
    pub async fn ask_for_server_in_cell2(&self) -> Uuid {
        let mut new = self.new_server();
        new["server"]["flavorRef"] = json!("gen2.small");
        self.ask_for(new).await
    }

    /// Returns the body that requests a server whose root disk is a volume.
    pub fn new_server_on_a_volume(&self) -> Value {
        let mut new = self.new_server();
        let root = &mut new["server"]["block_device_mapping_v2"][0];
        (root["destination_type"], root["volume_size"]) = (json!("volume"), json!(1));
        new
    }

    /// Returns the body that requests a server that is tied to the zone of cell1, and that any hardware can run.
    pub fn new_server_for_any_cell(&self, on_a_volume: bool) -> Value {
        let mut new = if on_a_volume { self.new_server_on_a_volume() } else { self.new_server() };
        (new["server"]["flavorRef"], new["server"]["availability_zone"]) = (json!("m1.tiny"), json!("cell1"));
        new
    }

    pub async fn ask_for(&self, new: Value) -> Uuid {
        let (status, body) = self.send("POST", "/compute/v2.1/servers", Some(new)).await;
        assert_eq!(status, 202, "{body}");
        id_of(&body["server"])
    }

    /// Makes a volume of the member's.
    pub async fn make_volume(&self) -> Uuid {
        let (status, body) = self.send("POST", "/volume/v3/volumes", Some(json!({"volume": {"size": 1}}))).await;
        assert_eq!(status, 202, "{body}");
        let volume = id_of(&body["volume"]);
        let made = async {
            // The volume service has no notifications, so its clients must ask.
            while self.world().volumes.volume(volume).await.expect("the volume").status != "available" {}
        };
        tokio::time::timeout(PATIENCE, made).await.expect("a volume is made");
        volume
    }

    /// Forces the server's host down, and all others up.
    pub async fn force_host_down(&self, server: Uuid) {
        let mapping = self.world().api.instance_mapping(server).await.expect("a mapping");
        let cell = self.world().cell_name(mapping.cell_uuid.expect("a cell")).expect("a cell");
        let db = &self.world().cells[cell].db;
        let host = db.instance(server).await.expect("a record").host;
        self.force_up().await;
        let service = db.service_on(&host.expect("a host"), "nova-compute").await.expect("a service").uuid;
        let down = ServiceChange { forced_down: Some(true), ..ServiceChange::default() };
        db.apply_unfenced(CellTxn::new().service_change(service, down)).await.expect("a change");
    }

    /// Forces all hosts up.
    pub async fn force_up(&self) {
        for cell in self.world().cells.values() {
            for service in cell.db.services().await.expect("services").into_iter().filter(|service| service.forced_down) {
                let up = ServiceChange { forced_down: Some(false), ..ServiceChange::default() };
                cell.db.apply_unfenced(CellTxn::new().service_change(service.uuid, up)).await.expect("a change");
            }
        }
    }

    /// Waits until no operation holds the server. False if that takes too long.
    pub async fn at_rest(&self, server: Uuid) -> bool {
        matches!(tokio::time::timeout(PATIENCE, self.tree().conductor.until_at_rest(server)).await, Ok(Ok(())))
    }

    /// Returns the server's status as the member sees it.
    pub async fn status(&self, server: Uuid) -> String {
        let (status, body) = self.send("GET", &format!("/compute/v2.1/servers/{server}"), None).await;
        assert_eq!(status, 200, "{body}");
        body["server"]["status"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for a notification about a server or a cell, possibly from an earlier life, and returns its data.
    pub async fn notification(&self, event_type: &str, subject: Uuid) -> Value {
        let mut events = self.tree().notifier.subscribe(Some(0));
        let data = async {
            while let Some(record) = events.next().await {
                let envelope: Value = serde_json::from_str(&record.line).expect("an envelope");
                if envelope["event_type"] == event_type && envelope["payload"]["uuid"] == json!(subject) {
                    return envelope["payload"]["nova_object.data"].clone();
                }
            }
            panic!("the notifier has gone");
        };
        tokio::time::timeout(PATIENCE, data).await.unwrap_or_else(|_| panic!("nobody told of {event_type} for {subject}"))
    }

    /// Waits until each host has started and has tried to start the guests that ran before the restart.
    pub async fn guests_return(&self) -> Result<(), HostUnreachable> {
        for cell in &self.tree().cells {
            for (host, _) in cell.hosts.hosts() {
                // The first call answers when the host's actor has been started, the second when it is ready.
                cell.hosts_here.power_on(&host).await?;
                let _ = cell.hosts.trial(&host, HostTrial::ResumeGuests, PATIENCE).await?;
            }
        }
        Ok(())
    }

    /// Returns the audit's findings, one per line.
    pub async fn audit(&self) -> Vec<String> {
        let report = audit::thorough_audit(self.world()).await.expect("the API database answers");
        let violations = report.violations.iter().map(|violation| violation.to_string());
        violations.chain(report.checked.unreachable.iter().map(|silent| format!("not checked: {silent}"))).collect()
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if let Some(life) = self.life.take() {
            life.crash();
        }
        if !std::thread::panicking() && self.dir.is_some() {
            databases::remove(&self.config);
        }
    }
}

/// Adds a rule to the policy of a cloud that has not started.
pub fn add_policy(config: &Config, rule: &str) {
    let text = std::fs::read_to_string(config.policy_file()).expect("a policy");
    std::fs::write(config.policy_file(), text + rule).expect("a policy");
}

/// Returns the id in a resource's body.
fn id_of(resource: &Value) -> Uuid {
    let id = resource["id"].as_str().unwrap_or_else(|| panic!("no id in {resource}"));
    Uuid::parse_str(id).expect("a uuid")
}

/// Compares two maps of names, for readable differences.
pub fn difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let line = |name: &String| {
        let (was, is) = (before.get(name).map_or("-", String::as_str), after.get(name).map_or("-", String::as_str));
        (was != is).then(|| format!("{name}: was {was}, is {is}"))
    };
    names.into_iter().filter_map(line).collect()
}
