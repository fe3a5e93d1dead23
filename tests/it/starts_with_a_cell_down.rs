//! The service starts while a cell's database is down: the rest works at once, and the cell is whole when its database returns.

use std::sync::Arc;
use std::time::Duration;

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::config::{Config, Seconds};
use cellshift::domain::server::PowerState;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::cloud::{Cloud, PATIENCE};
use crate::database_trouble::Trouble;

/// A cell that is down is probed again at once, and a start waits for it only briefly.
fn quick(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(50);
    config.cells.timeout = Seconds::whole(2);
}

/// Starts a cloud whose cell may be in this trouble.
async fn start(trouble: &Trouble) -> Cloud {
    let placed = |config: &mut Config| {
        quick(config);
        trouble.place(config);
    };
    Cloud::start_with(placed).await
}

/// The process dies, and starts again when the trouble has begun. Returns the configuration for the trouble's end.
fn restart_in(cloud: &mut Cloud, trouble: &Trouble) -> Config {
    let mut config = None;
    cloud.restart_after(|placed| {
        trouble.begin(placed);
        config = Some(placed.clone());
    });
    config.expect("a second life")
}

fn cell_id(cloud: &Cloud, name: &str) -> Uuid {
    cloud.tree().cell(name).expect("a cell").uuid
}

async fn at_rest(cloud: &Cloud, server: Uuid, status: &str) {
    assert!(cloud.at_rest(server).await, "its operation ends");
    assert_eq!(cloud.status(server).await, status);
}

/// Restarts the process.
async fn obeys(cloud: &Cloud, server: Uuid) {
    for (action, status) in [("os-stop", "SHUTOFF"), ("os-start", "ACTIVE")] {
        cloud.act(server, json!({ action: null })).await;
        at_rest(cloud, server, status).await;
    }
}

/// Returns the hosts on which the server's guest runs.
async fn runs_on(cloud: &Cloud, server: Uuid) -> Vec<String> {
    let mut hosts = Vec::new();
    for cell in &cloud.tree().cells {
        for (host, _) in cell.hosts.hosts() {
            let report = cloud.world().hosts.report(&cell.name, &host, PATIENCE).await.expect("the host answers");
            if report.guests.iter().any(|guest| guest.server == server && guest.power_state == PowerState::Running) {
                hosts.push(host);
            }
        }
    }
    hosts
}

/// Returns the operators' view of a cell.
async fn seen(cloud: &Cloud, name: &str) -> Value {
    let cells = cloud.look("/ops/v1/cells").await["cells"].clone();
    cells.as_array().expect("cells").iter().find(|cell| cell["name"] == name).expect("the cell").clone()
}

async fn assert_down(cloud: &Cloud, name: &str) {
    let notification = cloud.notification("cell.down", cell_id(cloud, name)).await;
    assert_eq!((&notification["name"], &notification["state"]), (&json!(name), &json!("down")));
    let cell = seen(cloud, name).await;
    assert!(["down", "probing"].contains(&cell["health"].as_str().expect("a health")), "{cell}");
    assert!(cell["reason"].as_str().is_some_and(|reason| !reason.is_empty()) && cell["since"].is_string(), "{cell}");
    let hosts: Vec<&Value> = cell["hosts"].as_array().expect("hosts").iter().map(|host| &host["name"]).collect();
    assert_eq!(hosts, [&json!(format!("{name}-host1")), &json!(format!("{name}-host2"))]);
}

async fn assert_back(cloud: &Cloud, name: &str) {
    cloud.notification("cell.up", cell_id(cloud, name)).await;
    let cell = seen(cloud, name).await;
    assert_eq!((&cell["health"], &cell["reason"]), (&json!("up"), &Value::Null));
    let states: Vec<&Value> = cell["hosts"].as_array().expect("hosts").iter().map(|host| &host["state"]).collect();
    assert_eq!(states, ["up", "up"], "what its hosts report is recorded before the cell counts as up");
}

#[test]
fn the_others_are_served_and_the_cell_is_whole_when_it_comes() {
    for trouble in Trouble::all_of("cell1") {
        actix_rt::System::new().block_on(async {
            let mut cloud = start(&trouble).await;
            let (here, doomed, there) = (cloud.ask_for_server().await, cloud.ask_for_server().await, cloud.ask_for_server_in_cell2().await);
            for server in [here, doomed, there] {
                at_rest(&cloud, server, "ACTIVE").await;
            }
            let host = runs_on(&cloud, here).await;
            let config = restart_in(&mut cloud, &trouble);
            assert_down(&cloud, "cell1").await;

            assert_eq!(cloud.status(here).await, "UNKNOWN", "{}", trouble.what);
            obeys(&cloud, there).await;
            let new = cloud.ask_for_server_in_cell2().await;
            at_rest(&cloud, new, "ACTIVE").await;
            let doomed_path = format!("/compute/v2.1/servers/{doomed}");
            assert_eq!(cloud.send("DELETE", &doomed_path, None).await.0, 204);
            assert_eq!(cloud.send("GET", &doomed_path, None).await.0, 404);
            // A host runs its guests again without its cell's records.
            cloud.guests_return().await.expect("the hosts start");
            assert_eq!(runs_on(&cloud, here).await, host, "{}", trouble.what);

            trouble.end(&config);
            assert_back(&cloud, "cell1").await;
            assert_eq!(cloud.status(here).await, "ACTIVE", "{}", trouble.what);
            cloud.notification("instance.queued_delete.end", doomed).await;
            assert!(cloud.at_rest(doomed).await);
            assert!(cloud.world().cells["cell1"].db.instance(doomed).await.is_err());
            obeys(&cloud, here).await;
            assert_eq!(runs_on(&cloud, here).await, host);
            assert_eq!(cloud.audit().await, Vec::<String>::new(), "{}", trouble.what);
        });
    }
}

#[test]
fn a_cell_that_has_never_been_there_is_made_when_it_comes() {
    for trouble in Trouble::all_of("cell1") {
        actix_rt::System::new().block_on(async {
            let mut config = None;
            let cloud = Cloud::start_with(|placed| {
                quick(placed);
                trouble.place(placed);
                trouble.begin(placed);
                config = Some(placed.clone());
            })
            .await;
            if trouble.what == "gone" {
                // A new database needs only an empty directory.
                assert_eq!(seen(&cloud, "cell1").await["health"], "up");
            } else {
                assert_down(&cloud, "cell1").await;
                let there = cloud.ask_for_server_in_cell2().await;
                at_rest(&cloud, there, "ACTIVE").await;
                trouble.end(&config.expect("a life"));
                assert_back(&cloud, "cell1").await;
            }
            let here = cloud.ask_for_server().await;
            at_rest(&cloud, here, "ACTIVE").await;
            assert!(runs_on(&cloud, here).await[0].starts_with("cell1-"), "{}", trouble.what);
            assert_eq!(cloud.audit().await, Vec::<String>::new(), "{}", trouble.what);
        });
    }
}

/// Stops the runner for ever when a step's act is journalled, and reports when.
struct Stops {
    step: &'static str,
    stopped: Arc<Notify>,
}

impl FaultPlan for Stops {
    fn at(&self, point: &Point<'_>) -> StepFault {
        if (point.step, point.side, point.moment) != (self.step, "act", Moment::AfterJournal) {
            return StepFault::None;
        }
        self.stopped.notify_one();
        StepFault::Freeze
    }
}

#[test]
fn an_interrupted_move_ends_when_its_cell_comes_back() {
    let cases = [
        ("cell1", "create_target_records"),
        ("cell2", "create_target_records"),
        ("cell1", "stop_source_guest"),
        ("cell2", "prepare_at_target"),
        ("cell1", "take_ownership"),
        ("cell2", "take_ownership"),
    ];
    for (cell, step) in cases {
        let trouble = Trouble::first_of(cell);
        actix_rt::System::new().block_on(async {
            let mut cloud = start(&trouble).await;
            let other = if cell == "cell1" { cloud.ask_for_server_in_cell2().await } else { cloud.ask_for_server().await };
            let server = cloud.ask_for_server().await;
            for one in [other, server] {
                at_rest(&cloud, one, "ACTIVE").await;
            }
            let stopped = Arc::new(Notify::new());
            cloud.faults().arm(Some(Arc::new(Stops { step, stopped: stopped.clone() })));
            cloud.act(server, json!({"resize": {"flavorRef": "gen2.small"}})).await;
            tokio::time::timeout(PATIENCE, stopped.notified()).await.expect("the move comes there");
            let config = restart_in(&mut cloud, &trouble);
            assert_down(&cloud, cell).await;
            obeys(&cloud, other).await;

            trouble.end(&config);
            assert_back(&cloud, cell).await;
            assert!(cloud.at_rest(server).await, "{cell} {step}: the move ends");
            paid(&cloud, server).await;
            let status = cloud.status(server).await;
            assert!(["ACTIVE", "VERIFY_RESIZE"].contains(&status.as_str()), "{cell} {step}: {status}");
            // While the operation was in flight, the host could not be allowed to run the guest.
            cloud.guests_return().await.expect("the hosts are there");
            assert_eq!(runs_on(&cloud, server).await.len(), 1, "{cell} {step}");
            obeys_in(&cloud, server, &status).await;
            assert_eq!(cloud.audit().await, Vec::<String>::new(), "{cell} {step}");
        });
    }
}

async fn paid(cloud: &Cloud, server: Uuid) {
    let paying = async {
        while !cloud.world().operations.debts(Some(server)).await.expect("debts").is_empty() {
            cloud.tree().conductor.pay_debts().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), paying).await.expect("the debts are paid");
}

/// Checks that the server goes on: a move that went forward is confirmed, and one that came back is made again.
async fn obeys_in(cloud: &Cloud, server: Uuid, status: &str) {
    if status != "VERIFY_RESIZE" {
        cloud.act(server, json!({"resize": {"flavorRef": "gen2.small"}})).await;
        at_rest(cloud, server, "VERIFY_RESIZE").await;
    }
    cloud.act(server, json!({"confirmResize": null})).await;
    at_rest(cloud, server, "ACTIVE").await;
    paid(cloud, server).await;
}
