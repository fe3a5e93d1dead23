//! A cell whose hosts are all in agents: a NATS server, the controller, and the agents, each a process.

use std::path::PathBuf;

use cellshift::config::{Config, Nats};
use cellshift_nats::testkit::Broker;
use tempfile::TempDir;

use crate::agent_process::{self, AgentProcess};
use crate::observer::Observer;
use crate::process::{Process, directory};
use crate::stage::{CELL, url_of};

/// The processes, and who sees the hellos.
pub struct Field {
    pub broker: Broker,
    pub observer: Observer,
    pub controller: Process,
    pub agents: Vec<AgentProcess>,
    /// The configurations of the agents.
    pub configs: Vec<PathBuf>,
    _dir: TempDir,
}

impl Field {
    /// Starts the server and the controller. The configurations of the agents are there, and no agent runs.
    pub async fn set(hosts: usize, hosts_of_agent: usize) -> Field {
        let dir = directory("field-");
        let names: Vec<String> = (1..=hosts).map(|number| format!("{CELL}-host{number}")).collect();
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        let broker = Broker::of_cell(CELL, &borrowed).await;
        let key = dir.path().join("controllers.nk");
        broker.controllers.write(&key).expect("a key file");
        let observer = Observer::watch(&broker).await;
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        config.cells.count = Some(1);
        config.cells.discover = true;
        config.nats.insert(CELL.to_owned(), Nats { servers: vec![url_of(&broker)], key: Some(key), authorities: None });
        // The loss of the server is a warning of each host.
        config.log.level = "error".to_owned();
        let controller = Process::start(&config);
        let agents = names.chunks(hosts_of_agent).enumerate().map(|(number, hosts)| {
            let folder = dir.path().join(format!("agent{number}"));
            agent_process::write(&agent_process::config(&broker, &folder, hosts), &folder)
        });
        let configs = agents.collect();
        Field { broker, observer, controller, agents: Vec::new(), configs, _dir: dir }
    }

    /// Starts all agents.
    pub fn start_agents(&mut self) {
        self.agents = self.configs.iter().map(|config| AgentProcess::start(config)).collect();
    }

    /// Returns the id of the NATS server's process.
    pub fn broker_id(&self) -> u32 {
        self.broker.process_id().expect("the server runs")
    }
}
