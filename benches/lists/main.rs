//! `cargo bench --bench lists`: measures pages of servers over HTTP, with few and many servers in few and many cells, the first page and
//! the hundredth, against one cell's bare query; and the effect of cells that hang.
//!
//! Prints tables without a judgement, and takes about a minute. `-- --quick` shows in seconds that it works; its figures mean little.
//! `CELLSHIFT_BENCH_POSTGRES` names a PostgreSQL server for the databases, instead of SQLite.

#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
#[path = "../databases.rs"]
mod databases;
mod fill;
mod measure;
#[path = "../moves/sample.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod sample;
mod stage;

use measure::Scale;

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if has("--quick") || !has("--bench") { Scale::QUICK } else { Scale::FULL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    runtime.block_on(async {
        println!("{}", measure::PAGES_HEAD);
        for &servers in scale.servers {
            let alone = fill::alone(servers).await;
            for &cells in scale.cells {
                measure::pages(&scale, &alone, cells).await;
            }
        }
        println!("\n{}", measure::HUNG_HEAD);
        measure::hung(&scale, &fill::alone(scale.beside_hung).await).await;
    });
}
