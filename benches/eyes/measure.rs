//! The measurements, and the tables' lines.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::client::Client;
use crate::fill;
use crate::pages;
use crate::sample::Times;
use crate::stage::Stage;

/// The extent of the measurements.
pub struct Scale {
    /// The cells of the large cloud, and the hosts of each.
    cells: u32,
    hosts_per_cell: u32,
    /// The number of scrapes.
    scrapes: usize,
    /// The time for which requests are sent in each round, and the number of rounds.
    pub round: Duration,
    pub rounds: usize,
    /// The number of open pages, of moves in flight beside them, and the time for which they are open.
    pub pages: usize,
    pub moves: usize,
    pub pages_for: Duration,
}

impl Scale {
    pub const FULL: Scale = Scale {
        cells: 10,
        hosts_per_cell: 1000,
        scrapes: 100,
        round: Duration::from_secs(5),
        rounds: 3,
        pages: 100,
        moves: 1000,
        pages_for: Duration::from_secs(30),
    };
    pub const QUICK: Scale = Scale {
        cells: 2,
        hosts_per_cell: 5,
        scrapes: 5,
        round: Duration::from_millis(200),
        rounds: 1,
        pages: 4,
        moves: 8,
        pages_for: Duration::from_secs(2),
    };
}

pub const SCRAPE_HEAD: &str = "| hosts | used | samples | size | median | p99 | 50 ms at most |\n|---:|---|---:|---:|---:|---:|---|";
pub const RATE_HEAD: &str = "| metrics | requests/s, median of the rounds | lowest | highest |\n|---|---:|---:|---:|";

/// The clients that send requests at once.
const CLIENTS: usize = 4;
/// The requests whose rate is measured: with a token and a database, and with neither.
const PATHS: [&str; 2] = ["/compute/v2.1/flavors", "/healthcheck"];

/// Measures scrapes of a large cloud: after its start, and after a long life.
pub async fn scrapes(scale: &Scale) {
    let stage = Stage::set(scale.cells, scale.hosts_per_cell, true).await;
    let hosts = scale.cells * scale.hosts_per_cell;
    while hosts_up(&stage).await < hosts {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for used in ["little", "everything"] {
        if used == "everything" {
            fill::fill(&stage.metrics);
        }
        let (mut times, mut text) = (Times::default(), bytes::Bytes::new());
        for _ in 0..scale.scrapes {
            let began = Instant::now();
            text = stage.admin.get("/metrics").await;
            times.push(began.elapsed());
        }
        let samples = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#').count();
        let verdict = if times.p99() <= Duration::from_millis(50) { "kept" } else { "exceeded" };
        println!("| {hosts} | {used} | {samples} | {} KiB | {} | {} | {verdict} |", text.len() / 1024, ms(times.median()), ms(times.p99()));
    }
    stage.strike();
}

/// Returns the number of hosts that the metrics tell as up.
async fn hosts_up(stage: &Stage) -> u32 {
    let text = stage.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&text);
    let up = text.lines().filter(|line| line.starts_with("cellshift_hosts{") && line.contains("state=\"up\""));
    up.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum()
}

/// Measures the rate of requests with and without metrics, in turns, so that a slow minute of the machine meets both.
pub async fn rates(scale: &Scale) {
    let (with, without) = (Stage::set(2, 2, true).await, Stage::set(2, 2, false).await);
    for path in PATHS {
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..scale.rounds {
            measured[0].push(rate(&with.admin, path, scale.round, true).await);
            measured[1].push(rate(&without.admin, path, scale.round, false).await);
        }
        for (name, mut rates) in ["counted, and scraped each second", "switched off"].into_iter().zip(measured) {
            rates.sort_by(f64::total_cmp);
            let (lowest, highest) = (rates[0], rates[rates.len() - 1]);
            println!("| {name}: {path} | {:.0} | {lowest:.0} | {highest:.0} |", rates[rates.len() / 2]);
        }
    }
    with.strike();
    without.strike();
}

async fn rate(client: &Client, path: &str, round: Duration, scraped: bool) -> f64 {
    let began = Instant::now();
    let asking = join_all((0..CLIENTS).map(|_| async {
        let mut answered = 0_u32;
        while began.elapsed() < round {
            client.get(path).await;
            answered += 1;
        }
        answered
    }));
    let scraping = async {
        while scraped && began.elapsed() < round {
            client.get("/metrics").await;
            tokio::time::sleep(Duration::from_secs(1).min(round)).await;
        }
    };
    let (answered, ()) = futures::join!(asking, scraping);
    f64::from(answered.iter().sum::<u32>()) / began.elapsed().as_secs_f64()
}

/// Measures a service at work without pages and with open ones. Its cloud is small: what the pages ask of a large one grows with it.
pub async fn pages(scale: &Scale) {
    let stage = Stage::set_for_moves(2, 10, scale.moves).await;
    pages::begin_moves(&stage.admin, scale.moves).await;
    pages::compare(scale, &stage);
    stage.strike();
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}
