//! A cluster with its callers, and the conditions for which stories wait.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use cellshift::client::{ADMIN, Client, OPERATORS};
use cellshift::cluster::{Cluster, Plan, Role};
use cellshift::config::{Config, Seconds};
use cellshift::virt::Operation;
use cellshift_nats::testkit::proxy::Proxy;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, interval};

/// Longer than anything here takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The number of lines of each log that a failure prints.
const LAST_LINES: usize = 60;

/// The host of each cell.
pub const SOURCE: &str = "cell1-host1";
pub const TARGET: &str = "cell2-host1";

/// A cluster whose steps on hosts take long enough to be met in the middle.
pub struct Stage {
    pub cluster: Cluster,
    pub member: Client,
    pub admin: Client,
    dir: TempDir,
}

/// Returns the tested program: this build's, or the one that `CELLSHIFT_BIN` names, such as a release.
pub fn program() -> OsString {
    std::env::var_os("CELLSHIFT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_cellshift").into())
}

/// Runs a subcommand to its end.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the program runs")
}

/// Waits until it is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let (deadline, mut looks) = (Instant::now() + PATIENCE, interval(LOOK_EVERY));
    while !is_so().await {
        assert!(Instant::now() < deadline, "still not so: {what}");
        looks.tick().await;
    }
}

/// Allows members' moves to leave their cell.
pub fn allow_moves(data: &Path) {
    let rule = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
    std::fs::write(data.join("policy.yaml"), rule).expect("the policy");
}

impl Stage {
    /// Starts a cluster with an agent in each cell.
    pub async fn set() -> Stage {
        Stage::with_agents(1).await
    }

    /// Starts a cluster with this number of agents in each cell.
    pub async fn with_agents(agents: u32) -> Stage {
        Stage::start(tempfile::tempdir().expect("a directory"), agents, |_| {}, |_, server| server).await
    }

    /// Starts a cluster with this number of agents in each cell, each of which reaches NATS through a proxy. Returns the proxies by their
    /// hosts.
    pub async fn with_proxies(agents: u32) -> (Stage, BTreeMap<String, Proxy>) {
        let mut proxies = BTreeMap::new();
        let way = |host: &str, server| proxies.entry(host.to_owned()).or_insert_with(|| Proxy::before(server)).address();
        let stage = Stage::start(tempfile::tempdir().expect("a directory"), agents, |_| {}, way).await;
        (stage, proxies)
    }

    /// Starts a cluster in this directory, with agents that reach their cell's NATS where `way` says for the host and the server's address.
    pub async fn start(
        dir: TempDir,
        agents: u32,
        configure: impl FnOnce(&mut Config),
        way: impl FnMut(&str, SocketAddr) -> SocketAddr,
    ) -> Stage {
        allow_moves(dir.path());
        let mut config = Config::default();
        config.http.listen.set_port(0);
        config.compute.latency_ms = BTreeMap::from([
            (Operation::Define, 700),
            (Operation::Start, 200),
            (Operation::GuestShutdown, 200),
            (Operation::CopyDisks, 700),
        ]);
        // A host that stands still is noticed soon, and asked again soon.
        config.migration.deadlines = BTreeMap::from([("prepare_at_target".to_owned(), 3)]);
        config.migration.back_off_max = Seconds::whole(2);
        configure(&mut config);
        let path = dir.path().canonicalize().expect("its whole path");
        let plan = Plan { dir: path, program: program().into(), agents: Some(agents), config };
        let cluster = Cluster::start_through(plan, way).await.unwrap_or_else(|error| panic!("the cluster starts, not: {error}"));
        let clouds = cluster.clouds_file();
        let member = Client::log_in(&clouds, "cellshift").await.expect("a member");
        let admin = Client::log_in(&clouds, ADMIN).await.expect("an administrator");
        Stage { cluster, member, admin, dir }
    }

    /// Returns the data directory.
    pub fn data(&self) -> &str {
        self.dir.path().to_str().expect("UTF-8")
    }

    /// Makes a server on the only host of the source cell, and waits until it runs.
    pub async fn create(&self, name: &str) -> String {
        let id = self.create_in_cell1(name).await;
        assert_eq!(self.host_of(&id).await, SOURCE);
        id
    }

    /// Makes a server in the source cell, and waits until it runs.
    pub async fn create_in_cell1(&self, name: &str) -> String {
        self.create_as(&self.member, json!({"name": name, "flavorRef": "gen1.small"})).await
    }

    /// Makes a server of the administrators on this host, for which the hosts of both cells have the hardware, and waits until it runs.
    pub async fn create_on(&self, host: &str, name: &str) -> String {
        self.create_as(&self.admin, json!({"name": name, "flavorRef": "m1.tiny", "host": host})).await
    }

    async fn create_as(&self, owner: &Client, mut server: Value) -> String {
        let images = owner.get("image", "/v2/images?name=tiny").await.expect("images");
        let networks = owner.get("network", "/v2.0/networks?name=private").await.expect("networks");
        server["imageRef"] = images["images"][0]["id"].clone();
        server["networks"] = json!([{"uuid": networks["networks"][0]["id"]}]);
        let made = owner.post("compute", "/servers", json!({ "server": server })).await.expect("a server");
        let id = made["server"]["id"].as_str().expect("an id").to_owned();
        self.rests(&id, &["ACTIVE"]).await;
        id
    }

    /// Requests an action as the server's owner.
    pub async fn act(&self, server: &str, action: Value) {
        act(&self.member, server, action).await;
    }

    /// Requests an action as an administrator.
    pub async fn act_as_admin(&self, server: &str, action: Value) {
        act(&self.admin, server, action).await;
    }

    /// Begins a move to the other cell.
    pub async fn begin_move(&self, server: &str) {
        self.act(server, json!({"resize": {"flavorRef": "gen2.small"}})).await;
    }

    /// Begins a move, and waits until it is at this step.
    pub async fn begin_move_up_to(&self, server: &str, step: &str) {
        self.begin_move(server).await;
        self.is_at(server, step).await;
    }

    /// Waits until the server's newest operation is at this step.
    pub async fn is_at(&self, server: &str, step: &str) {
        until(&format!("the move is at {step}"), async || self.newest(server).await["step"] == step).await;
    }

    /// Returns the server's newest operation as operators see it, with its journal; null while that is not known.
    pub async fn newest(&self, server: &str) -> Value {
        let listed = self.operations(server).await;
        let Some(uuid) = listed.first().and_then(|operation| operation["uuid"].as_str()) else { return Value::Null };
        self.admin.get(OPERATORS, &format!("/migrations/{uuid}")).await.unwrap_or_default()
    }

    /// Returns the server's operations, newest first; none while the controller does not answer.
    async fn operations(&self, server: &str) -> Vec<Value> {
        let answer = self.admin.get(OPERATORS, &format!("/migrations?server={server}")).await.unwrap_or_default();
        answer["migrations"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the host that the server's record names.
    pub async fn host_of(&self, server: &str) -> String {
        self.look(server).await["OS-EXT-SRV-ATTR:host"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the server as administrators see it; null while the controller does not answer.
    pub async fn look(&self, server: &str) -> Value {
        self.admin.get("compute", &format!("/servers/{server}")).await.map(|body| body["server"].clone()).unwrap_or_default()
    }

    /// Waits until no operation and no debt of the server is left and its status is one of these. Returns the status.
    pub async fn rests(&self, server: &str, statuses: &[&str]) -> String {
        let (deadline, mut looks) = (Instant::now() + PATIENCE, interval(LOOK_EVERY));
        loop {
            looks.tick().await;
            let (look, operations) = (self.look(server).await, self.operations(server).await);
            let is_over =
                |one: &Value| ["done", "unwound"].contains(&one["state"].as_str().unwrap_or_default()) && one["debts"] == json!([]);
            let status = look["status"].as_str().unwrap_or_default().to_owned();
            let is_idle = look["OS-EXT-STS:task_state"].is_null() && operations.iter().all(is_over);
            if is_idle && statuses.contains(&status.as_str()) {
                return status;
            }
            if Instant::now() > deadline {
                let journal = serde_json::to_string_pretty(&self.newest(server).await).unwrap_or_default();
                panic!("server {server} does not come to rest as {statuses:?}: {look}\n{journal}\n{}", self.logs());
            }
        }
    }

    /// Confirms a move that has arrived, and waits for the end.
    pub async fn confirm(&self, server: &str) {
        self.act(server, json!({"confirmResize": null})).await;
        self.rests(server, &["ACTIVE"]).await;
        assert_eq!(self.host_of(server).await, TARGET);
    }

    /// Waits until operators see the host in this state.
    pub async fn is(&self, host: &str, state: &str) {
        let path = format!("/hosts/{host}");
        let shown = async || self.admin.get(OPERATORS, &path).await.unwrap_or_default()["host"]["state"].clone();
        until(&format!("{host} is {state}"), async || shown().await == state).await;
    }

    /// Waits until all hosts are up and the audit, which asks their agents, is clean.
    pub async fn is_clean(&self) {
        for agent in self.cluster.agents() {
            if let Role::Agent(host) = agent {
                self.is(&host, "up").await;
            }
        }
        let (deadline, mut looks) = (Instant::now() + PATIENCE, interval(LOOK_EVERY));
        loop {
            looks.tick().await;
            let audit = run(&["audit", "--data-dir", self.data()]);
            if audit.status.success() {
                break;
            }
            let words = String::from_utf8_lossy(&audit.stdout).into_owned();
            assert!(Instant::now() < deadline, "the audit is not clean: {words}\n{}", self.logs());
        }
    }

    /// Checks the audit, and takes the cluster down.
    pub async fn end(self) {
        self.is_clean().await;
        self.cluster.stop().await.expect("the cluster stops");
    }

    /// Returns the last lines of all logs.
    fn logs(&self) -> String {
        let brokers = ["cell1", "cell2"].map(|cell| Role::Broker(cell.to_owned()));
        let roles = self.cluster.agents().into_iter().chain(brokers).chain([Role::Controller]);
        roles.map(|role| format!("== {role}\n{}\n", last_lines(&self.cluster.log(&role)))).collect()
    }
}

async fn act(client: &Client, server: &str, action: Value) {
    let acted = client.post("compute", &format!("/servers/{server}/action"), action).await;
    acted.unwrap_or_else(|error| panic!("{error}"));
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("access_log")).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
