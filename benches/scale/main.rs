//! `cargo bench --bench scale`: clouds with few and many hosts. Prints for each number of hosts how long the first and the second start take,
//! the processor time and memory of the idle service, a create to ACTIVE, a page of hypervisors; and how long the scheduler takes to choose
//! among as many hosts, with the claim and without.
//!
//! Takes about ten minutes. `CELLSHIFT_SCALE=4,1000` names the numbers of hosts; `-- --quick` takes few, to see that it works; `-- --choose`
//! measures the scheduler alone. `CELLSHIFT_BENCH_POSTGRES` names a PostgreSQL server for the databases, instead of SQLite.

mod choose;
#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
#[path = "../databases.rs"]
mod databases;
#[path = "../process.rs"]
mod process;
#[path = "../moves/sample.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod sample;
mod service;
mod stage;

/// The numbers of hosts of a whole run, for the service and for the scheduler alone.
const SERVICE: [usize; 3] = [4, 1000, 10_000];
const SCHEDULER: [usize; 4] = [4, 1000, 10_000, 100_000];
const FEW: [usize; 2] = [4, 20];

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let quick = has("--quick") || !has("--bench");
    let numbers = |all: &[usize]| match std::env::var("CELLSHIFT_SCALE") {
        Ok(text) => text.split(',').map(|number| number.parse().expect("CELLSHIFT_SCALE has numbers")).collect(),
        Err(_) if quick => FEW.to_vec(),
        Err(_) => all.to_vec(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    if !has("--choose") {
        println!("{}", service::HEAD);
        let mut least = None;
        for hosts in numbers(&SERVICE) {
            let measured = runtime.block_on(service::measure(hosts, quick));
            println!("{}", measured.line(least.get_or_insert(measured)));
        }
        println!();
    }
    println!("{}", choose::HEAD);
    for hosts in numbers(&SCHEDULER) {
        println!("{}", actix_rt::System::new().block_on(choose::measure(hosts, quick)));
    }
}
