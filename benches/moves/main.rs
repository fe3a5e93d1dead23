//! `cargo bench --bench moves`: measures a move, its confirm and its revert over HTTP, and users' most frequent requests; singly and 64
//! concurrently, each against its floor, which is measured in the same run on the same files.
//!
//! Prints a table without a judgement. `-- --quick` shows in seconds that it works; its figures mean little.

mod client;
mod events;
mod floor;
mod measure;
mod sample;
mod stage;
mod table;

use measure::Scale;
use stage::Stage;

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if given("--quick") || !given("--bench") { Scale::QUICK } else { Scale::FULL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    let table = runtime.block_on(async {
        let stage = Stage::set().await;
        let mut rows = measure::all(&stage, &scale).await;
        let databases = stage.strike().await;
        floor::of_commits(&databases, &scale, &mut rows).await;
        table::text(&rows, &scale)
    });
    print!("{table}");
}
