//! The record of a move is there when its request is answered, and stays the same until the move has ended.

use cellshift::chaos::point::{Moment, StepFault};
use futures::future::join;
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::held::Held;
use crate::live_migration::live;
use crate::stage::{Stage, play_default};

/// The moves, by the types of their records.
const MOVES: [&str; 4] = ["resize", "migration", "live-migration", "evacuation"];

/// Makes a server on cell1-host1 that can be moved so.
async fn server_for(stage: &Stage, kind: &str) -> Uuid {
    let server = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host("cell1-host1")).await;
    if kind == "evacuation" {
        stage.power("cell1-host1", false).await;
    }
    server
}

async fn request(stage: &Stage, kind: &str, server: Uuid) -> Answer {
    match kind {
        "resize" => stage.admin.resize(server, "m1.small").await.expect(202),
        "migration" => stage.admin.migrate(server, None).await.expect(202),
        "live-migration" => stage.admin.act(server, live(None)).await.expect(202),
        _ => stage.admin.act(server, json!({"evacuate": {}})).await.expect(200),
    }
}

/// Returns the moves from cell1-host1 as instance-HA asks for them: number, uuid, type and server of each.
async fn listed(stage: &Stage) -> Vec<Value> {
    let body = stage.admin.get("/os-migrations?source_compute=cell1-host1").await.expect(200).body;
    let listed = body["migrations"].as_array().cloned().expect("a list");
    listed.iter().map(|record| json!([record["id"], record["uuid"], record["migration_type"], record["instance_uuid"]])).collect()
}

/// Checks that there is one record, of this move.
async fn the_record(stage: &Stage, kind: &str, server: Uuid) -> Vec<Value> {
    let records = listed(stage).await;
    assert_eq!(records.iter().map(|record| (&record[2], &record[3])).collect::<Vec<_>>(), [(&json!(kind), &json!(server))], "{kind}");
    records
}

async fn at_its_end(stage: &Stage, kind: &str, server: Uuid) {
    let waits = ["resize", "migration"].contains(&kind);
    stage.at_rest(server, if waits { "VERIFY_RESIZE" } else { "ACTIVE" }).await;
    if kind == "evacuation" {
        stage.power("cell1-host1", true).await;
        stage.paid(server).await;
    }
}

#[test]
fn a_move_is_listed_when_its_request_is_answered() {
    for kind in MOVES {
        play_default(|stage| async move {
            let server = server_for(&stage, kind).await;
            assert!(listed(&stage).await.is_empty());
            let held = Held::at(&stage, "record_migration", Moment::BeforeEffect);
            request(&stage, kind, server).await;
            let record = the_record(&stage, kind, server).await;
            held.met().await;
            assert_eq!(listed(&stage).await, record, "{kind}: its step has not run");
            held.release();
            at_its_end(&stage, kind, server).await;
            assert_eq!(listed(&stage).await, record, "{kind}: it is the same record");
        });
    }
}

#[test]
fn a_move_whose_runner_dies_keeps_its_record() {
    for kind in MOVES {
        play_default(|stage| async move {
            let server = server_for(&stage, kind).await;
            let deaths = Mutex::new(vec![Moment::AfterEffect, Moment::BeforeEffect]);
            stage.arm(move |point| {
                let mut deaths = deaths.lock();
                match point.step == "record_migration" && deaths.last() == Some(&point.moment) {
                    true => deaths.pop().map_or(StepFault::None, |_| StepFault::KillActor),
                    false => StepFault::None,
                }
            });
            request(&stage, kind, server).await;
            let record = the_record(&stage, kind, server).await;
            at_its_end(&stage, kind, server).await;
            assert_eq!(listed(&stage).await, record, "{kind}");
        });
    }
}

#[test]
fn a_move_that_turns_back_at_once_ends_its_record() {
    for (kind, status) in [("resize", "error"), ("migration", "error"), ("live-migration", "cancelled"), ("evacuation", "error")] {
        play_default(|stage| async move {
            let server = server_for(&stage, kind).await;
            let held = Held::at(&stage, "accept", Moment::AfterEffect);
            let delete = async {
                held.met().await;
                stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
                held.release();
            };
            join(request(&stage, kind, server), delete).await;
            stage.gone(server).await;
            assert_eq!(stage.migration_status("cell1", server).await, status, "{kind}");
            if kind == "evacuation" {
                stage.power("cell1-host1", true).await;
                stage.paid(server).await;
            }
        });
    }
}

#[test]
fn a_refused_move_leaves_no_record() {
    play_default(|stage| async move {
        let server = server_for(&stage, "resize").await;
        stage.admin.act(server, json!({"evacuate": {}})).await.expect(400);
        stage.stop(&stage.admin, server).await;
        stage.admin.act(server, live(None)).await.expect(409);
        stage.power("cell1-host1", false).await;
        stage.admin.migrate(server, None).await.expect(409);
        stage.admin.resize(server, "m1.small").await.expect(409);
        assert!(listed(&stage).await.is_empty());
        stage.power("cell1-host1", true).await;
    });
}
