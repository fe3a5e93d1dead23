//! The run in a live process, in real time. Each life of the controllers has its own thread, runtime and HTTP port, and works on SQLite
//! files. A kill drops a life at any point, and the next life opens the same files.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use uuid::Uuid;

use super::api_client::ApiClient;
use super::cloud::{self, Setting};
use super::findings::{self, End};
use super::run::{Run, RunEnd};
use super::sight::Sight;
use super::trace::Trace;
use super::users::Reach;
use super::virtual_env::{RunClock, SeededIds};
use super::watch::Watch;
use super::{Options, Outcome, SimulationError};
use crate::actors::root::Tree;
use crate::chaos::borders::FaultyBorders;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::injector::Injector;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::verdict::{Findings, Mode};
use crate::chaos::seams::Seams;
use crate::db::Db;
use crate::env::{Blocking, Clock, Env};
use crate::launch;
use crate::signals::Signals;

/// The maximum time for the last parts of a dead process to end.
const GOING: Duration = Duration::from_secs(60);

/// Runs a seed's workload with these faults, in real time.
pub fn run_with(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Outcome, SimulationError> {
    actix_rt::System::new().block_on(async {
        let mut signals = Signals::listen()?;
        let run = Live::open(seed, scenario, faults, options)?.run(seed);
        tokio::select! {
            biased;
            () = signals.received() => Err(SimulationError::Interrupted),
            outcome = run => outcome,
        }
    })
}

struct Live {
    run: Run,
    ids: Arc<SeededIds>,
    folder: tempfile::TempDir,
}

impl Live {
    fn open(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Live, SimulationError> {
        let folder = tempfile::Builder::new().prefix("cellshift-chaos-").tempdir()?;
        let clock = Arc::new(RunClock::beginning(Env::system().now()));
        let trace = Trace::new(clock.clone(), options.whole_trace).with_teller(options.teller.clone());
        let watch = Arc::new(Watch::without_databases(trace.clone()));
        let run = Run::new(seed, scenario, faults, clock, trace, watch);
        Ok(Live { run, ids: Arc::new(SeededIds::new(seed)), folder })
    }

    async fn run(mut self, seed: u64) -> Result<Outcome, SimulationError> {
        let mut lives = 0;
        let findings = loop {
            lives += 1;
            let process = Process::start(self.beginning(seed)).await?;
            // The users' requests in this life run in here, and are dropped with it.
            let errands = LocalSet::new();
            let ended = errands.run_until(self.live(seed, lives, &process)).await;
            drop(errands);
            process.kill().await?;
            if let Some(findings) = ended? {
                break findings;
            }
        };
        let trace = &self.run.trace;
        Ok(Outcome { hash: trace.hash(), lines: trace.len(), trace: trace.lines(), findings })
    }

    fn beginning(&self, seed: u64) -> Beginning {
        Beginning {
            seed,
            folder: self.folder.path().to_owned(),
            scenario: self.run.scenario.clone(),
            clock: self.run.clock.clone(),
            ids: self.ids.clone(),
            seams: self.run.seams.clone(),
            watch: self.run.watch.clone(),
            trace: self.run.trace.clone(),
        }
    }

    /// Runs one life. Returns the findings if it was the last.
    async fn live(&mut self, seed: u64, lives: usize, process: &Process) -> Result<Option<Findings>, SimulationError> {
        let scenario = &self.run.scenario;
        let reach = Reach {
            sight: Sight::Inside(Box::new(process.tree.clone())),
            api: ApiClient::at(process.address, None),
            trace: self.run.trace.clone(),
            image: process.image,
            target_servers: scenario.workload.servers,
            hosts: Rc::new(scenario.topology.hosts()),
        };
        cloud::until_hosts_are_up(&process.tree, &reach.hosts).await;
        let databases = process.databases.clone();
        let injector = Injector::new(process.tree.clone(), databases, self.run.seams.clone(), Some(self.run.clock.clone()));
        let RunEnd::Over(report) = self.run.live(&reach, &process.tree, &injector).await? else { return Ok(None) };
        let servers_in_error = self.run.users.servers_in_error(&reach).await;
        let api = process.tree.world.api.db().named("report");
        let end = End { mode: Mode::Live, seed, lives, report: &report, servers_in_error };
        Ok(Some(findings::of(&self.run, &api, end).await?))
    }
}

/// The parameters of a life, all of which outlive it.
struct Beginning {
    seed: u64,
    folder: PathBuf,
    scenario: Scenario,
    clock: Arc<RunClock>,
    ids: Arc<SeededIds>,
    seams: Seams,
    watch: Arc<Watch>,
    trace: Trace,
}

/// A clock whose drop shows when nobody holds it any more.
struct ServiceClock {
    clock: Arc<RunClock>,
    _held: mpsc::Sender<()>,
}

impl Clock for ServiceClock {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }
}

/// The access to a running life.
struct Running {
    tree: Tree,
    databases: BTreeMap<String, Db>,
    address: SocketAddr,
    image: Uuid,
}

/// A life of the controllers' process.
struct Process {
    tree: Tree,
    databases: BTreeMap<String, Db>,
    address: SocketAddr,
    image: Uuid,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    /// Carries no messages. It closes when the last part of this life is dropped, because each part holds its environment.
    gone: mpsc::Receiver<()>,
}

impl Process {
    async fn start(beginning: Beginning) -> Result<Process, SimulationError> {
        let (end, ended) = oneshot::channel();
        let (started, starting) = oneshot::channel();
        let (held, gone) = mpsc::channel();
        let clock = ServiceClock { clock: beginning.clock.clone(), _held: held };
        let env = FaultyBorders::of(Env::new(Arc::new(clock), beginning.ids.clone(), Blocking::Pool));
        let thread = std::thread::Builder::new().name("controllers".into()).spawn(move || {
            actix_rt::System::new().block_on(async move {
                match beginning.run(env).await {
                    Ok((running, server)) => {
                        drop(started.send(Ok(running)));
                        // The life was killed, or the run is gone.
                        let _ = ended.await;
                        server.stop(false).await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
            // The runtime drops all unfinished work here: nothing is told to stop.
        })?;
        let lost = |_| SimulationError::Io(std::io::Error::other("the controllers' thread ended before they ran"));
        let Running { tree, databases, address, image } = starting.await.map_err(lost)??;
        Ok(Process { tree, databases, address, image, end, thread, gone })
    }

    /// Returns when nothing is left: no actor, no request, no waiting write.
    async fn kill(self) -> Result<(), SimulationError> {
        let Process { tree, databases, end, thread, gone, .. } = self;
        let _ = end.send(());
        drop((tree, databases));
        let going = async {
            while !thread.is_finished() || gone.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let left = |_| SimulationError::Io(std::io::Error::other("something of a dead process lives on"));
        tokio::time::timeout(GOING, going).await.map_err(left)
    }
}

impl Beginning {
    async fn run(self, env: Env) -> Result<(Running, actix_web::dev::ServerHandle), SimulationError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let opened = cloud::open(self.seed, &self.folder, &self.scenario, env).await?;
        let image = cloud::sample_image(&opened).await?;
        let databases = opened.databases();
        let setting =
            Setting { cloud: &opened, scenario: &self.scenario, seams: self.seams.clone(), watch: self.watch, trace: self.trace, image };
        let parts = setting.parts();
        let launch::Running { tree, address, server, .. } = launch::launch_with(opened, parts, Some(self.seams), listener).await?;
        Ok((Running { tree, databases, address, image }, server))
    }
}
