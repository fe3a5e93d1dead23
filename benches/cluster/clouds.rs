//! Two clouds as their users see them: hosts in the service's own process, and hosts in agents over NATS.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use cellshift::cluster::{Cluster, Plan};
use cellshift::config::Config;
use cellshift_embedded::identity::Cost;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::Client;
use crate::events::Events;
use crate::process::{Process, directory};
use crate::stage::soon;

/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The number of cells, and of hosts in each.
const CELLS: u32 = 2;
const HOSTS: u32 = 2;
/// The pause between two looks whether an operation has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// A cloud, and its callers.
pub struct Cloud {
    member: Client,
    admin: Client,
    events: Events,
    create: Value,
    kind: Kind,
    _dir: TempDir,
}

enum Kind {
    Service(Process),
    Cluster(Box<Cluster>),
}

impl Cloud {
    /// Starts the program with hosts in its process.
    pub async fn service() -> Cloud {
        let (dir, config) = place();
        let process = Process::start(&config);
        let address = process.address;
        Cloud::of(dir, address, Kind::Service(process)).await
    }

    /// Starts a cluster with as many hosts.
    pub async fn cluster() -> Cloud {
        let (dir, mut config) = place();
        config.http.listen.set_port(0);
        let path = std::fs::canonicalize(dir.path()).expect("its whole path");
        let plan = Plan { dir: path, program: env!("CARGO_BIN_EXE_cellshift").into(), agents: Some(HOSTS), config };
        let cluster = Cluster::start(plan).await.unwrap_or_else(|error| panic!("the cluster starts, not: {error}"));
        let address = cluster.address();
        Cloud::of(dir, address, Kind::Cluster(Box::new(cluster))).await
    }

    async fn of(dir: TempDir, address: SocketAddr, kind: Kind) -> Cloud {
        let clouds = dir.path().join("clouds.yaml");
        let member = Client::log_in(address, &clouds, "cellshift").await;
        let admin = Client::log_in(address, &clouds, "cellshift-admin").await;
        let images = member.look("/image/v2/images?name=tiny").await;
        let networks = member.look("/network/v2.0/networks?name=private").await;
        let (image, network) = (&images["images"][0]["id"], &networks["networks"][0]["id"]);
        let create = json!({"server": {
            "name": "measured", "flavorRef": "gen1.small", "imageRef": image, "networks": [{"uuid": network}],
        }});
        let events = Events::follow(&admin).await;
        Cloud { member, admin, events, create, kind, _dir: dir }
    }

    /// Makes a server in the first cell, and waits until it runs and is at rest.
    pub async fn create(&self) -> Uuid {
        let server = self.member.ask_for_server(&self.create).await;
        self.seen(server, "instance.create.end", "ACTIVE").await;
        self.rest(server).await;
        server
    }

    /// Requests an action, and returns the time until its notification has come and the server has this status. Then waits for rest.
    pub async fn act(&self, server: Uuid, action: Value, event: &str, status: &str) -> Duration {
        let began = Instant::now();
        self.member.act(server, &action).await;
        self.seen(server, event, status).await;
        let time = began.elapsed();
        self.rest(server).await;
        time
    }

    /// Deletes a server, and waits until it is gone.
    pub async fn delete(&self, server: Uuid) {
        self.member.delete(server).await;
        self.events.until(server, "instance.delete.end").await;
    }

    async fn seen(&self, server: Uuid, event: &str, status: &str) {
        self.events.until(server, event).await;
        // The status follows the notification with a short delay.
        while self.member.status(server).await != status {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until no operation and no debt of the server is left.
    async fn rest(&self, server: Uuid) {
        let path = format!("/ops/v1/migrations?server={server}");
        let is_over = |one: &Value| ["done", "unwound"].contains(&one["state"].as_str().unwrap_or_default()) && one["debts"] == json!([]);
        let is_at_rest = async || {
            let listed = self.admin.look(&path).await;
            listed["migrations"].as_array().into_iter().flatten().all(is_over)
        };
        let rest = async {
            while !is_at_rest().await {
                tokio::time::sleep(PAUSE).await;
            }
        };
        soon("the server is at rest", rest).await;
    }

    /// Ends all processes.
    pub async fn stop(self) {
        drop(self.events);
        match self.kind {
            Kind::Service(process) => process.stop(),
            Kind::Cluster(cluster) => cluster.stop().await.expect("the cluster stops"),
        }
    }
}

/// Makes a directory, and a configuration with room for servers in it.
fn place() -> (TempDir, Config) {
    let dir = directory("cluster-");
    write_policy(dir.path());
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    (config.cells.count, config.cells.hosts_per_cell) = (Some(CELLS), Some(HOSTS));
    config.identity.password_cost = Cost::CHEAP;
    (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (4096, 4 << 20, 8192);
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.log.level = "warn".to_owned();
    (dir, config)
}

fn write_policy(dir: &Path) {
    std::fs::write(dir.join("policy.yaml"), POLICY).expect("the policy");
}
