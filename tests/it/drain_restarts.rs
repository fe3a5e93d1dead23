//! A controller dies during a drain. Its successor goes on from the rows, and begins no move twice.

use std::collections::BTreeMap;

use cellshift::db::api::operations::SagaFilter;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::{Cloud, PATIENCE};

async fn servers_of(cloud: &Cloud, drain: &str) -> Vec<Value> {
    cloud.look(&format!("/ops/v1/drains/{drain}/servers")).await["servers"].as_array().expect("servers").clone()
}

/// Counts the drain's servers by state.
async fn states(cloud: &Cloud, drain: &str) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for server in servers_of(cloud, drain).await {
        *states.entry(server["state"].as_str().expect("a state").to_owned()).or_insert(0) += 1;
    }
    states
}

#[test]
fn a_drain_survives_its_controllers_and_moves_none_twice() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start().await;
        let mut servers = Vec::new();
        for _ in 0..4 {
            let server = cloud.ask_for_server().await;
            assert!(cloud.at_rest(server).await);
            servers.push(server);
        }
        let map = json!({"gen1.small": "gen2.small"});
        let body = json!({"cell": "cell1", "to_cell": "cell2", "flavor_map": map, "confirm": true, "max_in_flight": 2});
        let (status, begun) = cloud.operate("POST", "/ops/v1/drains", body).await;
        assert_eq!(status, 202, "{begun}");
        let drain = begun["id"].as_str().expect("an id").to_owned();
        // One life ends while the first moves are in flight, one later, and one at any moment.
        let mut lives = 0;
        let ended = async {
            loop {
                let states = states(&cloud, &drain).await;
                let moved = states.get("moved").copied().unwrap_or(0);
                if cloud.look(&format!("/ops/v1/drains/{drain}")).await["state"] == "done" {
                    break;
                }
                if lives < 3 && states.contains_key("moving") && moved >= lives {
                    lives += 1;
                    cloud.restart();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the drain ends");
        assert!(lives > 0, "the controller died while moves were in flight");
        for server in &servers_of(&cloud, &drain).await {
            assert_eq!(server["state"], "moved", "{server:#}");
        }
        for server in servers {
            assert!(cloud.at_rest(server).await);
            assert_eq!(cloud.status(server).await, "ACTIVE");
            assert_eq!(moves(&cloud, server).await, ["confirm", "resize", "create"], "each began once");
        }
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}

/// Returns the kinds of the server's operations, newest first.
async fn moves(cloud: &Cloud, server: Uuid) -> Vec<String> {
    let filter = SagaFilter { server: Some(server), limit: 100, ..SagaFilter::default() };
    cloud.world().operations.list(filter).await.expect("the journal").into_iter().map(|saga| saga.kind).collect()
}
