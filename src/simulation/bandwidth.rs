//! Ports with guaranteed bandwidth for some of the users' servers: three of them fill a host's bridge, so that moves run out of it.

use actix_web::http::Method;
use serde_json::{Value, json};

use super::users::{Reach, Users};

/// Every how many servers one gets such a port.
const EVERY: usize = 3;
/// In kilobits per second.
const EGRESS: i64 = 3_000_000;

/// Returns the networks of the server with this number, for its request.
pub async fn networks(users: &Users, reach: &Reach, number: usize) -> Value {
    if number.is_multiple_of(EVERY) { with_bandwidth(users, reach, EGRESS).await } else { json!("auto") }
}

/// Returns a network whose port is guaranteed so much, for a server's request; any network if the port cannot be made.
pub async fn with_bandwidth(users: &Users, reach: &Reach, egress: i64) -> Value {
    let auto = json!("auto");
    let Some(policy) = policy(users, reach, egress).await else { return auto };
    let path = "/network/v2.0/networks?name=private";
    let network = reach.ask(users, "look for a network", Method::GET, path, None).await.1["networks"][0]["id"].clone();
    let body = json!({"port": {"network_id": network, "qos_policy_id": policy}});
    let (status, answer) = reach.ask(users, "make a port", Method::POST, "/network/v2.0/ports", Some(body)).await;
    if status == 201 { json!([{"port": answer["port"]["id"]}]) } else { auto }
}

/// Returns the policy that guarantees the bandwidth, and makes it first if need be.
async fn policy(users: &Users, reach: &Reach, egress: i64) -> Option<Value> {
    if let Some(policy) = users.policies.borrow().get(&egress) {
        return Some(policy.clone());
    }
    let policies = "/network/v2.0/qos/policies";
    let body = json!({"policy": {"name": "minimum", "shared": true}});
    let (status, answer) = reach.ask(users, "make a policy", Method::POST, policies, Some(body)).await;
    let policy = answer["policy"]["id"].clone();
    let path = format!("{policies}/{}/minimum_bandwidth_rules", policy.as_str().filter(|_| status == 201)?);
    let rule = json!({"minimum_bandwidth_rule": {"min_kbps": egress, "direction": "egress"}});
    let (status, _) = reach.ask(users, "make a rule", Method::POST, &path, Some(rule)).await;
    if status == 201 {
        users.policies.borrow_mut().insert(egress, policy.clone());
    }
    (status == 201).then_some(policy)
}
