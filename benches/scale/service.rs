//! The measurements of the whole service.

use std::time::{Duration, Instant};

use serde_json::json;
use uuid::Uuid;

use crate::client::Client;
use crate::sample::Times;
use crate::stage::{PATIENCE, Stage};

pub const HEAD: &str = "| hosts | first start | second start | idle, of a core | memory | for each further host | create to ACTIVE | times that with the fewest | GET one server | 1,000 hypervisors | memory after the creates |\n\
    |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// The figures of a number of hosts.
#[derive(Clone, Copy)]
pub struct Measured {
    hosts: usize,
    first_start: Duration,
    second_start: Duration,
    /// The share of one core that the idle service uses.
    idle: f64,
    memory_kib: u64,
    create: Duration,
    /// A GET of a server by an administrator.
    get: Duration,
    hypervisors: Duration,
    memory_after_kib: u64,
}

/// The extent of the measurements.
struct Scale {
    creates: usize,
    pages: usize,
    /// The service comes to rest before the idle time is measured.
    rest: Duration,
    idle: Duration,
}

const FULL: Scale = Scale { creates: 30, pages: 20, rest: Duration::from_secs(15), idle: Duration::from_secs(30) };
const QUICK: Scale = Scale { creates: 2, pages: 2, rest: Duration::from_millis(200), idle: Duration::from_millis(500) };
/// The first requests are not measured.
const WARM_UP: usize = 3;

/// Measures a cloud with this number of hosts.
pub async fn measure(hosts: usize, quick: bool) -> Measured {
    let scale = if quick { QUICK } else { FULL };
    let stage = Stage::set(hosts);
    let began = Instant::now();
    let first = stage.start().await;
    let first_start = began.elapsed();
    first.process.stop();
    let began = Instant::now();
    let service = stage.start().await;
    let second_start = began.elapsed();
    tokio::time::sleep(scale.rest).await;
    let (before, began) = (service.process.usage(), Instant::now());
    tokio::time::sleep(scale.idle).await;
    let idle = (service.process.usage().processor - before.processor).as_secs_f64() / began.elapsed().as_secs_f64();
    let memory_kib = service.process.usage().memory_kib;
    let (create, server) = creates(&service.admin, scale.creates).await;
    let memory_after_kib = service.process.usage().memory_kib;
    let get = gets(&service.admin, &format!("/compute/v2.1/servers/{server}"), scale.pages).await;
    let hypervisors = gets(&service.admin, "/compute/v2.1/os-hypervisors/detail?limit=1000", scale.pages).await;
    service.process.stop();
    Measured { hosts, first_start, second_start, idle, memory_kib, create, get, hypervisors, memory_after_kib }
}

/// Returns the median time from the request to ACTIVE, one server after the other, and the last server.
async fn creates(admin: &Client, number: usize) -> (Duration, Uuid) {
    let flavors = admin.look("/compute/v2.1/flavors").await;
    let tiny = flavors["flavors"].as_array().expect("flavors").iter().find(|flavor| flavor["name"] == "m1.tiny").expect("m1.tiny").clone();
    let images = admin.look("/image/v2/images").await;
    let request = json!({"server": {
        "name": "made", "flavorRef": tiny["id"], "imageRef": images["images"][0]["id"], "networks": "none",
    }});
    let (mut times, mut last) = (Times::default(), Uuid::nil());
    for number in 0..number + WARM_UP {
        let began = Instant::now();
        let server = admin.ask_for_server(&request).await;
        last = server;
        while admin.status(server).await != "ACTIVE" {
            assert!(began.elapsed() < PATIENCE, "the server becomes ACTIVE");
        }
        if number >= WARM_UP {
            times.push(began.elapsed());
        }
    }
    (times.median(), last)
}

/// Returns the median time of an answer.
async fn gets(admin: &Client, path: &str, number: usize) -> Duration {
    let mut times = Times::default();
    for number in 0..number + WARM_UP {
        let began = Instant::now();
        admin.get(path).await;
        if number >= WARM_UP {
            times.push(began.elapsed());
        }
    }
    times.median()
}

impl Measured {
    /// Returns the line of the table, beside the figures of the fewest hosts.
    pub fn line(&self, least: &Measured) -> String {
        let further = match self.hosts.saturating_sub(least.hosts) as u64 {
            0 => "".to_owned(),
            further => format!("{:.1} KiB", self.memory_kib.saturating_sub(least.memory_kib) as f64 / further as f64),
        };
        format!(
            "| {} | {:.1} s | {:.1} s | {:.1} % | {} MiB | {further} | {:.1} ms | {:.2} | {:.1} ms | {:.1} ms | {} MiB |",
            self.hosts,
            self.first_start.as_secs_f64(),
            self.second_start.as_secs_f64(),
            self.idle * 100.0,
            self.memory_kib / 1024,
            ms(self.create),
            ms(self.create) / ms(least.create),
            ms(self.get),
            ms(self.hypervisors),
            self.memory_after_kib / 1024,
        )
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
