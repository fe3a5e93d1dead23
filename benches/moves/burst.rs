//! Creates from eight clients at once on hosts that are equal: how evenly they spread, and how many become ACTIVE in a second.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use uuid::Uuid;

use crate::floor;
use crate::measure::{Cost, Requests, Row, Scale, What, difference};
use crate::stage::Stage;

const CLIENTS: usize = 8;

/// The extent of the burst.
#[derive(Clone, Copy)]
pub struct Burst {
    cells: u32,
    hosts_per_cell: u32,
    servers: usize,
    /// The number of times that the clients' floor is measured.
    floors: usize,
}

impl Burst {
    pub const FULL: Burst = Burst { cells: 4, hosts_per_cell: 500, servers: 1500, floors: 50 };
    pub const QUICK: Burst = Burst { cells: 4, hosts_per_cell: 3, servers: 40, floors: 2 };
}

/// Measures a burst on a cloud of its own. Returns the table.
pub async fn measure(burst: Burst) -> String {
    let topology = (burst.cells, Some(burst.hosts_per_cell));
    let stage = Stage::set_of(Path::new(env!("CARGO_TARGET_TMPDIR")), topology).await;
    let mut request = Requests::look_up(&stage).await.create[0].clone();
    // Every host takes it.
    request["server"]["flavorRef"] = flavor(&stage, "m1.tiny").await.into();
    let before = stage.calls();
    let began = Instant::now();
    // No client waits until its server is ACTIVE.
    let client = async |first: usize| {
        let mut created = Vec::new();
        for _ in (first..burst.servers).step_by(CLIENTS) {
            created.push(stage.member.ask_for_server(&request).await);
        }
        created
    };
    let created: Vec<Uuid> = join_all((0..CLIENTS).map(client)).await.concat();
    join_all(created.iter().map(|server| stage.events.until(*server, "instance.create.end"))).await;
    let whole = began.elapsed();
    let cost = Cost::of_each(difference(&before, &stage.calls()), created.len());
    join_all(created.iter().map(|server| stage.rest(*server))).await;
    let by_host = servers_by_host(&stage).await;
    assert_eq!(by_host.values().sum::<usize>(), burst.servers, "every server has a host");
    let mut rows = [Row { cost, ..Row::new(What::Create, CLIENTS) }];
    let scale = Scale { bursts: burst.floors, ..Scale::QUICK };
    floor::of_commits(&stage.strike().await, &scale, &mut rows).await;
    line(burst, &by_host, whole, &rows[0])
}

async fn flavor(stage: &Stage, name: &str) -> String {
    let flavors = stage.admin.look("/compute/v2.1/flavors").await;
    let flavor = flavors["flavors"].as_array().into_iter().flatten().find(|flavor| flavor["name"] == name).expect("the flavor");
    flavor["id"].as_str().expect("an id").to_owned()
}

/// Returns the number of servers of each host that has one.
async fn servers_by_host(stage: &Stage) -> BTreeMap<String, usize> {
    let (mut by_host, mut marker) = (BTreeMap::new(), String::new());
    loop {
        let page = stage.admin.look(&format!("/compute/v2.1/servers/detail?all_tenants=1&limit=1000{marker}")).await;
        let servers = page["servers"].as_array().expect("servers");
        let Some(last) = servers.last() else { return by_host };
        marker = format!("&marker={}", last["id"].as_str().expect("an id"));
        for server in servers {
            *by_host.entry(server["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned()).or_insert(0) += 1;
        }
    }
}

fn line(burst: Burst, by_host: &BTreeMap<String, usize>, whole: Duration, row: &Row) -> String {
    let hosts = (burst.cells * burst.hosts_per_cell) as usize;
    let emptiest = if by_host.len() < hosts { 0 } else { by_host.values().min().copied().unwrap_or_default() };
    let (rate, floor) = (burst.servers as f64 / whole.as_secs_f64(), CLIENTS as f64 / row.floor.median().as_secs_f64().max(1e-9));
    format!(
        "| servers | clients | cells | hosts | fullest host | emptiest host | hosts without one | ACTIVE per second | floor | of the floor |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n\
         | {} | {CLIENTS} | {} | {hosts} | {} | {emptiest} | {} | {rate:.1} | {floor:.1} | 1/{:.1} |\n",
        burst.servers,
        burst.cells,
        by_host.values().max().copied().unwrap_or_default(),
        hosts - by_host.len(),
        floor / rate
    )
}
