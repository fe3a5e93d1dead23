//! A drain and its dry run plan alike: each planned move takes room from the next, and the plan says what it leads to.

use std::collections::BTreeMap;

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::drain::{begun, done, service_of};
use crate::stage::{Stage, play};

/// The number of virtual CPUs of a host; a server takes one.
const VCPUS: u32 = 4;

fn small_hosts(number: u32) -> impl FnOnce(&mut Config) {
    move |config| {
        config.cells.hosts_per_cell = Some(number);
        (config.compute.vcpus, config.compute.cpu_allocation_ratio) = (VCPUS, 1.0);
    }
}

/// Creates servers on a host.
async fn fill(stage: &Stage, host: &str, number: usize) -> Vec<Uuid> {
    let mut servers = Vec::new();
    for _ in 0..number {
        servers.push(stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host(host)).await);
    }
    servers
}

async fn plan(stage: &Stage, body: &Value) -> Value {
    let mut body = body.clone();
    body["dry_run"] = json!(true);
    stage.admin.post("/ops/v1/drains", body).await.expect(200).body
}

/// Returns the planned target of each server that moves.
fn targets(plan: &Value) -> BTreeMap<Uuid, String> {
    let moving = plan["servers"].as_array().expect("servers").iter().filter_map(|server| {
        let target = server["target"].as_str()?.to_owned();
        Some((server["server"].as_str()?.parse().ok()?, target))
    });
    moving.collect()
}

/// Returns what is used of a resource on each host that takes servers, now and after the moves.
fn used(plan: &Value, resource: &str) -> Vec<(String, i64, i64, i64)> {
    let targets = plan["targets"].as_array().expect("targets").iter();
    let number = |target: &Value, moment: &str| target[resource][moment].as_i64().expect("a number");
    let row = |target: &Value| {
        let host = target["host"].as_str().expect("a host").to_owned();
        (host, number(target, "now"), number(target, "after"), number(target, "total"))
    };
    targets.map(row).collect()
}

#[test]
fn a_cell_fits_into_two_cells_together_and_not_into_one() {
    let three_cells = |config: &mut Config| {
        config.cells.count = Some(3);
        small_hosts(1)(config);
    };
    play(three_cells, |stage| async move {
        let servers = fill(&stage, "cell1-host1", 4).await;
        for host in ["cell2-host1", "cell3-host1"] {
            fill(&stage, host, 2).await;
        }
        let into = |cells: &[&str]| json!({"cell": "cell1", "to_cells": cells, "confirm": true});
        let alone = plan(&stage, &into(&["cell2"])).await;
        assert_eq!((&alone["stays"], &alone["to_cell"], &alone["to_cells"]), (&json!(2), &json!("cell2"), &json!(["cell2"])));
        let together = plan(&stage, &into(&["cell2", "cell3"])).await;
        assert_eq!((&together["stays"], &together["to_cell"]), (&json!(0), &Value::Null), "{together:#}");
        assert_eq!(used(&together, "vcpus"), [("cell2-host1".into(), 2, 4, 4), ("cell3-host1".into(), 2, 4, 4)]);

        let drain = begun(&stage, into(&["cell2", "cell3"])).await;
        let moved = done(&stage, &drain).await;
        for server in servers {
            assert_eq!(moved[&server]["state"], "moved", "{moved:#?}");
            assert!(stage.record("cell1", server).await.is_none(), "confirmed: nothing is left in the old cell");
        }
        let own = stage.admin.post("/ops/v1/drains", into(&["cell2", "cell1"])).await.expect(400);
        assert!(own.message().contains("Cell cell1 cannot be drained to itself."), "{}", own.text);
    });
}

#[test]
fn a_planned_move_takes_room_from_the_next_one() {
    play(small_hosts(2), |stage| async move {
        let servers = fill(&stage, "cell1-host1", 3).await;
        fill(&stage, "cell1-host2", 2).await;
        let body = json!({"host": "cell1-host1"});
        let planned = plan(&stage, &body).await;
        assert_eq!((&planned["stays"], targets(&planned).len()), (&json!(1), 2), "{planned:#}");
        assert_eq!(used(&planned, "vcpus"), [("cell1-host2".to_owned(), 2, 4, 4)]);
        let stays = planned["servers"].as_array().expect("servers").iter().find(|server| server["kind"].is_null()).expect("one").clone();
        let why = stays["reason"].as_str().expect("a reason");
        assert!(why.contains("(cell1-host2)") && why.contains("VCPU: 1 wanted, 0 free of 4"), "{why}");
        assert_eq!((&planned["time"]["seconds"], &planned["time"]["measured"][0]["moves"]), (&Value::Null, &json!(0)), "{planned:#}");

        let drained = done(&stage, &begun(&stage, body).await).await;
        for server in servers {
            let is_planned = targets(&planned).contains_key(&server);
            assert_eq!(drained[&server]["state"], if is_planned { "moved" } else { "refused" }, "{drained:#?}");
        }
        let again = plan(&stage, &json!({"host": "cell1-host2", "to_zone": "cell2"})).await;
        assert_eq!(again["time"]["measured"][0]["kind"], "cold", "{again:#}");
        let service = service_of(&stage, "cell1-host1").await["id"].as_str().expect("an id").to_owned();
        stage.admin.put(&format!("/os-services/{service}"), json!({"status": "enabled"})).await.expect(200);
        let back = plan(&stage, &json!({"host": "cell1-host2"})).await;
        assert_eq!((back["stays"].as_u64(), &back["time"]["measured"][0]["moves"]), (Some(1), &json!(2)), "{back:#}");
        assert!(back["time"]["seconds"].as_f64().expect("measured") > 0.0, "{back:#}");
    });
}

#[test]
fn a_drain_goes_where_its_dry_run_says() {
    play(small_hosts(4), |stage| async move {
        fill(&stage, "cell1-host1", 3).await;
        fill(&stage, "cell1-host2", 3).await;
        fill(&stage, "cell1-host3", 1).await;
        let body = json!({"host": "cell1-host1", "max_in_flight": 2});
        let planned = plan(&stage, &body).await;
        let after: Vec<(String, i64)> = used(&planned, "vcpus").into_iter().map(|(host, _, after, _)| (host, after)).collect();
        assert_eq!(after, [("cell1-host3".to_owned(), 2), ("cell1-host4".to_owned(), 2)], "the emptiest first: {planned:#}");
        assert_eq!((&planned["stays"], used(&planned, "memory_mb").len()), (&json!(0), 2));

        let drained = done(&stage, &begun(&stage, body).await).await;
        assert!(drained.values().all(|server| server["state"] == "moved"), "{drained:#?}");
        let mut moved: BTreeMap<&str, i64> = BTreeMap::new();
        for server in drained.values() {
            *moved.entry(server["target"].as_str().expect("a host")).or_insert(0) += 1;
        }
        let moves_by_target: BTreeMap<&str, i64> = [("cell1-host3", 1), ("cell1-host4", 2)].into();
        assert_eq!(moved, moves_by_target, "{planned:#} {drained:#?}");
    });
}
