//! Confirm, revert, delete and rollback while a cell's or the API's database is down: an accepted request ends well when the database is
//! back, and a request that was answered with 503 has either ended well or changed nothing (NOVA-DIFFERENCES L6, L12, L34).

use std::sync::Arc;

use cellshift::chaos::borders::{Outage, OutageGate, Outages};
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::config::Seconds;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::client::Answer;
use crate::stage::{Stage, hosts, play, play_default};

/// The number of calls that a dead database refuses: they come within some seconds, and include looks for overdue confirms.
const REFUSALS: u32 = 12;

/// A cell that is down is probed again at once.
fn probed_often(config: &mut cellshift::config::Config) {
    config.cells.probe_interval = Seconds::millis(20);
}

fn outage(stage: &Stage, cell: &str, outage: Outage) {
    stage.cell(cell).db().set_outage(outage);
}

/// Brings the cell's database back, and waits until the controller has noticed.
async fn back(stage: &Stage, cell: &str) {
    outage(stage, cell, Outage::None);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    stage.until("the cell answers again", || async { health.is_up() }).await;
}

/// True if the request took effect after an answer that was given while the source's cell was down. It may have been refused and gone on
/// (503 promises nothing), but it took effect as a whole or not at all.
async fn was_done(stage: &Stage, server: Uuid, answer: Answer, accepted: u16) -> bool {
    assert!(answer.status == accepted || answer.status == 503, "{} {}", answer.status, answer.text);
    back(stage, "cell1").await;
    stage.ended(server).await;
    let shown = stage.admin.get(&format!("/servers/{server}")).await;
    if shown.status == 404 || shown.expect(200).body["server"]["status"] != "VERIFY_RESIZE" {
        return true;
    }
    assert_ne!(answer.status, accepted, "what was accepted is done");
    assert_eq!(stage.migration_status("cell2", server).await, "finished");
    false
}

#[test]
fn a_revert_while_the_sources_cell_is_down() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        let source = stage.runs_on(server).await;
        stage.cross(server).await;
        outage(&stage, "cell1", Outage::Refuses);
        let answer = stage.member.revert(server).await;
        if !was_done(&stage, server, answer, 202).await {
            stage.member.revert(server).await.expect(202);
        }
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, source);
    });
}

#[test]
fn a_confirm_while_the_sources_cell_is_down() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let target = stage.runs_on(server).await;
        outage(&stage, "cell1", Outage::Refuses);
        let answer = stage.member.confirm(server).await;
        if !was_done(&stage, server, answer, 204).await {
            stage.member.confirm(server).await.expect(204);
        }
        stage.at_rest(server, "ACTIVE").await;
        stage.paid(server).await;
        assert_eq!(stage.runs_on(server).await, target);
        assert!(stage.cell("cell1").instance(server).await.is_err(), "no record is left at the source");
    });
}

#[test]
fn a_delete_while_the_sources_cell_is_down() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        outage(&stage, "cell1", Outage::Refuses);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        back(&stage, "cell1").await;
        let none = || async { stage.world().api.count_queued_deletes().await.expect("mappings") == 0 };
        stage.until("the delete is carried out", none).await;
        stage.gone(server).await;
        stage.paid(server).await;
        for cell in ["cell1", "cell2"] {
            assert!(stage.record(cell, server).await.is_none(), "{cell}");
        }
    });
}

/// The number of calls that find the cell down: more than the tries of a step, so that the saga gives the step up or owes it.
const REFUSED_CALLS: u32 = 15;

/// Makes the cell down from this moment of a step's act until it has refused [`REFUSED_CALLS`]; the step itself meets `fault`.
fn down_from(stage: &Arc<Stage>, step: &'static str, moment: Moment, cell: &'static str, fault: StepFault) {
    let (db, once) = (stage.cell(cell).db().clone(), std::sync::Once::new());
    stage.arm(move |point| {
        if (point.step, point.side, point.moment) != (step, "act", moment) {
            return StepFault::None;
        }
        once.call_once(|| db.set_outage_for(Outage::Refuses, REFUSED_CALLS));
        fault
    });
}

#[test]
fn a_revert_whose_source_cell_goes_down_half_way() {
    for step in ["begin_revert", "stop_target_guest", "take_ownership_back", "return_allocation"] {
        play(probed_often, |stage| async move {
            let server = stage.create(stage.server()).await;
            let source = stage.runs_on(server).await;
            stage.cross(server).await;
            down_from(&stage, step, Moment::AfterJournal, "cell1", StepFault::None);
            stage.member.revert(server).await.expect(202);
            stage.ended(server).await;
            stage.disarm();
            back(&stage, "cell1").await;
            stage.paid(server).await;
            if stage.member.status(server).await == "VERIFY_RESIZE" {
                // The operation was undone and left the server unchanged, so it may be requested again.
                stage.member.revert(server).await.expect(202);
            }
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.runs_on(server).await, source, "{step}");
        });
    }
}

#[test]
fn a_confirm_whose_source_cell_goes_down_half_way() {
    play(probed_often, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        down_from(&stage, "begin_confirm", Moment::AfterJournal, "cell1", StepFault::None);
        stage.confirm(server).await;
        stage.disarm();
        back(&stage, "cell1").await;
        stage.paid(server).await;
        assert!(stage.cell("cell1").instance(server).await.is_err());
    });
}

#[test]
fn a_rollback_whose_cells_go_down_half_way() {
    for cell in ["cell1", "cell2"] {
        play(probed_often, |stage| async move {
            let server = stage.create(stage.server()).await;
            let source = stage.runs_on(server).await;
            down_from(&stage, "prepare_at_target", Moment::BeforeEffect, cell, StepFault::Refuse);
            stage.member.resize(server, "gen2.small").await.expect(202);
            stage.ended(server).await;
            stage.disarm();
            back(&stage, cell).await;
            stage.paid(server).await;
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (source.clone(), source), "{cell}");
            assert!(stage.cell("cell2").instance(server).await.is_err(), "no row is left in the target cell");
            stage.cross(server).await;
        });
    }
}

/// Makes the cell down from the end of this step until the test says otherwise; reports when it is.
fn down_for_good_from(stage: &Arc<Stage>, step: &'static str, cell: &'static str) -> oneshot::Receiver<()> {
    let (sender, down) = oneshot::channel();
    let (db, sender) = (stage.cell(cell).db().clone(), Mutex::new(Some(sender)));
    stage.arm(move |point| {
        if point.step == step
            && point.side == "act"
            && point.moment == Moment::AfterJournal
            && let Some(sender) = sender.lock().take()
        {
            db.set_outage(Outage::Refuses);
            // The test may have ended.
            let _ = sender.send(());
        }
        StepFault::None
    });
    down
}

#[test]
fn a_move_in_a_cell_that_goes_down_ends_when_it_returns() {
    let cases = [
        ("record_migration", "cell1", "gen2.small"),
        ("create_target_records", "cell2", "gen1.small"),
        ("stop_source_guest", "cell1", "gen2.small"),
        ("prepare_at_target", "cell2", "gen1.small"),
        ("take_ownership", "cell2", "gen1.small"),
    ];
    for (step, cell, elsewhere) in cases {
        play(probed_often, |stage| async move {
            let server = stage.create(stage.server()).await;
            let source = stage.runs_on(server).await;
            let other = stage.create(stage.server().flavor(elsewhere)).await;
            let down = down_for_good_from(&stage, step, cell);
            stage.member.resize(server, "gen2.small").await.expect(202);
            tokio::time::timeout(crate::client::PATIENCE, down).await.expect("the step is reached").expect("it is told");

            for (action, status) in [("os-stop", "SHUTOFF"), ("os-start", "ACTIVE")] {
                stage.member.act(other, json!({ action: null })).await.expect(202);
                stage.at_rest(other, status).await;
            }
            stage.disarm();
            back(&stage, cell).await;
            stage.ended(server).await;
            stage.paid(server).await;
            match stage.member.status(server).await.as_str() {
                "VERIFY_RESIZE" => assert_ne!(stage.runs_on(server).await, source, "{step}"),
                "ACTIVE" => assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (source.clone(), source), "{step}"),
                other => panic!("{step}: {other}"),
            }
        });
    }
}

#[test]
fn an_automatic_confirm_waits_for_a_dead_database() {
    for database in ["the API's", "cell1", "cell2"] {
        let overdue_soon = |config: &mut cellshift::config::Config| {
            probed_often(config);
            config.migration.resize_confirm_window = Seconds::millis(300);
        };
        play(overdue_soon, |stage| async move {
            let server = stage.create(stage.server()).await;
            let db = match database {
                "the API's" => stage.world().api.db().clone(),
                cell => stage.cell(cell).db().clone(),
            };
            stage.member.resize(server, "gen2.small").await.expect(202);
            let ended = stage.running.tree.conductor.until_at_rest(server);
            tokio::time::timeout(crate::client::PATIENCE, ended).await.expect("it ends").expect("the journal answers");
            // Before the confirm is overdue, and for longer than one look for overdue confirms.
            db.set_outage_for(Outage::Refuses, REFUSALS);
            let gate = OutageGate::of(&db).expect("a stage's databases have an experiment's gates");
            stage.until("the database has refused all it was to refuse", || async { !gate.is_spoiled() }).await;
            let confirmed = || async { stage.migration_status("cell2", server).await == "confirmed" };
            stage.until("it is confirmed by itself", confirmed).await;
            stage.at_rest(server, "ACTIVE").await;
            stage.paid(server).await;
            assert_eq!(stage.migration_status("cell2", server).await, "confirmed", "{database}");
        });
    }
}

#[test]
fn a_source_host_that_restarts_keeps_what_a_revert_needs() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.cross(server).await;
        let target = stage.runs_on(server).await;
        let bindings = stage.bindings(server).await;
        stage.power(&source, false).await;
        stage.power(&source, true).await;
        assert_eq!((stage.runs_on(server).await, stage.bindings(server).await), (target, bindings), "it plugs nothing (L27)");
        let listed = stage.admin.get(&format!("/os-services?host={source}")).await.expect(200).body;
        let service = listed["services"][0]["id"].as_str().expect("an id").to_owned();
        stage.admin.delete(&format!("/os-services/{service}")).await.expect(409);
        stage.revert(server).await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&source]));
    });
}

#[test]
fn a_cold_migration_carries_the_whole_record() {
    play_default(|stage| async move {
        stage.make_key_pair("mine").await;
        let new = stage.server().flavor("m1.tiny").with("key_name", json!("mine")).with("user_data", json!("aGk="));
        let new = new.with("metadata", json!({"a": "b"})).with("tags", json!(["blue"])).with("description", json!("mine"));
        let (server, host) = stage.create_on_a_host(new.with("config_drive", json!(true))).await;
        let (from, to) = if host.starts_with("cell1") { ("cell1", "cell2") } else { ("cell2", "cell1") };
        let before = stage.record(from, server).await.expect("a record");
        let shown = stage.member.show(server).await;
        stage.admin.migrate(server, Some(&format!("{to}-host1"))).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.confirm(server).await;
        let after = stage.record(to, server).await.expect("a record");
        assert_eq!((&after.key_data, &after.keypair, &after.user_data), (&before.key_data, &before.keypair, &before.user_data));
        assert_eq!((&after.system_metadata, &after.flavor), (&before.system_metadata, &before.flavor), "L20");
        let again = stage.member.show(server).await;
        for field in ["key_name", "metadata", "tags", "description", "config_drive", "name", "created", "addresses", "image"] {
            assert_eq!(again[field], shown[field], "{field}");
        }
    });
}
