//! A cell is drained to another: each server is resized to the new hardware and confirmed by the drain.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::measure::{Cost, Requests, Row, Scale, What, create, delete, difference};
use crate::sample::Times;
use crate::stage::Stage;

/// The pause between two looks at the drain.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Measures one drain, from its request to its end. The row has the commits of one server's part, for the floor.
pub async fn measure(stage: &Stage, requests: &Requests, scale: &Scale) -> Row {
    let mut servers = Vec::new();
    while servers.len() < scale.drained {
        let some = (servers.len()..scale.drained).take(scale.burst).map(|_| create(stage, &requests.create[0]));
        servers.extend(join_all(some).await.into_iter().map(|(server, _)| server));
    }
    join_all(servers.iter().map(|server| stage.rest(*server))).await;
    let before = stage.calls();
    let began = Instant::now();
    let map = json!({"gen1.small": "gen2.small"});
    let body = json!({"cell": "cell1", "to_cell": "cell2", "flavor_map": map, "confirm": true, "max_in_flight": 64});
    let answer = stage.admin.send(Method::POST, "/ops/v1/drains", Some(&body)).await;
    let drain: Value = serde_json::from_slice(&answer).expect("JSON");
    let path = format!("/ops/v1/drains/{}", drain["id"].as_str().expect("an id"));
    let ended = loop {
        let drain = stage.admin.look(&path).await;
        if drain["state"] == "done" {
            break drain;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    };
    let whole = began.elapsed();
    assert_eq!(ended["servers"]["moved"], json!(servers.len()), "{ended:#}");
    let cost = Cost::of_each(difference(&before, &stage.calls()), servers.len());
    enable_hosts(stage).await;
    join_all(servers.iter().map(|server| delete(stage, *server))).await;
    let mut times = Times::default();
    times.push(whole);
    Row { times, cost, ..Row::new(What::Drain, servers.len()) }
}

/// Enables the hosts that the drain has disabled.
async fn enable_hosts(stage: &Stage) {
    let services = stage.admin.look("/compute/v2.1/os-services?binary=nova-compute").await;
    for service in services["services"].as_array().into_iter().flatten().filter(|service| service["status"] == "disabled") {
        let path = format!("/compute/v2.1/os-services/{}", service["id"].as_str().expect("an id"));
        stage.admin.send(Method::PUT, &path, Some(&json!({"status": "enabled"}))).await;
    }
}
