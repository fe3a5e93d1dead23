//! Upgrades with operations in flight. A fixture is a data directory that an earlier release left when its process died, with an operation
//! stopped at each step of each saga, on both sides. This release must bring all of them to their ends.
//!
//! The release after which a fixture is named has recorded it: `CELLSHIFT_RECORD_IN_FLIGHT=FILE cargo test --test it in_flight::record`.

mod directory;
mod left_alone;
mod parked;
mod recorder;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use crate::cloud::Cloud;
use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::config::Config;
use directory::Packed;

/// Each stop stands still after its guest is off.
struct StopsStandStill(tokio::sync::Notify);

impl FaultPlan for StopsStandStill {
    fn at(&self, point: &Point<'_>) -> StepFault {
        if (point.step, point.moment) == ("stop_guest", Moment::AfterEffect) {
            self.0.notify_one();
            return StepFault::Freeze;
        }
        StepFault::None
    }
}

/// Makes a cloud in which the stop of a server stands still.
async fn dead_in_a_stop(configure: impl FnOnce(&mut Config)) -> (Cloud, Uuid) {
    let cloud = Cloud::start_with(configure).await;
    let server = cloud.ask_for_server().await;
    assert!(cloud.at_rest(server).await);
    let plan = Arc::new(StopsStandStill(tokio::sync::Notify::new()));
    cloud.faults().arm(Some(plan.clone()));
    cloud.act(server, json!({"os-stop": null})).await;
    plan.0.notified().await;
    (cloud, server)
}

/// An operation in flight in a fixture.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stopped {
    saga: String,
    step: String,
    side: String,
    /// The operation's id.
    id: Uuid,
    server: Uuid,
}

impl Stopped {
    /// True if the operation is completed, and false if it is undone. The hosts died with the process.
    fn is_completed(&self) -> bool {
        match (self.saga.as_str(), self.step.as_str(), self.side.as_str()) {
            // The guest has run at the target, whose host is there again.
            ("live_migration", "resume_at_target", "undo") => true,
            // The guest that was to move while it runs is off.
            ("live_migration", step, "act") => !BEFORE_ACTIVATION.contains(&step),
            // Another operation has brought the source up again.
            ("evacuate", "accept", "act") => false,
            (_, _, side) => side == "act",
        }
    }
}

/// The steps of a live migration at which its guest still runs at the source.
const BEFORE_ACTIVATION: [&str; 12] = [
    "accept",
    "record_migration",
    "hold_source_allocation",
    "select_destination",
    "check_at_target",
    "bind_ports_at_target",
    "reserve_volumes_for_target",
    "claim_at_target",
    "record_target_choice",
    "queue_at_source",
    "prepare_at_target",
    "copy_guest",
];

/// A data directory with operations in flight.
#[derive(Serialize, Deserialize)]
struct Fixture {
    stopped: Vec<Stopped>,
    directory: Packed,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/in_flight")
}

/// Room for a server at each step of each saga.
fn roomy(config: &mut Config) {
    (config.compute.vcpus, config.compute.memory_mb, config.compute.disk_gb) = (1024, 1 << 20, 1 << 14);
    (config.compute.network.virtual_functions, config.network.quota_port) = (255, -1);
    (config.migration.max_in_flight, config.compute.max_concurrent_live_migrations) = (1000, 1000);
    // All go on at once: a slow machine must not make one look stuck.
    config.migration.deadlines.clear();
    let unlimited = &mut config.quota;
    (unlimited.instances, unlimited.cores, unlimited.ram) = (-1, -1, -1);
}

/// Starts this release over a fixture.
async fn started(fixture: &Fixture) -> Cloud {
    let dir = TempDir::new().expect("a directory");
    fixture.directory.unpack(dir.path());
    Cloud::start_over(dir, roomy).await
}

#[test]
fn operations_of_each_release_are_finished() {
    // The fixtures' databases are SQLite files, so PostgreSQL would repeat the same test.
    if crate::databases::on_postgres() {
        return;
    }
    let mut files: Vec<_> = std::fs::read_dir(folder()).expect("fixtures").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there are fixtures");
    for file in files {
        let fixture: Fixture = directory::read(&file);
        actix_rt::System::new().block_on(finish(&fixture, &file.display().to_string()));
    }
}

async fn finish(fixture: &Fixture, name: &str) {
    let cloud = started(fixture).await;
    let mut wrong = Vec::new();
    for stopped in &fixture.stopped {
        assert!(cloud.at_rest(stopped.server).await, "{name}: {stopped:?} comes to rest");
        let saga = cloud.world().operations.saga(stopped.id).await.expect("the journal answers").expect("the operation");
        let expected = if stopped.is_completed() { "done" } else { "unwound" };
        if saga.state.as_str() != expected {
            wrong.push(format!("{} {} of {} is {}: {:?}", stopped.side, stopped.step, stopped.saga, saga.state, saga.error));
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    cloud.guests_return().await.expect("hosts answer");
    cloud.tree().conductor.pay_debts().await;
    heal(&cloud, fixture).await;
    assert_eq!(cloud.audit().await, Vec::<String>::new(), "{name}");
}

/// Begins the undone healings again: until then their servers hold nothing of their hosts' networks.
async fn heal(cloud: &Cloud, fixture: &Fixture) {
    for stopped in fixture.stopped.iter().filter(|stopped| stopped.saga == "heal" && !stopped.is_completed()) {
        let (status, body) = cloud.send("POST", &format!("/ops/v1/servers/{}/heal", stopped.server), None).await;
        assert_eq!(status, 202, "{body}");
        assert!(cloud.at_rest(stopped.server).await);
    }
}
