//! A batch of moves: clients that outlive the service, each with its server and its history, and the judgement at the end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellshift::config::Config;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::NamedTempFile;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::{self, Life, Progress, RunningService, Stop};
use super::history::History;
use crate::client::PATIENCE;
use crate::service::{self, Service};

/// The number of servers that move at once.
const SERVERS: usize = 6;
/// A fault comes after this many further accepted actions …
const ACTIONS: std::ops::Range<usize> = 2..9;
/// … and this many answered looks at servers: clients look every few milliseconds.
const ANSWERS: std::ops::Range<usize> = 0..40;
/// The time within which everything must come to rest, including an outage of seconds.
const REST: Duration = Duration::from_secs(120);
/// The number of lines of the service's log that a failure prints, without answered requests.
const LAST_LINES: usize = 1000;

/// Clients at work, and the address of the service's present life.
pub struct Batch {
    data: PathBuf,
    /// The log of all lives of the service. Not below `data`, whose disk may be full.
    log: NamedTempFile,
    seed: u64,
    random: StdRng,
    lives: watch::Sender<Option<RunningService>>,
    progress: watch::Receiver<Progress>,
    outages: bool,
    stop: Stop,
    clients: Vec<JoinHandle<History>>,
}

/// Returns the path of the service's configuration.
pub fn config_file(data: &Path) -> String {
    data.join("cellshift.toml").to_string_lossy().into_owned()
}

/// Prepares a service over this directory, with its databases, and members whose moves may leave their cell. A shelved server leaves its host
/// when its user asks.
pub fn configure(data: &Path, place: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
    config.quota.cores = -1;
    config.chaos.enabled = true;
    config.compute.shelved_offload_time = -1;
    place(&mut config);
    std::fs::write(config_file(data), config.to_toml().expect("TOML")).expect("the configuration");
    let rules = ["compute:servers:resize:cross_cell", "os_compute_api:os-shelve:shelve_offload"];
    let policy = rules.map(|rule| format!("\"{rule}\": \"rule:project_member_or_admin\"\n")).concat();
    std::fs::write(data.join("policy.yaml"), policy).expect("the policy");
    config
}

impl Batch {
    /// Starts clients who move their servers. They wait for a service.
    pub fn begin(data: &Path, seed: u64) -> Batch {
        Batch::begin_lives(Life::Moves, data, seed)
    }

    /// Starts clients who give their servers this life. They wait for a service.
    pub fn begin_lives(kind: Life, data: &Path, seed: u64) -> Batch {
        let (lives, life) = watch::channel(None);
        let (tell, progress) = watch::channel(Progress::default());
        let stop = Stop::default();
        let live = |number| client::live(kind, number, seed + number as u64, life.clone(), tell.clone(), stop.clone());
        let clients = (0..SERVERS).map(|number| actix_rt::spawn(live(number))).collect();
        let log = NamedTempFile::new().expect("a log");
        Batch { data: data.to_owned(), log, seed, random: StdRng::seed_from_u64(seed), lives, progress, outages: false, stop, clients }
    }

    /// Starts the service and tells the clients its address.
    pub async fn start(&self) -> Service {
        let service = Service::start_logging(&self.data, &["--config", &config_file(&self.data)], self.log.path());
        let (member, admin) = (service.user(&self.data, "cellshift").await, service.user(&self.data, "cellshift-admin").await);
        self.lives.send_replace(Some(RunningService { member, admin }));
        service
    }

    /// Returns the present life of the service.
    pub fn life(&self) -> RunningService {
        self.lives.borrow().clone().expect("it lives")
    }

    /// Waits until each client has its server, because a create that fails in an outage stays in ERROR. Outages come after this.
    pub async fn everyone(&mut self) {
        self.until(|progress| progress.made == SERVERS).await;
        self.outages = true;
    }

    /// Waits for the moment of the next fault, which the seed chooses.
    pub async fn moment(&mut self) {
        let accepted = self.progress.borrow().accepted + self.random.random_range(ACTIONS);
        self.until(|progress| progress.accepted >= accepted).await;
        let looks = self.random.random_range(ANSWERS);
        self.answered(looks).await;
    }

    /// Waits until the clients have been answered this many further looks at their servers.
    pub async fn answered(&mut self, looks: usize) {
        let answers = self.progress.borrow().answers + looks;
        self.until(|progress| progress.answers >= answers).await;
    }

    /// Forbids the clients to give up for this time, as long as a trouble lasts.
    pub async fn outlasts(&mut self, trouble: Duration) {
        let given_up = futures::future::select_all(&mut self.clients);
        if let Ok((client, number, _)) = tokio::time::timeout(trouble, given_up).await {
            panic!("client {number} gives up: {client:?}");
        }
    }

    async fn until(&mut self, so_far: impl FnMut(&Progress) -> bool) {
        let there = tokio::time::timeout(PATIENCE, self.progress.wait_for(so_far)).await;
        drop(there.expect("clients come on").expect("clients live"));
    }

    /// Tells the clients that the service is gone; they wait for its next life.
    pub fn gone(&self) {
        self.lives.send_replace(None);
    }

    /// Lets each client see its server at rest, and stops the service. Fails if something forbidden happened.
    pub async fn end(mut self, service: Service, what: &str) {
        let what = format!("{what} (seed {})", self.seed);
        if let Err(wrong) = self.judge(service, &what).await {
            panic!("{what}: {wrong}\n{}", last_lines(self.log.path()));
        }
    }

    async fn judge(&mut self, service: Service, what: &str) -> Result<(), String> {
        let began = Instant::now();
        self.stop.now();
        let mut histories = Vec::new();
        for (number, client) in self.clients.drain(..).enumerate() {
            let ended = tokio::time::timeout(REST, client).await;
            let history = ended.map_err(|_| format!("the server of client {number} does not come to rest"))?.expect("no panic");
            histories.push(History { outages: self.outages, ..history });
        }
        println!("{what}: at rest after {:?}", began.elapsed());
        self.lives.send_replace(None);
        service.stop();
        for history in &histories {
            let violations = history.violations();
            if !violations.is_empty() {
                return Err(format!("{violations:?}: {history}"));
            }
        }
        if histories.iter().all(|history| history.moves() == 0) {
            return Err(format!("no server moved: {histories:?}"));
        }
        let audit = service::run(&["audit", "--config", &config_file(&self.data)]);
        match audit.code {
            Some(0) => Ok(()),
            code => Err(format!("the audit ends with {code:?}: {}{}", audit.stdout, audit.stderr)),
        }
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).expect("the log");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("cellshift::http::access_log")).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
