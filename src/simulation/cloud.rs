//! The simulated cloud: real code in its own folder on in-memory databases; and one life of its controllers.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cellshift_embedded::identity::Cost;
use uuid::Uuid;

use super::SimulationError;
use super::api_client::ApiClient;
use super::driver::watched;
use super::sight::Sight;
use super::trace::Trace;
use super::users::Reach;
use super::watch::Watch;
use super::witnessed::Witnessed;
use crate::actors::root::{Parts, Tree};
use crate::bootstrap::{self, Cloud, Samples};
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::seams::Seams;
use crate::config::{Authentication, Config, LiveMigration, Seconds, TimeoutAction};
use crate::env::Env;
use crate::env::random::Random;
use crate::http::in_process::InProcess;
use crate::launch::{self, Assembled};
use crate::virt::Operation;

/// Allows moves to leave their cell.
pub(super) const POLICY: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";
/// Small, so that copies are cheap.
const IMAGE_BYTES: usize = 4096;
/// A host's memory, so small that some choices must fail.
const HOST_MEMORY_MB: u32 = 12_288;

/// The operations with a simulated duration. A guest's own shutdown has the grace time for it.
const OPERATIONS: [Operation; 9] = [
    Operation::Define,
    Operation::Start,
    Operation::GuestShutdown,
    Operation::PowerOff,
    Operation::Pause,
    Operation::Suspend,
    Operation::Undefine,
    Operation::Volume,
    Operation::CopyDisks,
];

/// Makes a temporary directory, in memory if possible.
pub fn folder() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let beside = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("cellshift-simulation-").tempdir_in(beside).or_else(|_| tempfile::tempdir())
}

/// Returns the configuration of a run's cloud: the seed decides latencies and what else users cannot know.
pub(super) fn config(seed: u64, data_dir: PathBuf, scenario: &Scenario) -> Config {
    let mut config = Config { data_dir, ..Config::default() };
    config.api.authentication = Authentication::None;
    config.cells.count = Some(scenario.topology.cells);
    config.cells.hosts_per_cell = Some(scenario.topology.hosts_per_cell);
    config.conductor.workers = scenario.conductors(seed) as usize;
    config.compute.memory_mb = HOST_MEMORY_MB;
    config.compute.disk_gb = 40;
    config.migration.resize_confirm_window = Seconds::whole(300);
    config.migration.back_off_max = Seconds::whole(5);
    config.notifications.window = 65_536;
    config.identity.password_cost = Cost::CHEAP;
    let mut random = Random::new(seed, "latency");
    config.compute.latency_ms =
        OPERATIONS.iter().map(|operation| (*operation, random.below(scenario.topology.max_latency_ms + 1))).collect();
    let offload_times = [0, 0, -1, 20];
    config.compute.shelved_offload_time = random.pick(&offload_times).copied().unwrap_or_default();
    config.compute.shelved_poll_interval = Seconds::whole(10);
    let reclaim_intervals = [0, 0, 30, 600];
    let reclaim_interval = Random::new(seed, "reclaim").pick(&reclaim_intervals).copied().unwrap_or_default();
    config.compute.reclaim_instance_interval = Seconds::whole(reclaim_interval);
    config.compute.max_concurrent_live_migrations = u32::try_from(random.within(1, 2)).unwrap_or(1);
    config.compute.live_migration = live_migration(&mut random);
    for (_, table) in crate::saga::tables::ALL {
        config.migration.deadlines.extend(table.steps.iter().map(|step| (step.name.to_string(), 20)));
    }
    config
}

/// A pace at which some copies never end by themselves, and a time limit at which they are given up or forced.
fn live_migration(random: &mut Random) -> LiveMigration {
    LiveMigration {
        bandwidth_mib: random.pick(&[200, 800, 0]).copied().unwrap_or(800),
        dirty_rate_mib: random.pick(&[16, 256]).copied().unwrap_or(256),
        completion_timeout: Seconds::whole(random.within(5, 60)),
        timeout_action: if random.percent(50) { TimeoutAction::Abort } else { TimeoutAction::ForceComplete },
        ..LiveMigration::default()
    }
}

/// Opens the databases and services and makes the samples.
pub async fn open(seed: u64, folder: &Path, scenario: &Scenario, env: Env) -> Result<Cloud, SimulationError> {
    let config = config(seed, folder.to_owned(), scenario);
    std::fs::write(config.policy_file(), POLICY)?;
    Ok(bootstrap::open_with(config, env, Samples { image_bytes: IMAGE_BYTES }).await?)
}

/// Returns the public image `tiny`.
pub async fn sample_image(cloud: &Cloud) -> Result<Uuid, SimulationError> {
    let images = cloud.services.images.list(&Default::default(), Default::default()).await.map_err(bootstrap::BootstrapError::from)?;
    Ok(images.iter().find(|image| image.name.as_deref() == Some("tiny")).map(|image| image.id).unwrap_or_default())
}

/// The parameters of a life.
pub struct Setting<'a> {
    pub cloud: &'a Cloud,
    pub scenario: &'a Scenario,
    pub seams: Seams,
    pub watch: Arc<Watch>,
    pub trace: Trace,
    pub image: Uuid,
}

impl Setting<'_> {
    /// Returns the controllers' parts, with the watch in place.
    pub fn parts(&self) -> Parts {
        let mut parts = launch::parts(self.cloud);
        let trace = self.trace.clone();
        parts.between.notifications = Some(Arc::new(move |inner| Arc::new(Witnessed { inner, trace: trace.clone() })));
        parts.hypervisors = watched(self.watch.clone());
        // Disables the guests' own writes: the workload decides when guests write.
        parts.host_options.hosts.tick = Duration::ZERO;
        parts
    }

    /// Starts the controllers, and waits until each available host takes requests.
    pub async fn begin(&self) -> Result<(Reach, Tree), SimulationError> {
        let Assembled { tree, wiring, .. } = launch::assemble(self.cloud, self.parts(), Some(self.seams.clone())).await?;
        let api = ApiClient::InProcess(InProcess::new(wiring).await);
        let hosts = self.scenario.topology.hosts();
        until_hosts_are_up(&tree, &hosts).await;
        let reach = Reach {
            sight: Sight::Inside(Box::new(tree.clone())),
            api,
            trace: self.trace.clone(),
            image: self.image,
            target_servers: self.scenario.workload.servers,
            hosts: Rc::new(hosts),
        };
        Ok((reach, tree))
    }
}

/// Waits until each host takes requests.
pub async fn until_hosts_are_up(tree: &Tree, hosts: &[(String, String)]) {
    let up = |(cell, host): &(String, String)| tree.cell(cell).is_some_and(|cell| cell.hosts.standing(host).is_up());
    while !hosts.iter().all(up) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
