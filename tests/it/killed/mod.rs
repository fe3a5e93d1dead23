//! Runs the built program as a process that dies, stands still or loses its database during a batch of moves, while clients go on and keep
//! a history of the answers. Then the process is left alone: each accepted operation ends, no acknowledged write is missing (INVARIANTS
//! I10), and the audit of the stopped data is clean.
//!
//! `CELLSHIFT_KILLS=200` makes this many random kills and troubles, `CELLSHIFT_SEED=7` chooses other moments, and
//! `CELLSHIFT_CRASH_POINTS=all` kills at every point of every step of the cross-cell sagas and
//! of shelving. Each run prints the time until rest.

pub mod batch;
mod cell_down;
mod client;
mod fault_reports;
mod full_disk;
mod history;
mod points;
mod troubles;

use self::batch::{Batch, configure};
use crate::databases;

/// The number of kills of a plain run.
const KILLS: u64 = 4;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

fn seed() -> u64 {
    from_environment("CELLSHIFT_SEED", 1)
}

#[test]
fn a_service_that_is_killed_again_and_again_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    configure(dir.path(), databases::place);
    let kills = from_environment("CELLSHIFT_KILLS", KILLS);
    actix_rt::System::new().block_on(async {
        let mut batch = Batch::begin(dir.path(), seed());
        for _ in 0..kills {
            let service = batch.start().await;
            batch.moment().await;
            batch.gone();
            drop(service);
        }
        let service = batch.start().await;
        batch.end(service, &format!("{kills} kills")).await;
    });
}
