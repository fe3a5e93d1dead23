//! Every action in every state of a server, while all is well and while its host, its cell or the services are down or stay away: each is answered
//! without a server error of our own, leaves no server in ERROR that `errors.table` does not name, and ends with a clean audit.
//!
//! The actions are those of `tests/it/access/servers.table`, so a new action takes part by itself. A plain run takes [`SLICE`] cases that a
//! seed draws; `CELLSHIFT_WALK=7` takes those of seed 7, `CELLSHIFT_WALK=all` every case, and `CELLSHIFT_WALK=words` the cases whose name
//! (`state/action/condition`) contains the words.

mod case;
mod condition;
mod state;

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use cellshift::config::{Config, Seconds};
use cellshift::env::random::Random;

use crate::access::house::visit_configured;
use crate::access::row::{Row, table};
use condition::Condition;
use state::State;

/// The environment variable that selects the cases.
const WALK: &str = "CELLSHIFT_WALK";
/// The number of cases of a plain run.
const SLICE: usize = 48;
/// The number of cases after which a fresh cloud costs less than the audit of the earlier cases' records.
const CASES_OF_A_CLOUD: usize = 60;

/// A request to a server in a state, under a condition.
#[derive(Clone)]
struct Case {
    state: State,
    row: Row,
    condition: Condition,
}

impl Case {
    /// Returns the action in the body, or the method with the part of the path behind the server.
    fn action(&self) -> String {
        match self.row.action() {
            Some(action) => action.to_owned(),
            None => format!("{} {}", self.row.method, self.row.path.split_once('}').map_or("", |(_, rest)| rest)),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}/{}", self.state, self.action(), self.condition)
    }
}

#[test]
fn every_action_in_every_state_ends_without_leftovers() {
    let mut cases = cases();
    cases.sort_by_key(|case| case.state.is_kept());
    let (mut done, mut failures) = (0, Vec::new());
    while done < cases.len() {
        let part = part_of_a_cloud(&cases[done..]);
        let held = AtomicUsize::new(0);
        // A failed case leaves its cloud as it is, so the next one gets another.
        let ended = catch_unwind(AssertUnwindSafe(|| play(part, &held)));
        let held = held.into_inner();
        done += held;
        if let Err(panic) = ended {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            let failure = part.get(held).map_or(why.clone(), |case| format!("{case}: {why}"));
            // Written past the harness's capture, because all cases take long.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failures.push(failure);
            done += 1;
        }
    }
    let _ = writeln!(std::io::stderr(), "walk: {} cases run, {} failed", cases.len(), failures.len());
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Returns the first cases that one cloud can play: a cloud keeps deleted servers, or keeps none.
fn part_of_a_cloud(cases: &[Case]) -> &[Case] {
    let is_alike = |case: &&Case| case.state.is_kept() == cases[0].state.is_kept();
    &cases[..cases.iter().take(CASES_OF_A_CLOUD).take_while(is_alike).count()]
}

/// Plays the cases on a cloud of their own, and counts those that held. Panics with the reason at the first that does not hold.
fn play(cases: &[Case], held: &AtomicUsize) {
    let keeps_deleted = cases.iter().any(|case| case.state.is_kept());
    let configure = move |config: &mut Config| {
        quick(config);
        if keeps_deleted {
            config.compute.reclaim_instance_interval = Seconds::whole(3600);
        }
    };
    visit_configured(configure, |house| async move {
        house.tidy().await;
        for case in cases {
            if let Err(why) = case.hold(&house).await {
                panic!("{why}");
            }
            held.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// Probes a cell that is down frequently, and limits the waits for it and for hosts.
fn quick(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
    config.cells.timeout = Seconds::whole(2);
}

/// Returns the cases of this run.
fn cases() -> Vec<Case> {
    let all = all_cases();
    let selection = std::env::var(WALK).unwrap_or_else(|_| "0".to_owned());
    if selection == "all" {
        return all;
    }
    let Ok(seed) = selection.parse() else {
        return all.into_iter().filter(|case| case.to_string().contains(&selection)).collect();
    };
    let mut random = Random::new(seed, "walk");
    (0..SLICE).filter_map(|_| random.pick(&all).cloned()).collect()
}

fn all_cases() -> Vec<Case> {
    let mut all = Vec::new();
    for row in table("servers").into_iter().filter(changes_a_server) {
        for state in State::ALL {
            for condition in Condition::ALL.into_iter().filter(|condition| condition.applies_to(state)) {
                all.push(Case { state, row: row.clone(), condition });
            }
        }
    }
    all
}

fn changes_a_server(row: &Row) -> bool {
    row.method != "GET" && row.path.starts_with("/compute/v2.1/servers/{")
}
