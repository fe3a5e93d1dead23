//! Moves within a cell: live migration of an idle guest, alone and concurrently; shelve and unshelve; and the evacuation of a host.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::measure::{Cost, Requests, Row, Scale, What, create, delete, difference, seen, usual};
use crate::sample::Times;
use crate::stage::Stage;

/// The measured requests, in the order in which each server gets them.
const ACTS: [What; 3] = [What::LiveMigrate, What::Shelve, What::Unshelve];
/// The host that is evacuated, and the other one of its cell.
const SOURCE: &str = "cell1-host1";
const OTHER: &str = "cell1-host2";
/// The pause between two requests to force the source up, which is refused until it is cleaned up.
const PAUSE: Duration = Duration::from_millis(50);

/// Measures all rows.
pub async fn measure(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut rows = one_at_a_time(stage, requests, scale).await;
    let counted: Vec<(What, Vec<u64>)> = rows.iter().map(|row| (row.what, row.cost.commits.clone())).collect();
    for mut row in at_once(stage, requests, scale).await {
        row.cost.commits = counted.iter().find(|(what, _)| *what == row.what).map(|(_, commits)| commits.clone()).unwrap_or_default();
        rows.push(row);
    }
    rows.push(evacuation(stage, requests, scale).await);
    rows
}

async fn act(stage: &Stage, what: What, server: Uuid) -> Duration {
    let (action, event, status) = match what {
        What::LiveMigrate => {
            (json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}), "instance.live_migration_post_dest.end", "ACTIVE")
        }
        What::Shelve => (json!({"shelve": null}), "instance.shelve_offload.end", "SHELVED_OFFLOADED"),
        What::Unshelve => (json!({"unshelve": null}), "instance.unshelve.end", "ACTIVE"),
        _ => (json!({"evacuate": {}}), "instance.rebuild.end", "ACTIVE"),
    };
    let caller = if matches!(what, What::Shelve | What::Unshelve) { &stage.member } else { &stage.admin };
    let began = Instant::now();
    caller.act(server, &action).await;
    seen(stage, server, event, status, began).await
}

async fn one_at_a_time(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut rows = ACTS.map(|what| (Row::new(what, 1), Vec::new()));
    for round in 0..scale.alone + 2 {
        let (server, _) = create(stage, &requests.create[0]).await;
        stage.rest(server).await;
        for (row, counts) in &mut rows {
            let before = stage.calls();
            let time = act(stage, row.what, server).await;
            stage.rest(server).await;
            // The first rounds warm up caches and files.
            if round >= 2 {
                row.times.push(time);
                counts.push(difference(&before, &stage.calls()));
            }
        }
        delete(stage, server).await;
    }
    rows.into_iter().map(|(row, counts)| usual(row, &counts)).collect()
}

async fn at_once(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let mut rows = ACTS.map(|what| (Row::new(what, scale.burst), Times::default()));
    for _ in 0..scale.bursts {
        let servers = servers(stage, requests, scale.burst).await;
        for (row, wholes) in &mut rows {
            let began = Instant::now();
            let times = join_all(servers.iter().map(|server| act(stage, row.what, *server))).await;
            wholes.push(began.elapsed());
            row.times.extend(times);
            join_all(servers.iter().map(|server| stage.rest(*server))).await;
        }
        join_all(servers.iter().map(|server| delete(stage, *server))).await;
    }
    rows.into_iter().map(|(row, wholes)| Row { whole: Some(wholes.median()), ..row }).collect()
}

async fn servers(stage: &Stage, requests: &Requests, number: usize) -> Vec<Uuid> {
    let created = join_all((0..number).map(|_| create(stage, &requests.create[0]))).await;
    let servers: Vec<Uuid> = created.into_iter().map(|(server, _)| server).collect();
    join_all(servers.iter().map(|server| stage.rest(*server))).await;
    servers
}

/// Measures the evacuation of all servers of a host that was forced down, from the first request until the last server is ACTIVE. The row has the
/// commits of one server's part, for the floor.
async fn evacuation(stage: &Stage, requests: &Requests, scale: &Scale) -> Row {
    enable(stage, OTHER, false).await;
    let servers = servers(stage, requests, scale.evacuated).await;
    enable(stage, OTHER, true).await;
    set(stage, SOURCE, json!({"forced_down": true})).await;
    let before = stage.calls();
    let began = Instant::now();
    join_all(servers.iter().map(|server| act(stage, What::Evacuate, *server))).await;
    let whole = began.elapsed();
    join_all(servers.iter().map(|server| stage.rest(*server))).await;
    let cost = Cost::of_each(difference(&before, &stage.calls()), servers.len());
    let (path, up) = (service(stage, SOURCE).await, json!({"forced_down": false}));
    let forced_up = async || {
        let answer = stage.admin.request(Method::PUT, &path).header("OpenStack-API-Version", "compute 2.79").json(&up).send();
        answer.await.expect("an answer").status().is_success()
    };
    while !forced_up().await {
        tokio::time::sleep(PAUSE).await;
    }
    join_all(servers.iter().map(|server| delete(stage, *server))).await;
    let mut times = Times::default();
    times.push(whole);
    Row { times, cost, ..Row::new(What::Evacuate, servers.len()) }
}

async fn enable(stage: &Stage, host: &str, enabled: bool) {
    set(stage, host, json!({"status": if enabled { "enabled" } else { "disabled" }})).await;
}

async fn set(stage: &Stage, host: &str, change: Value) {
    let path = service(stage, host).await;
    stage.admin.send(Method::PUT, &path, Some(&change)).await;
}

/// Returns the path of the host's service.
async fn service(stage: &Stage, host: &str) -> String {
    let services = stage.admin.look(&format!("/compute/v2.1/os-services?binary=nova-compute&host={host}")).await;
    format!("/compute/v2.1/os-services/{}", services["services"][0]["id"].as_str().expect("an id"))
}
