//! Kills at named points: an experiment makes the service end itself, as `kill -9` would, at a moment of a step of the first move that
//! arrives there.

use std::time::Duration;

use cellshift::saga::tables;
use serde_json::json;

use super::batch::{Batch, configure};
use super::seed;
use crate::databases;

/// The saga, step and moment of each kill of a plain run: around the important commits, and after an effect whose reply is lost.
const POINTS: &[(&str, &str, &str)] = &[
    ("resize", "prepare_at_target", "after_effect"),
    ("resize", "take_ownership", "after_effect"),
    ("resize", "publish", "before_effect"),
    ("confirm", "clean_source_host", "after_journal"),
    ("revert", "take_ownership_back", "after_effect"),
];
const MOMENTS: [&str; 3] = ["before_effect", "after_effect", "after_journal"];
/// The time within which a client must arrive at a point.
const COMING: Duration = Duration::from_secs(60);

/// Returns the points of this run.
fn points() -> Vec<(&'static str, &'static str, &'static str)> {
    match std::env::var("CELLSHIFT_CRASH_POINTS").as_deref() {
        Err(_) => POINTS.to_vec(),
        Ok("all") => {
            let sagas = [("resize", "cross_cell_resize"), ("confirm", "confirm"), ("revert", "revert")];
            let steps = sagas.into_iter().flat_map(|(kind, saga)| {
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
    let dir = tempfile::tempdir().expect("a directory");
    configure(dir.path(), databases::place);
    let points = points();
    actix_rt::System::new().block_on(async {
        let batch = Batch::begin(dir.path(), seed());
        for (saga, step, moment) in &points {
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
