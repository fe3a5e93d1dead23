//! What is measured, and the tables' lines.

use std::time::{Duration, Instant};

use cellshift::config::Seconds;
use cellshift::db::Outage;
use cellshift::db::cell::instance_filter::InstanceFilter;
use cellshift::db::cell::instance_sort::SortSpec;
use uuid::Uuid;

use crate::fill::{Alone, PROJECT};
use crate::sample::Times;
use crate::stage::Stage;

/// How much is measured.
pub struct Scale {
    /// How many servers there are, one table's part after the other.
    pub servers: &'static [usize],
    /// In how many cells, each with each.
    pub cells: &'static [usize],
    /// Requests of each kind.
    pub requests: usize,
    /// Servers in the cloud with cells that hang.
    pub beside_hung: usize,
}

impl Scale {
    pub const FULL: Scale = Scale { servers: &[1_000, 100_000], cells: &[2, 10, 50], requests: 20, beside_hung: 1_000 };
    pub const QUICK: Scale = Scale { servers: &[200], cells: &[2, 4], requests: 3, beside_hung: 100 };
}

/// Pages to a list.
const PAGES: usize = 100;
const HUNG_CELLS: usize = 10;
/// What a request waits for cells at most: the default, and for the cloud whose cells hang.
const PATIENCE: Seconds = Seconds::whole(10);
const PATIENCE_WITH_HUNG: Seconds = Seconds::whole(2);

pub const PAGES_HEAD: &str = "| servers | cells | page of | which | median | p99 | one cell's bare query | times the floor |\n\
                              |---:|---:|---:|---|---:|---:|---:|---:|";
pub const HUNG_HEAD: &str =
    "| cells | of which hang | first list | then | known to be down: median | p99 |\n|---:|---:|---:|---:|---:|---:|";

/// The first and the hundredth page of a list with details.
pub async fn pages(scale: &Scale, alone: &Alone, cells: usize) {
    let stage = Stage::set(&alone.source, cells, PATIENCE).await;
    let (servers, newest_first) = (alone.source.servers(), alone.source.newest_first());
    let size = servers / PAGES;
    for (which, skip) in [("first", 0), ("hundredth", size * (PAGES - 1))] {
        let marker = skip.checked_sub(1).map(|last| newest_first[last]);
        let wanted = &newest_first[skip..skip + size];
        let times = listed(&stage, scale, size, marker, wanted).await;
        let floor = floor(alone, scale, size, marker, wanted).await;
        let ratio = times.median().as_secs_f64() / floor.median().as_secs_f64().max(1e-9);
        let (median, p99, floor) = (ms(times.median()), ms(times.p99()), ms(floor.median()));
        println!("| {servers} | {cells} | {size} | {which} | {median} | {p99} | {floor} | {ratio:.1} |");
    }
    stage.strike();
}

async fn listed(stage: &Stage, scale: &Scale, size: usize, marker: Option<Uuid>, wanted: &[Uuid]) -> Times {
    let marker = marker.map(|marker| format!("&marker={marker}")).unwrap_or_default();
    let path = format!("/compute/v2.1/servers/detail?limit={size}{marker}");
    let page = stage.member.look(&path).await;
    let ids = page["servers"].as_array().expect("servers").iter().map(|server| server["id"].as_str().unwrap_or_default().to_owned());
    assert!(ids.eq(wanted.iter().map(Uuid::to_string)), "the page is the right one");
    let mut times = Times::default();
    for _ in 0..scale.requests {
        let began = Instant::now();
        stage.member.get(&path).await;
        times.push(began.elapsed());
    }
    times
}

/// The same page of a cell that has all the servers, asked without a cloud.
async fn floor(alone: &Alone, scale: &Scale, size: usize, marker: Option<Uuid>, wanted: &[Uuid]) -> Times {
    let (db, sort) = (&alone.db, SortSpec::default());
    let after = match marker {
        Some(marker) => Some(sort.position(&db.instance(marker).await.expect("the marker"))),
        None => None,
    };
    let filter = InstanceFilter { project_id: Some(PROJECT.to_owned()), ..InstanceFilter::default() };
    let mut times = Times::default();
    // A few before, unmeasured.
    for request in 0..scale.requests + 3 {
        let began = Instant::now();
        let page = db.list_instance_views(filter.clone(), sort.clone(), after.clone(), size).await.expect("a page");
        if request >= 3 {
            times.push(began.elapsed());
        }
        assert_eq!(page.len(), wanted.len());
    }
    times
}

/// A list while some of ten cells hang: the first requests that meet it, and those that know it.
pub async fn hung(scale: &Scale, alone: &Alone) {
    for hung in [0, 1, 5] {
        let stage = Stage::set(&alone.source, HUNG_CELLS, PATIENCE_WITH_HUNG).await;
        stage.cells.iter().take(hung).for_each(|cell| cell.db.db().set_outage(Outage::Hangs));
        let path = "/compute/v2.1/servers/detail";
        let mut first = Vec::new();
        for _ in 0..2 {
            let began = Instant::now();
            let list = stage.member.look(path).await;
            first.push(began.elapsed());
            let unknown = list["servers"].as_array().expect("servers").iter().filter(|server| server["status"] == "UNKNOWN");
            assert_eq!(unknown.count(), scale.beside_hung / HUNG_CELLS * hung);
        }
        // Requests make them known to be down, as their actors' probes do.
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
        stage.cells.iter().for_each(|cell| cell.db.db().set_outage(Outage::None));
        stage.strike();
    }
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}
