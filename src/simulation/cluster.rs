//! The run on a cluster of processes that is started for it: a controller, and for each cell a NATS server and agents. The experiment is loaded
//! into the controller as into any service, and its users ask over HTTP.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::Instant;
use uuid::Uuid;

use super::api_client::ApiClient;
use super::cloud;
use super::run::{JOURNEYS_WITHIN, SETTLING};
use super::sight::Sight;
use super::trace::Trace;
use super::travellers::{travel, travellers};
use super::users::{Reach, Users};
use super::virtual_env::RunClock;
use super::watch::Watch;
use super::{Options, SimulationError};
use crate::chaos::experiment::fault::{PlannedFault, When};
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::verdict::{Findings, Mode, Verdict};
use crate::client::{ADMIN, Client, ClientError, OPERATORS};
use crate::cluster::{Cluster, Plan};
use crate::config::Authentication;
use crate::env::Env;
use crate::signals::Signals;

/// The experiment of a service.
const EXPERIMENT: &str = "/chaos/experiment";
/// The pause between two looks at the experiment.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The maximum time for which a fault may keep the service from an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the scenario with these faults, which it must name (`unfit_for_cluster` of the service's experiments), in real time.
pub fn run_with(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Findings, SimulationError> {
    actix_rt::System::new().block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            biased;
            () = signals.received() => Err(SimulationError::Interrupted),
            findings = run(seed, scenario, faults, options) => findings,
        }
    })
}

/// Starts the cluster in a temporary directory, and takes it down at the end. The system ends its processes with this thread.
async fn run(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Findings, SimulationError> {
    let folder = tempfile::Builder::new().prefix("cellshift-chaos-").tempdir()?;
    let cluster = Cluster::start(plan(seed, scenario, folder.path())?).await?;
    let findings = match Experiment::load(&cluster, seed, scenario, options).await {
        Ok(experiment) => experiment.run(faults).await,
        Err(error) => Err(error),
    };
    cluster.stop().await?;
    findings
}

fn plan(seed: u64, scenario: &Scenario, folder: &Path) -> Result<Plan, SimulationError> {
    let dir = std::fs::canonicalize(folder)?;
    let mut config = cloud::config(seed, dir.clone(), scenario);
    std::fs::write(config.policy_file(), cloud::POLICY)?;
    // The users log in as at any service.
    config.api.authentication = Authentication::Token;
    config.http.listen.set_port(0);
    config.chaos.enabled = true;
    Ok(Plan { dir, program: std::env::current_exe()?, agents: Some(scenario.topology.hosts_per_cell), config })
}

/// A loaded experiment, and its users.
struct Experiment {
    seed: u64,
    client: Client,
    reach: Reach,
    users: Rc<Users>,
    watch: Watch,
    trace: Trace,
}

impl Experiment {
    /// Loads the scenario into the cluster's controller. It goes on until it is stopped.
    async fn load(cluster: &Cluster, seed: u64, scenario: &Scenario, options: &Options) -> Result<Experiment, SimulationError> {
        let client = Client::log_in(&cluster.clouds_file(), ADMIN).await?;
        let images = client.get("image", "/v2/images?name=tiny").await?;
        let image = images["images"][0]["id"].as_str().and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_default();
        let scenario = Scenario { seed, ..scenario.clone() };
        client.post(OPERATORS, EXPERIMENT, json!({"experiment": scenario, "until_stopped": true})).await?;
        let trace = Trace::new(Arc::new(RunClock::beginning(Env::system().now())), options.whole_trace).with_teller(options.teller.clone());
        trace.tell("the cluster runs");
        let api = ApiClient::at(cluster.address(), client.token().map(str::to_owned));
        let reach = Reach {
            sight: Sight::Outside(api.clone()),
            api,
            trace: trace.clone(),
            image,
            target_servers: 0,
            hosts: Rc::new(scenario.topology.hosts()),
        };
        let users = Rc::new(Users { travellers: travellers(&scenario.workload.journeys), ..Users::default() });
        let watch = Watch::without_databases(trace.clone());
        Ok(Experiment { seed, client, reach, users, watch, trace })
    }

    /// Lets the users make their journeys, stops the experiment, and returns what was found when everything was quiet.
    async fn run(self, faults: &[PlannedFault]) -> Result<Findings, SimulationError> {
        // The users' requests run in here, and are dropped with it.
        let journeys = LocalSet::new();
        let over = journeys.run_until(self.until_over(faults)).await;
        drop(journeys);
        let mut printed = over?;
        self.trace.tell("everything is healed");
        self.patiently(async || self.client.delete(OPERATORS, EXPERIMENT).await).await?;
        let verdict = loop {
            let experiment = self.look(&mut printed).await?;
            if !experiment["verdict"].is_null() {
                break experiment["verdict"].clone();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let verdict: Verdict = serde_json::from_value(verdict)?;
        self.findings(verdict.findings).await
    }

    /// Returns when the users have ended and all faults with a time have begun, or the experiment has given up; with the number of faults so far.
    async fn until_over(&self, faults: &[PlannedFault]) -> Result<usize, SimulationError> {
        let began = Instant::now();
        for traveller in &self.users.travellers {
            let (users, reach, traveller) = (self.users.clone(), self.reach.clone(), traveller.clone());
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(began + Duration::from_millis(traveller.begins_ms())).await;
                travel(users, reach, traveller).await;
            });
        }
        let (last_fault, mut printed) = (last_time(faults), 0);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let experiment = self.look(&mut printed).await?;
            let is_travelling = self.users.travellers.iter().any(|traveller| !traveller.is_over());
            let is_busy = (is_travelling && began.elapsed() < JOURNEYS_WITHIN) || began.elapsed() < last_fault + SETTLING;
            if !is_busy || experiment["state"] != "running" {
                self.users.stopped.set(true);
                return Ok(printed);
            }
        }
    }

    /// Looks at the experiment, and tells the faults that have happened since the last look.
    async fn look(&self, printed: &mut usize) -> Result<Value, SimulationError> {
        let answer = self.patiently(async || self.client.get(OPERATORS, EXPERIMENT).await).await?;
        let injected = answer["experiment"]["injected"].as_array().map(Vec::as_slice).unwrap_or_default();
        for fault in injected.iter().skip(*printed) {
            self.trace.tell(format!("FAULT  {}", fault["what"].as_str().unwrap_or_default()));
        }
        *printed = injected.len();
        Ok(answer["experiment"].clone())
    }

    /// Repeats a request until the service answers it: a fault may keep it from that for some time.
    async fn patiently(&self, request: impl AsyncFn() -> Result<Value, ClientError>) -> Result<Value, SimulationError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match request().await {
                Err(ClientError::Refused { status: 500.., .. }) if Instant::now() < deadline => tokio::time::sleep(LOOK_EVERY).await,
                answer => return Ok(answer?),
            }
        }
    }

    /// Completes the service's findings by what the users know.
    async fn findings(self, of_service: Findings) -> Result<Findings, SimulationError> {
        self.users.check_that_accepted_servers_exist(&self.reach, &self.watch).await;
        let servers_in_error = self.users.servers_in_error(&self.reach).await;
        let answers = self.users.answers.borrow().iter().map(|(status, count)| (status.to_string(), *count)).collect();
        let violations = [of_service.violations, self.watch.violations()].concat();
        for violation in &violations {
            self.trace.tell(format!("AUDIT  {violation}"));
        }
        Ok(Findings { mode: Mode::Cluster, seed: self.seed, violations, answers, servers_in_error, ..of_service })
    }
}

/// Returns when the last of the faults with a time begins.
fn last_time(faults: &[PlannedFault]) -> Duration {
    let last = |fault: &PlannedFault| match fault.when {
        When::At(ms) => ms + u64::from(fault.times.saturating_sub(1)) * fault.every_ms,
        When::Between(..) | When::Step(_) => 0,
    };
    Duration::from_millis(faults.iter().map(last).max().unwrap_or_default())
}
