//! `cargo bench --bench cluster`: what agents over NATS cost. Measures a message over the mailbox link and over the NATS link beside a bare round
//! trip over NATS, a cross-cell resize with its confirm in one process and in a cluster, in turns, a cell with many hosts in agents, and an agent
//! without guests.
//!
//! Prints tables without a judgement. `-- --quick` shows in seconds that it works; its figures mean little. `-- --only links` measures a part
//! only: `links`, `moves`, `hosts` or `agent`. `-- --hosts 10000` gives the cell so many hosts, 1,000 by default. Needs nats-server, and as many open
//! files as hosts.

mod agent_process;
mod alone;
#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
mod clouds;
mod desk;
#[path = "../moves/events.rs"]
mod events;
mod field;
mod links;
mod many_hosts;
mod moves;
mod observer;
#[path = "../process.rs"]
#[expect(dead_code, reason = "the bench of scale asks for more")]
mod process;
#[path = "../moves/sample.rs"]
mod sample;
mod stage;

use std::time::Duration;

/// The extent of the measurements.
pub struct Scale {
    /// The number of messages of one sender.
    pub messages: usize,
    /// The number of senders at once, and of messages of each.
    pub senders: usize,
    pub messages_of_each: usize,
    /// The number of moves in each cloud.
    pub moves: usize,
    /// The number of hosts of the cell, and of each agent's process.
    pub hosts: usize,
    pub hosts_of_agent: usize,
    /// The time before the processors are looked at, and the time for which they are.
    pub rest: Duration,
    pub idle: Duration,
    /// The number of starts of an agent.
    pub starts: usize,
}

const FULL: Scale = Scale {
    messages: 10_000,
    senders: 64,
    messages_of_each: 500,
    moves: 100,
    hosts: 1_000,
    hosts_of_agent: 250,
    rest: Duration::from_secs(15),
    idle: Duration::from_secs(60),
    starts: 20,
};
const QUICK: Scale = Scale {
    messages: 50,
    senders: 8,
    messages_of_each: 5,
    moves: 2,
    hosts: 20,
    hosts_of_agent: 10,
    rest: Duration::from_millis(200),
    idle: Duration::from_millis(500),
    starts: 2,
};
/// From so many hosts on an agent's process has twice as many of them.
const MANY: usize = 5_000;
/// The names of the parts.
const PARTS: [&str; 4] = ["links", "moves", "hosts", "agent"];

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let value = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let mut scale = if has("--quick") || !has("--bench") { QUICK } else { FULL };
    if let Some(hosts) = value("--hosts") {
        scale.hosts = hosts.parse().expect("--hosts takes a number");
        scale.hosts_of_agent = if scale.hosts < MANY { scale.hosts_of_agent } else { 2 * scale.hosts_of_agent };
    }
    let only = value("--only").map(String::as_str);
    assert!(only.is_none_or(|part| PARTS.contains(&part)), "--only takes one of {}", PARTS.join(", "));
    let runtime = stage::runtime();
    for part in PARTS.into_iter().filter(|part| only.is_none_or(|only| only == *part)) {
        let table = match part {
            "links" => runtime.block_on(links::measure(&scale)),
            "moves" => runtime.block_on(moves::measure(&scale)),
            "hosts" => runtime.block_on(many_hosts::measure(&scale)),
            _ => runtime.block_on(alone::measure(&scale)),
        };
        println!("{table}");
    }
}
