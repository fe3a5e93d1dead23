//! The program as a process, with its files under the target directory, and with hosts and quotas for all servers.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use cellshift::config::Config;
use cellshift::virt::Operation;

use crate::HELD_AT;
use crate::client::Client;
use crate::databases::Databases;
use crate::process::{Process, directory};

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// The smallest number of hosts in each cell, and the number of servers for each: a host refuses many requests at once.
const HOSTS: usize = 10;
const SERVERS_OF_HOST: usize = 100;
/// Longer than all moves need to reach the step.
const HELD: Duration = Duration::from_secs(3600);
/// The size of the servers' image in bytes: the bench does not measure copies of disks.
const IMAGE: usize = 64 * 1024;

/// The number of cells of the default configuration.
const CELLS: u32 = 2;

/// The directory and the databases of the service.
pub struct Stage {
    config: Config,
    _placed: Databases,
    dir: TempDir,
}

/// A life of the service.
pub struct RunningService {
    pub process: Process,
    pub member: Member,
}

/// A caller of the project demo.
pub struct Member {
    pub client: Client,
}

impl Stage {
    pub fn set(servers: usize) -> Stage {
        let dir = directory("recovery-");
        std::fs::write(dir.path().join("policy.yaml"), POLICY).expect("the policy file");
        let mut config = config(&dir, servers + 100);
        let placed = Databases::place(&mut config, CELLS);
        Stage { config, _placed: placed, dir }
    }

    /// Starts the program. With `held`, moves wait at [`HELD_AT`].
    pub async fn start(&self, held: bool) -> RunningService {
        let process = Process::start(&self.config(held));
        let client = Client::log_in(process.address, &self.dir.path().join("clouds.yaml"), "cellshift").await;
        RunningService { process, member: Member { client } }
    }

    pub fn config(&self, held: bool) -> Config {
        let mut config = self.config.clone();
        if held {
            config.migration.deadlines.insert(HELD_AT.to_owned(), HELD.as_secs());
            config.compute.latency_ms.insert(Operation::Undefine, HELD.as_secs() * 1000);
        }
        config
    }
}

/// Returns the default configuration with hosts and quotas for `room` servers.
fn config(dir: &TempDir, room: usize) -> Config {
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (4096, 4 << 20, 8192);
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.network.quota_port = -1;
    config.cells.count = Some(CELLS);
    config.cells.hosts_per_cell = u32::try_from((room / SERVERS_OF_HOST).max(HOSTS)).ok();
    config.migration.max_in_flight = room;
    config.http.max_requests_in_flight = room;
    config.log.level = "warn".to_owned();
    config
}

impl RunningService {
    /// Kills the process with `kill -9`.
    pub fn kill(self) {
        drop(self);
    }
}

impl Member {
    /// Uploads a small image, and returns its id.
    pub async fn upload_image(&self) -> String {
        let about = json!({"name": "small", "disk_format": "raw", "container_format": "bare"});
        let made = self.client.send(reqwest::Method::POST, "/image/v2/images", Some(&about)).await;
        let made: Value = serde_json::from_slice(&made).expect("JSON");
        let id = made["id"].as_str().expect("an id").to_owned();
        let bytes = vec![7_u8; IMAGE];
        let request = self.client.request(reqwest::Method::PUT, &format!("/image/v2/images/{id}/file"));
        let answer = request.header("Content-Type", "application/octet-stream").body(bytes).send().await.expect("an answer");
        answer.error_for_status().expect("it is taken");
        id
    }

    /// Returns the id of the flavor with this name.
    pub async fn flavor(&self, name: &str) -> String {
        let all = self.client.look("/compute/v2.1/flavors").await;
        let flavors = all["flavors"].as_array().expect("flavors");
        let flavor = flavors.iter().find(|flavor| flavor["name"] == name).unwrap_or_else(|| panic!("no {name} in {all}"));
        flavor["id"].as_str().expect("an id").to_owned()
    }
}
