//! The measurements, and the tables' lines.

use std::time::{Duration, Instant};

use cellshift::actors::cell::CellHandle;
use cellshift::chaos::borders::{Outage, OutageGate};
use cellshift::config::Seconds;
use cellshift::domain::instance_filter::InstanceFilter;
use cellshift::domain::instance_sort::SortSpec;
use uuid::Uuid;

use crate::fill::{Alone, PROJECT};
use crate::sample::Times;
use crate::stage::Stage;

/// The extent of the measurements.
pub struct Scale {
    /// The numbers of servers, one part of the table each.
    pub servers: &'static [usize],
    /// The numbers of cells, each combined with each number of servers.
    pub cells: &'static [usize],
    /// The number of requests of each kind.
    pub requests: usize,
    /// The number of servers in the cloud with cells that hang.
    pub beside_hung: usize,
}

impl Scale {
    pub const FULL: Scale = Scale { servers: &[1_000, 100_000], cells: &[2, 10, 50], requests: 20, beside_hung: 1_000 };
    pub const QUICK: Scale = Scale { servers: &[200], cells: &[2, 4], requests: 3, beside_hung: 100 };
}

/// The number of pages in a list.
const PAGES: usize = 100;
const HUNG_CELLS: usize = 10;
/// The maximum time that a request waits for cells: the default, and the time for the cloud with cells that hang.
const PATIENCE: Seconds = Seconds::whole(10);
const PATIENCE_WITH_HUNG: Seconds = Seconds::whole(2);

pub const PAGES_HEAD: &str = "| servers | cells | page of | which | median | p99 | one cell's bare query | times the floor |\n\
                              |---:|---:|---:|---|---:|---:|---:|---:|";
pub const HUNG_HEAD: &str =
    "| cells | of which hang | first list | then | known to be down: median | p99 |\n|---:|---:|---:|---:|---:|---:|";

/// Measures the first and the hundredth page of a list with details.
pub async fn pages(scale: &Scale, alone: &Alone, cells: usize) {
    let stage = Stage::set(&alone.source, cells, PATIENCE).await;
    let (servers, newest_first) = (alone.source.servers(), alone.source.newest_first());
    let size = servers / PAGES;
    for (which, skip) in [("first", 0), ("hundredth", size * (PAGES - 1))] {
        let marker = skip.checked_sub(1).map(|last| newest_first[last]);
        let expected = &newest_first[skip..skip + size];
        let times = listed(&stage, scale, size, marker, expected).await;
        let floor = floor(alone, scale, size, marker, expected).await;
        let ratio = times.median().as_secs_f64() / floor.median().as_secs_f64().max(1e-9);
        let (median, p99, floor) = (ms(times.median()), ms(times.p99()), ms(floor.median()));
        println!("| {servers} | {cells} | {size} | {which} | {median} | {p99} | {floor} | {ratio:.1} |");
    }
    stage.strike();
}

async fn listed(stage: &Stage, scale: &Scale, size: usize, marker: Option<Uuid>, expected: &[Uuid]) -> Times {
    let marker = marker.map(|marker| format!("&marker={marker}")).unwrap_or_default();
    let path = format!("/compute/v2.1/servers/detail?limit={size}{marker}");
    let page = stage.member.look(&path).await;
    let ids = page["servers"].as_array().expect("servers").iter().map(|server| server["id"].as_str().unwrap_or_default().to_owned());
    assert!(ids.eq(expected.iter().map(Uuid::to_string)), "the page is the right one");
    let mut times = Times::default();
    for _ in 0..scale.requests {
        let began = Instant::now();
        stage.member.get(&path).await;
        times.push(began.elapsed());
    }
    times
}

/// Measures the same page in a single cell with all servers, without a cloud.
async fn floor(alone: &Alone, scale: &Scale, size: usize, marker: Option<Uuid>, expected: &[Uuid]) -> Times {
    let (db, sort) = (&alone.db, SortSpec::default());
    let after = match marker {
        Some(marker) => Some(sort.position(&db.instance(marker).await.expect("the marker"))),
        None => None,
    };
    let filter = InstanceFilter { project_id: Some(PROJECT.to_owned()), ..InstanceFilter::default() };
    let mut times = Times::default();
    // The first requests are not measured.
    for request in 0..scale.requests + 3 {
        let began = Instant::now();
        let page = db.list_instance_views(filter.clone(), sort.clone(), after.clone(), size).await.expect("a page");
        if request >= 3 {
            times.push(began.elapsed());
        }
        assert_eq!(page.len(), expected.len());
    }
    times
}

/// Measures a list while some of ten cells hang: the first requests, and those after the cells are known to be down.
pub async fn hung(scale: &Scale, alone: &Alone) {
    for hung in [0, 1, 5] {
        let stage = Stage::set(&alone.source, HUNG_CELLS, PATIENCE_WITH_HUNG).await;
        let set = |outage| move |cell: &CellHandle| OutageGate::of(cell.db.db()).expect("a cell with faults").set(outage, u32::MAX);
        stage.cells.iter().take(hung).for_each(set(Outage::Hangs));
        let path = "/compute/v2.1/servers/detail";
        let mut first = Vec::new();
        for _ in 0..2 {
            let began = Instant::now();
            let list = stage.member.look(path).await;
            first.push(began.elapsed());
            let unknown = list["servers"].as_array().expect("servers").iter().filter(|server| server["status"] == "UNKNOWN");
            assert_eq!(unknown.count(), scale.beside_hung / HUNG_CELLS * hung);
        }
        // Sends requests until the cells are known to be down; their actors' probes would find it too.
        while stage.cells.iter().take(hung).any(|cell| cell.health.is_up()) {
            stage.member.get(path).await;
        }
        let mut times = Times::default();
        for _ in 0..scale.requests {
            let began = Instant::now();
            stage.member.get(path).await;
            times.push(began.elapsed());
        }
        let (first, then) = (ms(first[0]), ms(first[1]));
        println!("| {HUNG_CELLS} | {hung} | {first} | {then} | {} | {} |", ms(times.median()), ms(times.p99()));
        stage.cells.iter().for_each(set(Outage::None));
        stage.strike();
    }
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}
