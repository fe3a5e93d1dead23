//! `cargo bench --bench eyes`: measures a scrape of `/metrics` in a cloud with 10,000 hosts whose every route, step and database has
//! been used, the rate of requests with metrics that are scraped each second beside the rate without metrics, what a hundred open pages
//! cost beside a service at work, and the same work with traces and without. `-- --pages` measures the pages alone, `-- --traces` the
//! traces.
//!
//! Prints tables, and takes ten minutes on two cores, most of them to make the hosts. `-- --quick` shows in seconds that it works;
//! its figures mean little.

#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
mod fill;
mod measure;
mod pages;
#[path = "../moves/sample.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod sample;
mod stage;
mod traces;

use measure::Scale;

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    if let Some((pages::ASK, rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return runtime.block_on(pages::ask(rest));
    }
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if has("--quick") || !has("--bench") { Scale::QUICK } else { Scale::FULL };
    runtime.block_on(async {
        let all = !has("--pages") && !has("--traces");
        if all {
            println!("{}", measure::SCRAPE_HEAD);
            measure::scrapes(&scale).await;
            println!("\n{}", measure::RATE_HEAD);
            measure::rates(&scale).await;
        }
        if all || has("--pages") {
            println!("\n{}", pages::HEAD);
            measure::pages(&scale).await;
        }
        if all || has("--traces") {
            println!("\n{}", traces::HEAD);
            traces::compare(&scale).await;
        }
    });
}
