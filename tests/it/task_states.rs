//! The task states that users see while a server is made or moves, at each step that changes them.

use std::sync::Arc;

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use futures::future::BoxFuture;
use serde_json::json;
use uuid::Uuid;

use crate::held::Gate;
use crate::live_migration::live;
use crate::stage::{Stage, play_default};

/// Stops an operation before the acts of these steps until the test lets it go on.
struct Stops {
    before: &'static [&'static str],
    gate: Gate,
}

impl FaultPlan for Stops {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let here = point.side == "act" && point.moment == Moment::BeforeEffect && self.before.contains(&point.step);
        if !here {
            return StepFault::None;
        }
        self.gate.stop()
    }

    fn released(&self, _: &Point<'_>) -> BoxFuture<'static, ()> {
        self.gate.released()
    }
}

fn stops(stage: &Stage, before: &'static [&'static str]) -> Arc<Stops> {
    let stops = Arc::new(Stops { before, gate: Gate::new() });
    stage.seams.steps.arm(Some(stops.clone()));
    stops
}

/// Waits for each stop, and returns the tasks that the server's user sees there. Nobody resets the server's state there.
async fn tasks(stage: &Stage, stops: &Stops, server: Uuid) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in stops.before {
        stops.gate.met().await;
        let shown = stage.admin.show(server).await;
        seen.push(shown["OS-EXT-STS:task_state"].as_str().unwrap_or("none").to_owned());
        for state in ["error", "active"] {
            stage.admin.act(server, json!({"os-resetState": {"state": state}})).await.expect(409);
        }
        stops.gate.release();
    }
    stage.disarm();
    seen
}

#[test]
fn a_server_in_the_making_shows_its_tasks() {
    play_default(|stage| async move {
        let stops = stops(&stage, &["select_host", "make_volumes", "prepare_guest", "take_ownership"]);
        let answer = stage.volume_server().ask(&stage.member).await.expect(202);
        let server = crate::client::id_of(&answer.body["server"]);
        assert_eq!(tasks(&stage, &stops, server).await, ["scheduling", "networking", "block_device_mapping", "spawning"]);
        stage.at_rest(server, "ACTIVE").await;
    });
}

/// Nobody resets it while its memory is copied, nor later.
#[test]
fn a_live_migration_shows_its_task() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let stops = stops(&stage, &["prepare_at_target", "copy_guest", "take_ownership"]);
        stage.admin.act(server, live(None)).await.expect(202);
        assert_eq!(tasks(&stage, &stops, server).await, ["migrating"; 3]);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
    });
}

#[test]
fn a_move_shows_its_tasks() {
    const STEPS: &[&str] = &["release_source_guest", "prepare_at_target", "start_at_target"];
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let across = stops(&stage, STEPS);
        stage.member.resize(server, "gen2.small").await.expect(202);
        let seen = tasks(&stage, &across, server).await;
        assert_eq!(seen, ["resize_migrating", "resize_migrated", "resize_migrated"], "to another cell");
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.confirm(server).await;

        let within = stops(&stage, STEPS);
        stage.admin.act(server, json!({"migrate": null})).await.expect(202);
        let seen = tasks(&stage, &within, server).await;
        assert_eq!(seen, ["resize_migrating", "resize_migrated", "resize_finish"], "within the cell");
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}
