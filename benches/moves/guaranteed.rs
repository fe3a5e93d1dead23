//! A resize across cells of a server with two ports: ports that ask for nothing, and ports with guaranteed bandwidth. The two kinds take turns,
//! so that a machine that slows down slows both.

use reqwest::Method;
use serde_json::{Value, json};

use crate::measure::{Requests, Row, Scale, What, act, create, delete, difference, usual};
use crate::stage::Stage;

const PORTS: &str = "/network/v2.0/ports";
const POLICIES: &str = "/network/v2.0/qos/policies";

/// Measures both kinds, one server at a time.
pub async fn measure(stage: &Stage, requests: &Requests, scale: &Scale) -> Vec<Row> {
    let policy = policy(stage).await;
    let mut rows =
        [(What::PlainPorts, Value::Null), (What::GuaranteedPorts, policy)].map(|(what, policy)| (Row::new(what, 1), policy, Vec::new()));
    // The first rounds warm up caches and files.
    for round in 0..scale.alone + 2 {
        for (row, policy, counts) in &mut rows {
            let ports = [port(stage, requests, policy).await, port(stage, requests, policy).await];
            let mut request = requests.create[0].clone();
            request["server"]["networks"] = ports.iter().map(|port| json!({"port": port})).collect();
            let (server, _) = create(stage, &request).await;
            stage.rest(server).await;
            let before = stage.calls();
            let time = act(stage, requests, What::Resize, server).await;
            stage.rest(server).await;
            if round >= 2 {
                row.times.push(time);
                counts.push(difference(&before, &stage.calls()));
            }
            delete(stage, server).await;
            for port in ports {
                stage.member.send(Method::DELETE, &format!("{PORTS}/{port}"), None).await;
            }
        }
    }
    rows.into_iter().map(|(row, _, counts)| usual(row, &counts)).collect()
}

/// Makes a policy that guarantees 1 Mbit/s each way, for everybody.
async fn policy(stage: &Stage) -> Value {
    let made = made(stage.admin.send(Method::POST, POLICIES, Some(&json!({"policy": {"name": "minimum", "shared": true}}))).await);
    let id = made["policy"]["id"].clone();
    let rules = format!("{POLICIES}/{}/minimum_bandwidth_rules", id.as_str().expect("an id"));
    for direction in ["egress", "ingress"] {
        let rule = json!({"minimum_bandwidth_rule": {"min_kbps": 1000, "direction": direction}});
        stage.admin.send(Method::POST, &rules, Some(&rule)).await;
    }
    id
}

async fn port(stage: &Stage, requests: &Requests, policy: &Value) -> String {
    let network = &requests.create[0]["server"]["networks"][0]["uuid"];
    let body = json!({"port": {"network_id": network, "qos_policy_id": policy}});
    let made = made(stage.member.send(Method::POST, PORTS, Some(&body)).await);
    made["port"]["id"].as_str().expect("an id").to_owned()
}

fn made(answer: bytes::Bytes) -> Value {
    serde_json::from_slice(&answer).expect("JSON")
}
