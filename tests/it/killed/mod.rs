//! The built program is killed (`kill -9`) at random moments of a batch of moves and started again over the same data, again and
//! again, while clients go on and keep a history of what they were answered. Then it is left alone: every operation that was
//! accepted ends, no acknowledged write is missing (I10), and the audit of the stopped data is clean (K10).
//!
//! `CELLSHIFT_KILLS=200` kills so often, `CELLSHIFT_SEED=7` at other moments; each run prints how long recoveries took.

mod cell_down;
mod client;
mod history;

use std::path::Path;
use std::time::{Duration, Instant};

use cellshift::config::Config;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use self::client::{Life, Stop};
use self::history::History;
use crate::client::PATIENCE;
use crate::databases;
use crate::service::{self, Service};

/// Servers that move at once.
const SERVERS: usize = 6;
/// Kills of a plain run.
const KILLS: u64 = 4;
/// A life ends after so many accepted actions …
const ACTIONS: std::ops::Range<usize> = 2..9;
/// … and so many milliseconds.
const AND_MS: std::ops::Range<u64> = 0..60;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

#[test]
fn a_service_that_is_killed_again_and_again_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    configure(dir.path());
    let (kills, seed) = (from_environment("CELLSHIFT_KILLS", KILLS), from_environment("CELLSHIFT_SEED", 1));
    let histories = actix_rt::System::new().block_on(play(dir.path(), kills, seed));
    for history in &histories {
        assert_eq!(history.violations(), Vec::<String>::new(), "seed {seed}: {history}");
    }
    assert!(histories.iter().any(|history| history.moves() > 0), "they moved: {histories:?}");
    let audit = service::run(&["audit", "--config", &config_file(dir.path())]);
    assert_eq!(audit.code, Some(0), "seed {seed}: {}{}", audit.stdout, audit.stderr);
}

fn config_file(data: &Path) -> String {
    data.join("cellshift.toml").to_string_lossy().into_owned()
}

/// The databases of this run, and members whose moves may leave their cell.
fn configure(data: &Path) {
    let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
    config.quota.cores = -1;
    databases::place(&mut config);
    write_configuration(data, &config);
}

fn write_configuration(data: &Path, config: &Config) {
    std::fs::write(config_file(data), config.to_toml().expect("TOML")).expect("the configuration");
    std::fs::write(data.join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n")
        .expect("the policy");
}

/// Lives that are cut short, then one that is not, which ends when every client has seen its server at rest.
async fn play(data: &Path, kills: u64, seed: u64) -> Vec<History> {
    let (lives, life) = watch::channel(None);
    let (accepted, mut actions) = watch::channel(0);
    let stop = Stop::default();
    let live = |number| client::live(number, seed + number as u64, life.clone(), accepted.clone(), stop.clone());
    let clients: Vec<_> = (0..SERVERS).map(|number| actix_rt::spawn(live(number))).collect();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..kills {
        let service = start(data, &lives).await;
        let enough = *actions.borrow() + random.random_range(ACTIONS);
        let asked = tokio::time::timeout(PATIENCE, actions.wait_for(|so_far| *so_far >= enough)).await;
        drop(asked.expect("clients are answered").expect("clients live"));
        // Not a wait for anything: it is the moment of the fault.
        tokio::time::sleep(Duration::from_millis(random.random_range(AND_MS))).await;
        lives.send_replace(None);
        drop(service);
    }
    let began = Instant::now();
    let service = start(data, &lives).await;
    stop.now();
    let mut histories = Vec::new();
    for client in clients {
        histories.push(tokio::time::timeout(PATIENCE, client).await.expect("every operation ends").expect("no panic"));
    }
    println!("{kills} kills (seed {seed}): at rest {:?} after the last start", began.elapsed());
    histories.sort_by_key(|history| history.number);
    lives.send_replace(None);
    service.stop();
    histories
}

async fn start(data: &Path, lives: &watch::Sender<Option<Life>>) -> Service {
    let service = Service::start(data, &["--config", &config_file(data)]);
    let life = Life { member: service.user(data, "cellshift").await, admin: service.user(data, "cellshift-admin").await };
    lives.send_replace(Some(life));
    service
}
