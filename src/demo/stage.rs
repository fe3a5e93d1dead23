//! The demo's cloud with its callers.

use std::time::Duration;

use serde_json::Value;

use super::DemoError;
use super::cloud::Cloud;
use super::narrator::Narrator;
use crate::client::{ADMIN, CLOUDS_FILE, Client, OPERATORS};
use crate::domain::host_trial::{HostTrial, TrialOutcome};

/// Longer than any step of the demo takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two reads of the API.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The cloud, its callers and the narrator.
pub struct Stage {
    pub cloud: Cloud,
    /// An ordinary user, who owns the servers.
    pub member: Client,
    /// An operator, who sees hosts, cells and journals.
    pub admin: Client,
    pub narrator: Narrator,
}

impl Stage {
    /// Logs in to the cloud.
    pub async fn set(cloud: Cloud, narrator: Narrator) -> Result<Stage, DemoError> {
        let clouds = cloud.data().join(CLOUDS_FILE);
        let member = Client::log_in(&clouds, "cellshift").await?;
        let admin = Client::log_in(&clouds, ADMIN).await?;
        Ok(Stage { cloud, member, admin, narrator })
    }

    /// Stops the cloud and removes its directory.
    pub async fn strike(self) -> Result<(), DemoError> {
        self.cloud.strike().await
    }

    /// Prints the parts of the cloud.
    pub async fn introduce(&self) -> Result<(), DemoError> {
        let narrator = &self.narrator;
        narrator.title("cellshift demo");
        narrator.say(&format!(
            "{} A cell is a part of a cloud with a database and hosts of its own, which \
             cannot reach those of the other. Three servers shall move from the old hardware in one to the new hardware in the \
             other. The demo asks for it over HTTP, as any OpenStack client would.",
            self.cloud.parts()
        ));
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
        narrator.fact("API", &format!("http://{}", self.cloud.address()));
        narrator.fact("data", &self.cloud.data().display().to_string());
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

    /// Makes a trial with a host.
    pub async fn trial(&self, host: &str, trial: HostTrial) -> Result<TrialOutcome, DemoError> {
        self.cloud.trial(&self.admin, (&self.cell_of(host).await?, host), trial).await
    }

    /// True if the host takes requests.
    pub async fn is_up(&self, host: &str) -> Result<bool, DemoError> {
        Ok(self.admin.get(OPERATORS, &format!("/hosts/{host}")).await?["host"]["state"] == "up")
    }
}

/// Returns the elements of a JSON array; none for other values.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text field; empty if it is missing.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
