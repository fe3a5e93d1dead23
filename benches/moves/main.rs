//! `cargo bench --bench moves`: what a move, its confirm and its revert take over HTTP, and what users ask most; one at a time
//! and 64 at once, each beside its floor, which is measured in the same run on the same files.
//!
//! Prints a table and judges nothing. `-- --quick` shows in seconds that it works; its figures mean little.

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
    // Under `cargo test --benches` there is no `--bench`: then it only shows that it works.
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
