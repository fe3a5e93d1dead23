//! Kills at named points: an experiment makes the service end itself, as `kill -9` would, at a moment of a step of the first move that
//! arrives there. Clients move their servers, or shelve and unshelve them.

use std::time::Duration;

use cellshift::saga::tables;
use serde_json::json;

use super::batch::{Batch, configure};
use super::client::Life;
use super::seed;
use crate::databases;

/// A saga, a step and a moment.
type Point = (&'static str, &'static str, &'static str);

/// The saga, step and moment of each kill of a plain run: around the important commits, and after an effect whose reply is lost.
const POINTS: &[Point] = &[
    ("resize", "prepare_at_target", "after_effect"),
    ("resize", "take_ownership", "after_effect"),
    ("resize", "publish", "before_effect"),
    ("confirm", "clean_source_host", "after_journal"),
    ("revert", "take_ownership_back", "after_effect"),
];
/// The points of a plain run in the life of a server that is shelved.
const SHELF_POINTS: &[Point] = &[
    ("shelve", "upload_shelved_image", "after_effect"),
    ("shelve_offload", "disown", "after_effect"),
    ("shelve_offload", "record_offloaded", "before_effect"),
    ("unshelve", "start_guest", "after_effect"),
    ("unshelve", "claim_at_host", "after_effect"),
    ("unshelve", "take_ownership", "after_effect"),
    // Only an unshelve across cells publishes.
    ("unshelve", "publish", "before_effect"),
];
/// All sagas of moves between cells, and of a shelved server's life.
const SAGAS: [(&str, &str); 3] = [("resize", "cross_cell_resize"), ("confirm", "confirm"), ("revert", "revert")];
const SHELF_SAGAS: [(&str, &str); 5] = [
    ("shelve", "shelve"),
    ("shelve_offload", "shelve_offload"),
    ("unshelve", "unshelve_in_place"),
    ("unshelve", "unshelve"),
    ("unshelve", "cross_cell_unshelve"),
];
const MOMENTS: [&str; 3] = ["before_effect", "after_effect", "after_journal"];
/// The time within which a client must arrive at a point.
const COMING: Duration = Duration::from_secs(60);

/// Returns the points of this run.
fn points(plain: &[Point], sagas: &[(&'static str, &'static str)]) -> Vec<Point> {
    match std::env::var("CELLSHIFT_CRASH_POINTS").as_deref() {
        Err(_) => plain.to_vec(),
        Ok("all") => {
            let steps = sagas.iter().flat_map(|&(kind, saga)| {
                let table = tables::ALL.iter().find(|(name, _)| *name == saga).expect("a registered saga").1;
                table.steps.iter().map(move |step| (kind, step.name.as_str()))
            });
            steps.flat_map(|(kind, step)| MOMENTS.map(|moment| (kind, step, moment))).collect()
        }
        Ok(other) => panic!("CELLSHIFT_CRASH_POINTS may be all, not {other}"),
    }
}

#[test]
fn a_service_that_is_killed_at_a_point_of_a_move_loses_nothing() {
    killed_at(&points(POINTS, &SAGAS), Life::Moves);
}

#[test]
fn a_service_that_is_killed_at_a_point_of_a_shelf_loses_nothing() {
    killed_at(&points(SHELF_POINTS, &SHELF_SAGAS), Life::Shelves);
}

fn killed_at(points: &[Point], kind: Life) {
    let dir = tempfile::tempdir().expect("a directory");
    configure(dir.path(), databases::place);
    actix_rt::System::new().block_on(async {
        let batch = Batch::begin_lives(kind, dir.path(), seed());
        for &(saga, step, moment) in points {
            let service = batch.start().await;
            let fault = json!({"when": {"saga": saga, "step": step, "moment": moment}, "what": "restart"});
            let experiment = json!({"experiment": {"title": "killed at a point", "faults": [fault]}});
            // A move that is at the point already kills the service before it can answer.
            if let Some(answer) = batch.life().admin.try_post("/ops/v1/chaos/experiment", experiment).await {
                answer.expect(202);
            }
            let died = tokio::time::timeout(COMING, actix_rt::task::spawn_blocking(move || service.death())).await;
            let status = died.unwrap_or_else(|_| panic!("no move came to {moment} of {saga} {step}")).expect("no panic");
            assert!(!status.success(), "it was killed at {moment} of {saga} {step}, not stopped: {status}");
            batch.gone();
        }
        let service = batch.start().await;
        batch.end(service, &format!("killed at {} points", points.len())).await;
    });
}
