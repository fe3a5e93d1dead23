//! The demo's cloud: opened in a temporary directory, launched on its own port, and taken down at the end.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::DemoError;
use super::narrator::Narrator;
use crate::actors::cell::CellHandle;
use crate::bootstrap;
use crate::chaos::seams::Seams;
use crate::client::{Client, OPERATORS};
use crate::config::Config;
use crate::env::Env;
use crate::http::server;
use crate::launch::{self, Running};
use crate::virt::Operation;

/// Longer than any step of the demo takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two reads of the API.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";

/// The cloud, its callers and the narrator.
pub struct Stage {
    pub running: Running,
    /// Lets the disaster happen.
    pub seams: Seams,
    /// An ordinary user, who owns the servers.
    pub member: Client,
    /// An operator, who sees hosts, cells and journals.
    pub admin: Client,
    pub narrator: Narrator,
    dir: TempDir,
}

impl Stage {
    /// Makes the cloud, starts it and logs in.
    pub async fn set(narrator: Narrator) -> Result<Stage, DemoError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| DemoError::Io { what, source }
        };
        let dir = tempfile::Builder::new().prefix("cellshift-demo-").tempdir().map_err(failed("a temporary directory"))?;
        let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        config.http.listen = listener.local_addr().map_err(failed("the listener's address"))?;
        config.compute.latency_ms = latencies();
        let policy = config.policy_file();
        std::fs::write(&policy, POLICY).map_err(failed("the policy file"))?;
        let clouds = dir.path().join("clouds.yaml");
        let cloud = bootstrap::open(config, Env::system()).await?;
        let (parts, seams) = (launch::parts(&cloud), launch::seams());
        let running = launch::launch_with(cloud, parts, Some(seams.clone()), listener).await?;
        let member = Client::log_in(&clouds, "cellshift").await?;
        let admin = Client::log_in(&clouds, "cellshift-admin").await?;
        Ok(Stage { running, seams, member, admin, narrator, dir })
    }

    /// Stops the cloud and removes its directory.
    pub async fn strike(self) -> Result<(), DemoError> {
        self.running.stop().await.map_err(|source| DemoError::Io { what: "the web server".into(), source })?;
        self.dir.close().map_err(|source| DemoError::Io { what: "the temporary directory".into(), source })
    }

    /// Prints the parts of the cloud.
    pub async fn introduce(&self) -> Result<(), DemoError> {
        let narrator = &self.narrator;
        narrator.title("cellshift demo");
        narrator.say(
            "A cloud of two cells has just been started. A cell is a part of a cloud with a database and hosts of its own, which \
             cannot reach those of the other. Three servers shall move from the old hardware in one to the new hardware in the \
             other. The demo asks for it over HTTP, as any OpenStack client would.",
        );
        let aggregates = self.admin.get("compute", "/os-aggregates").await?;
        for cell in self.cells().await?.iter().filter(|cell| !items(&cell["hosts"]).is_empty()) {
            let hosts: Vec<&str> = items(&cell["hosts"]).iter().filter_map(|host| host["name"].as_str()).collect();
            let hardware = aggregates["aggregates"].as_array().into_iter().flatten().filter(|aggregate| {
                // Leaves out zones, which are aggregates too; the others here are kinds of hardware.
                aggregate["availability_zone"].is_null()
                    && hosts.iter().all(|host| items(&aggregate["hosts"]).contains(&Value::from(*host)))
            });
            let hardware: Vec<&str> = hardware.filter_map(|aggregate| aggregate["name"].as_str()).collect();
            narrator.fact(text(cell, "name"), &format!("{}, hardware {}: {}", text(cell, "health"), hardware.join(", "), hosts.join(", ")));
        }
        narrator.fact("API", &format!("http://{}", self.running.address));
        narrator.fact("data", &self.dir.path().display().to_string());
        Ok(())
    }

    /// Returns the cells with their hosts from the operators' API.
    pub async fn cells(&self) -> Result<Vec<Value>, DemoError> {
        Ok(items(&self.admin.get(OPERATORS, "/cells").await?["cells"]).to_vec())
    }

    /// Returns the name of a host's cell.
    pub async fn cell_of(&self, host: &str) -> Result<String, DemoError> {
        let cells = self.cells().await?;
        let holds = |cell: &&Value| items(&cell["hosts"]).iter().any(|entry| entry["name"] == host);
        let cell = cells.iter().find(holds).ok_or_else(|| DemoError::Wrong(format!("no cell has a host {host}")))?;
        Ok(text(cell, "name").to_owned())
    }

    /// Returns the handle that switches a host's power and lets its guest write.
    pub async fn cell_handle(&self, host: &str) -> Result<CellHandle, DemoError> {
        let name = self.cell_of(host).await?;
        let handle = self.running.tree.cell(&name).cloned();
        handle.ok_or_else(|| DemoError::Wrong(format!("cell {name} is not started")))
    }
}

/// Gives the hypervisor latencies, because otherwise all steps would be over before anybody could see them.
fn latencies() -> std::collections::BTreeMap<Operation, u64> {
    [(Operation::Define, 600), (Operation::Start, 250), (Operation::GuestShutdown, 300), (Operation::CopyDisks, 200)].into()
}

/// Returns the elements of a JSON array; none for other values.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text field; empty if it is missing.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
