//! `cargo bench --bench moves`: measures a move, its confirm and its revert over HTTP, users' most frequent requests, singly and 64
//! concurrently, live migration, shelve and unshelve likewise, the evacuation of a host, the drain of a cell, and a move with guaranteed
//! bandwidth beside one without, each against its floor, which is measured in the same run on the same files.
//!
//! Prints a table without a judgement. `-- --quick` shows in seconds that it works; its figures mean little. `-- --cores` compares 64
//! concurrent moves on one core with the same on two. `-- --burst` creates 1,500 servers from eight clients on four cells of 500 equal hosts, and
//! prints how they spread and at which rate. `-- --only alone,drain` measures these parts only, of `alone`, `at-once`, `within` a cell, `guaranteed` bandwidth
//! beside none, `drain` and `reads`. So two builds are compared in turns within minutes.
//! `CELLSHIFT_BENCH_POSTGRES` names a PostgreSQL server to measure on, instead of SQLite.

mod burst;
mod client;
mod cores;
#[path = "../databases.rs"]
mod databases;
mod disks;
mod drain;
mod events;
mod floor;
mod guaranteed;
mod measure;
mod sample;
mod stage;
mod table;
mod within;

use measure::Scale;
use stage::Stage;

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if has("--quick") || !has("--bench") { Scale::QUICK } else { Scale::FULL };
    if has("--cores") {
        print!("{}", cores::compare(&scale));
        return;
    }
    if has("--burst") {
        let is_full = has("--bench") && !has("--quick");
        print!("{}", client_runtime().block_on(burst::measure(if is_full { burst::Burst::FULL } else { burst::Burst::QUICK })));
        return;
    }
    if let [first, cores, place] = arguments.as_slice()
        && first == cores::MEASURE
    {
        let cores = cores.parse().expect("a number of cores");
        cores::restrict(cores);
        print!("{}", client_runtime().block_on(cores::measure(cores, place.as_ref(), &Scale::FULL)));
        return;
    }
    let only = arguments.iter().skip_while(|argument| *argument != "--only").nth(1).map(|list| list.split(',').collect::<Vec<_>>());
    let wrong = only.iter().flatten().find(|part| !measure::PARTS.contains(part));
    assert_eq!(wrong, None, "--only takes a list of {}", measure::PARTS.join(", "));
    let table = client_runtime().block_on(async {
        let stage = Stage::set().await;
        let mut rows = measure::parts(&stage, &scale, only.as_deref()).await;
        let databases = stage.strike().await;
        floor::of_commits(&databases, &scale, &mut rows).await;
        table::text(&rows, &scale)
    });
    print!("{table}");
}

fn client_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client")
}
