//! An agent as a process of its own, with one or several simulated hosts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cellshift::agent::config::{AgentConfig, AgentHost, AgentNats};
use cellshift::config::Log;
use cellshift_nats::testkit::Broker;
use uuid::Uuid;

use crate::stage::{CELL, url_of};

/// An agent's process. Dropping it kills the process with `kill -9`.
pub struct AgentProcess(Child);

impl AgentProcess {
    /// Starts the agent of this configuration.
    pub fn start(config: &Path) -> AgentProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellshift"));
        AgentProcess(command.arg("compute").arg("--config").arg(config).stdin(Stdio::null()).spawn().expect("the program runs"))
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the configuration of an agent for these hosts of the server's cell, with their keys in this new folder.
pub fn config(broker: &Broker, folder: &Path, hosts: &[String]) -> AgentConfig {
    std::fs::create_dir(folder).expect("a folder");
    let host = |name: &String| {
        let key = folder.join(format!("{name}.nk"));
        broker.agent(name).write(&key).expect("a key file");
        AgentHost { name: name.clone(), key }
    };
    let nats = AgentNats { servers: vec![url_of(broker)], authorities: None };
    let mut config = AgentConfig::new(CELL, Uuid::from_u128(1), folder.join("data"), hosts.iter().map(host).collect(), nats);
    // Each host says that its NATS is lost.
    config.log = Log { level: "error".to_owned(), ..Log::default() };
    config
}

/// Writes a configuration, and returns its file.
pub fn write(config: &AgentConfig, folder: &Path) -> PathBuf {
    let file = folder.join("agent.toml");
    std::fs::write(&file, config.text().expect("TOML")).expect("the configuration");
    file
}
