//! The clouds in which the story can happen: one in this process, or a cluster of processes. Each is in a temporary directory, and is taken down
//! at the end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::DemoError;
use super::stage::PATIENCE;
use super::tripwire::Tripwire;
use crate::actors::cell::CellHandle;
use crate::bootstrap;
use crate::chaos::seams::Seams;
use crate::client::{Client, OPERATORS};
use crate::cluster::{Cluster, Plan, Role};
use crate::config::Config;
use crate::domain::host_trial::{HostTrial, TrialOutcome};
use crate::env::Env;
use crate::http::server;
use crate::launch::{self, Running};
use crate::virt::Operation;

/// Allows a member's resize to leave its cell.
const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";

/// A cloud with its directory.
pub struct Cloud {
    dir: TempDir,
    kind: Kind,
}

enum Kind {
    /// All in this process. The seams let the disaster happen.
    Here(Box<(Running, Seams)>),
    /// A cluster of processes, whose agents can be killed and started again.
    Cluster(Box<Mutex<Cluster>>),
}

impl Cloud {
    /// Makes a cloud in this process.
    pub async fn here() -> Result<Cloud, DemoError> {
        let dir = directory()?;
        let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        config.http.listen = listener.local_addr().map_err(failed("the listener's address"))?;
        config.compute.latency_ms = latencies();
        let cloud = bootstrap::open(config, Env::system()).await?;
        let (parts, seams) = (launch::parts(&cloud), launch::seams());
        let running = launch::launch_with(cloud, parts, Some(seams.clone()), listener).await?;
        Ok(Cloud { dir, kind: Kind::Here(Box::new((running, seams))) })
    }

    /// Starts a cluster with this number of agents per cell.
    pub async fn cluster(agents: Option<u32>) -> Result<Cloud, DemoError> {
        let dir = directory()?;
        let mut config = Config::default();
        config.http.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.compute.latency_ms = latencies();
        config.chaos.enabled = true;
        let program = std::env::current_exe().map_err(failed("the program's own path"))?;
        let path = std::fs::canonicalize(dir.path()).map_err(failed("the temporary directory"))?;
        let cluster = Cluster::start(Plan { dir: path, program, agents, config }).await?;
        Ok(Cloud { dir, kind: Kind::Cluster(Box::new(Mutex::new(cluster))) })
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the address of the API.
    pub fn address(&self) -> SocketAddr {
        match &self.kind {
            Kind::Here(here) => here.0.address,
            Kind::Cluster(cluster) => cluster.lock().address(),
        }
    }

    /// Says in what the cloud consists.
    pub fn parts(&self) -> &'static str {
        match &self.kind {
            Kind::Here(_) => "A cloud of two cells has just been started.",
            Kind::Cluster(_) => {
                "A cloud of two cells has just been started, in processes of their own: a controller, a NATS server for each cell, and an agent \
                 for each host."
            }
        }
    }

    /// Makes a trial with a host of this cell.
    pub async fn trial(&self, admin: &Client, (cell, host): (&str, &str), trial: HostTrial) -> Result<TrialOutcome, DemoError> {
        match &self.kind {
            Kind::Here(here) => {
                let outcome = cell_handle(&here.0, cell)?.hosts.trial(host, trial, PATIENCE).await;
                outcome.map_err(|error| DemoError::Wrong(error.to_string()))?.map_err(|why| DemoError::Wrong(why.to_string()))
            }
            Kind::Cluster(_) => {
                let answer = admin.post(OPERATORS, "/chaos/trials", json!({"host": host, "trial": trial})).await?;
                serde_json::from_value(answer["outcome"].clone())
                    .map_err(|error| DemoError::Wrong(format!("the outcome of a trial cannot be read: {error}")))
            }
        }
    }

    /// Begins to wait until the server's saga is about to begin this step.
    pub fn arm(&self, server: Uuid, step: &'static str) -> Tripwire {
        match &self.kind {
            Kind::Here(here) => Tripwire::on(&here.1, server, step),
            Kind::Cluster(_) => Tripwire::looking(server, step),
        }
    }

    /// Cuts the power of a host of this cell: its guests and its program end at once.
    pub async fn power_off(&self, cell: &str, host: &str) -> Result<(), DemoError> {
        match &self.kind {
            Kind::Here(here) => {
                let off = cell_handle(&here.0, cell)?.hosts_here.power_off(host, false).await;
                off.map(drop).map_err(|error| DemoError::Wrong(error.to_string()))
            }
            Kind::Cluster(cluster) => Ok(cluster.lock().kill(&Role::Agent(host.to_owned()))?),
        }
    }

    /// Gives a host of this cell its power back.
    pub async fn power_on(&self, cell: &str, host: &str) -> Result<(), DemoError> {
        match &self.kind {
            Kind::Here(here) => {
                let on = cell_handle(&here.0, cell)?.hosts_here.power_on(host).await;
                on.map(drop).map_err(|error| DemoError::Wrong(error.to_string()))
            }
            Kind::Cluster(cluster) => Ok(cluster.lock().restart(&Role::Agent(host.to_owned()))?),
        }
    }

    /// Stops the cloud and removes its directory.
    pub async fn strike(self) -> Result<(), DemoError> {
        match self.kind {
            Kind::Here(here) => {
                let (running, _) = *here;
                running.stop().await.map_err(failed("the web server"))?;
            }
            Kind::Cluster(cluster) => cluster.into_inner().stop().await?,
        }
        self.dir.close().map_err(failed("the temporary directory"))
    }
}

fn cell_handle<'a>(running: &'a Running, name: &str) -> Result<&'a CellHandle, DemoError> {
    running.tree.cell(name).ok_or_else(|| DemoError::Wrong(format!("cell {name} is not started")))
}

/// Makes a directory with the policy of the story.
fn directory() -> Result<TempDir, DemoError> {
    let dir = tempfile::Builder::new().prefix("cellshift-demo-").tempdir().map_err(failed("a temporary directory"))?;
    std::fs::write(dir.path().join("policy.yaml"), POLICY).map_err(failed("the policy file"))?;
    Ok(dir)
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> DemoError {
    let what = what.to_owned();
    move |source| DemoError::Io { what, source }
}

/// Gives the hypervisor latencies, because otherwise all steps would be over before anybody could see them.
fn latencies() -> BTreeMap<Operation, u64> {
    [(Operation::Define, 600), (Operation::Start, 250), (Operation::GuestShutdown, 300), (Operation::CopyDisks, 200)].into()
}
