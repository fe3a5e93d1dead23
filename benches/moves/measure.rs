//! The measurements, each from the request until its sender sees the end.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use cellshift::db::Calls;

use crate::drain;
use crate::floor;
use crate::guaranteed;
use crate::sample::Times;
use crate::stage::Stage;
use crate::within;

/// The extent of the measurements.
pub struct Scale {
    /// The number of single repetitions.
    pub alone: usize,
    /// The number of concurrent clients in a burst.
    pub burst: usize,
    /// The number of bursts.
    pub bursts: usize,
    /// The number of servers of the evacuated host.
    pub evacuated: usize,
    /// The number of servers of the drained cell.
    pub drained: usize,
    /// The number of servers in the list.
    pub listed: usize,
    /// The number of reads of one server per client.
    pub reads: usize,
    /// The number of lists.
    pub lists: usize,
}

impl Scale {
    pub const FULL: Scale = Scale { alone: 200, burst: 64, bursts: 6, evacuated: 50, drained: 200, listed: 1000, reads: 2000, lists: 100 };
    pub const QUICK: Scale = Scale { alone: 3, burst: 8, bursts: 1, evacuated: 4, drained: 8, listed: 20, reads: 20, lists: 3 };
}

/// The kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Create,
    Resize,
    /// A resize of a server with two ordinary ports.
    PlainPorts,
    /// A resize of a server with two ports of guaranteed bandwidth.
    GuaranteedPorts,
    Confirm,
    Revert,
    LiveMigrate,
    Shelve,
    Unshelve,
    Evacuate,
    Drain,
    Show,
    List,
}

/// A line of the table.
pub struct Row {
    pub what: What,
    pub at_once: usize,
    pub times: Times,
    /// The duration of a whole burst: the median of the bursts.
    pub whole: Option<Duration>,
    pub cost: Cost,
    /// The size of a read's answer in bytes.
    pub bytes: usize,
    pub floor: Times,
}

/// The calls of the databases by one operation.
#[derive(Clone, Default)]
pub struct Cost {
    /// The durable commits per database, in the order of the stage's databases; none for a read.
    pub commits: Vec<u64>,
    /// The read-only calls in all databases.
    pub reads: u64,
}

impl Cost {
    /// Divides the [`difference`] that these operations made among them.
    pub fn of_each(mut calls: Vec<u64>, operations: usize) -> Cost {
        let reads = calls.pop().unwrap_or_default() / operations as u64;
        let commits = calls.iter().map(|count| count.div_ceil(operations as u64)).collect();
        Cost { commits, reads }
    }
}

impl Row {
    pub fn new(what: What, at_once: usize) -> Row {
        Row { what, at_once, times: Times::default(), whole: None, cost: Cost::default(), bytes: 0, floor: Times::default() }
    }

    /// True if one time was taken for all servers together.
    pub fn is_of_all(&self) -> bool {
        matches!(self.what, What::Evacuate | What::Drain)
    }
}

/// The parts of the bench, by the names that `--only` knows.
pub const PARTS: [&str; 6] = ["alone", "at-once", "within", "guaranteed", "drain", "reads"];

/// Measures these parts, or all, except the floor of commits, which needs the databases for itself. A burst has the floor of
/// the same request alone, so without the part `alone` it has none.
pub async fn parts(stage: &Stage, scale: &Scale, only: Option<&[&str]>) -> Vec<Row> {
    let requests = Requests::look_up(stage).await;
    let has = |part| only.is_none_or(|parts| parts.contains(&part));
    let mut rows = if has("alone") { one_at_a_time(stage, &requests, scale).await } else { Vec::new() };
    let counted: Vec<(What, Vec<u64>)> = rows.iter().map(|row| (row.what, row.cost.commits.clone())).collect();
    let mut bursts = if has("at-once") { at_once(stage, &requests, scale).await } else { Vec::new() };
    for row in &mut bursts {
        row.cost.commits = counted.iter().find(|(what, _)| *what == row.what).map(|(_, commits)| commits.clone()).unwrap_or_default();
    }
    rows.extend(bursts);
    if has("within") {
        rows.extend(within::measure(stage, &requests, scale).await);
    }
    if has("guaranteed") {
        rows.extend(guaranteed::measure(stage, &requests, scale).await);
    }
    if has("drain") {
        rows.push(drain::measure(stage, &requests, scale).await);
    }
    if has("reads") {
        rows.extend(reads(stage, &requests, scale).await);
    }
    rows
}

/// The bodies of requests.
pub struct Requests {
    /// In cell1 and in cell2.
    pub create: [Value; 2],
    resize: Value,
}

impl Requests {
    pub async fn look_up(stage: &Stage) -> Requests {
        let images = stage.member.look("/image/v2/images?name=tiny").await;
        let networks = stage.member.look("/network/v2.0/networks?name=private").await;
        let (image, network) = (&images["images"][0]["id"], &networks["networks"][0]["id"]);
        let create = ["gen1.small", "gen2.small"]
            .map(|flavor| json!({"server": {"name": "measured", "flavorRef": flavor, "imageRef": image, "networks": [{"uuid": network}]}}));
        Requests { create, resize: json!({"resize": {"flavorRef": "gen2.small"}}) }
    }
}

/// Waits until the notification `event` has come and the server has `status`, and returns the time since the request.
pub async fn seen(stage: &Stage, server: Uuid, event: &str, status: &str, began: Instant) -> Duration {
    stage.events.until(server, event).await;
    // The status follows the notification with a short delay.
    while stage.member.status(server).await != status {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

pub async fn create(stage: &Stage, request: &Value) -> (Uuid, Duration) {
    let began = Instant::now();
    let server = stage.member.ask_for_server(request).await;
    (server, seen(stage, server, "instance.create.end", "ACTIVE", began).await)
}

pub async fn act(stage: &Stage, requests: &Requests, what: What, server: Uuid) -> Duration {
    let (action, event, status) = match what {
        What::Resize => (requests.resize.clone(), "instance.resize_finish.end", "VERIFY_RESIZE"),
        What::Confirm => (json!({"confirmResize": null}), "instance.resize_confirm.end", "ACTIVE"),
        _ => (json!({"revertResize": null}), "instance.resize_revert.end", "ACTIVE"),
    };
    let began = Instant::now();
    stage.member.act(server, &action).await;
    seen(stage, server, event, status, began).await
}

pub async fn delete(stage: &Stage, server: Uuid) {
    stage.member.delete(server).await;
    stage.events.until(server, "instance.delete.end").await;
    stage.rest(server).await;
}

async fn one_at_a_time(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut rows = [What::Create, What::Resize, What::Confirm, What::Revert].map(|what| (Row::new(what, 1), Vec::new()));
    // The first rounds are not measured: they warm up caches and files.
    for round in 0..scale.alone + 2 {
        let last = if round % 2 == 0 { What::Confirm } else { What::Revert };
        let before = stage.calls();
        let (server, time) = create(stage, &requests.create[0]).await;
        stage.rest(server).await;
        let mut took = vec![(What::Create, time, difference(&before, &stage.calls()))];
        for what in [What::Resize, last] {
            let before = stage.calls();
            let time = act(stage, requests, what, server).await;
            stage.rest(server).await;
            took.push((what, time, difference(&before, &stage.calls())));
        }
        delete(stage, server).await;
        for (what, time, commits) in took.into_iter().filter(|_| round >= 2) {
            let (row, counts) = rows.iter_mut().find(|(row, _)| row.what == what).expect("a row of each");
            row.times.push(time);
            counts.push(commits);
        }
    }
    rows.into_iter().map(|(row, counts)| usual(row, &counts)).collect()
}

/// Returns the transactions in each database, and last the reads in all databases.
pub fn difference(before: &[Calls], after: &[Calls]) -> Vec<u64> {
    let between = |of: fn(&Calls) -> u64| before.iter().zip(after).map(move |(before, after)| of(after) - of(before));
    let reads = between(|calls| calls.reads).sum();
    between(|calls| calls.transactions).chain([reads]).collect()
}

/// Takes the median of each count, because a heartbeat may have come between.
pub fn usual(row: Row, counts: &[Vec<u64>]) -> Row {
    let median = |which: usize| {
        let mut all: Vec<u64> = counts.iter().map(|counts| counts[which]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let kinds = counts.first().map_or(1, Vec::len);
    Row { cost: Cost { commits: (0..kinds - 1).map(median).collect(), reads: median(kinds - 1) }, ..row }
}

async fn at_once(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut rows = [What::Create, What::Resize, What::Confirm, What::Revert].map(|what| (Row::new(what, scale.burst), Times::default()));
    for round in 0..scale.bursts * 2 {
        let last = if round % 2 == 0 { What::Confirm } else { What::Revert };
        let began = Instant::now();
        let created = join_all((0..scale.burst).map(|_| create(stage, &requests.create[0]))).await;
        let mut took = vec![(What::Create, began.elapsed(), created.iter().map(|(_, time)| *time).collect::<Vec<_>>())];
        let servers: Vec<Uuid> = created.into_iter().map(|(server, _)| server).collect();
        for what in [What::Resize, last] {
            join_all(servers.iter().map(|server| stage.rest(*server))).await;
            let began = Instant::now();
            let times = join_all(servers.iter().map(|server| act(stage, requests, what, *server))).await;
            took.push((what, began.elapsed(), times));
        }
        join_all(servers.iter().map(|server| delete(stage, *server))).await;
        for (what, whole, times) in took {
            let (row, wholes) = rows.iter_mut().find(|(row, _)| row.what == what).expect("a row of each");
            row.times.extend(times);
            wholes.push(whole);
        }
    }
    rows.into_iter().map(|(row, wholes)| Row { whole: Some(wholes.median()), ..row }).collect()
}

/// Measures one server, and the list of all with details, over two cells.
async fn reads(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut servers = Vec::new();
    while servers.len() < scale.listed {
        let some = (servers.len()..scale.listed).take(scale.burst).map(|number| create(stage, &requests.create[number % 2]));
        servers.extend(join_all(some).await.into_iter().map(|(server, _)| server));
    }
    let show = format!("/compute/v2.1/servers/{}", servers[0]);
    let list = format!("/compute/v2.1/servers/detail?limit={}", scale.listed);
    let listed = stage.member.look(&list).await["servers"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, scale.listed, "the list shows all servers");
    let mut rows = Vec::new();
    for (what, path, at_once, each) in
        [(What::Show, &show, 1, scale.reads), (What::Show, &show, scale.burst, scale.reads / 10), (What::List, &list, 1, scale.lists)]
    {
        let mut row = Row::new(what, at_once);
        row.bytes = stage.member.get(path).await.len();
        row.times = floor::of_reads(&stage.member, path, at_once, each).await;
        let bare = format!("{}?bytes={}", crate::stage::BARE, row.bytes);
        row.floor = floor::of_reads(&stage.bare, &bare, at_once, each).await;
        rows.push(row);
    }
    rows
}
