//! An unshelve into another cell that fails leaves the server SHELVED_OFFLOADED in its own; one that meets a dead host or database ends
//! well or changes nothing (NOVA-DIFFERENCES L1, L2).

use std::sync::Arc;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::config::{Config, Seconds};
use cellshift::domain::host_protocol::HostCommand;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::held::Held;
use crate::resize_rollback::{fill, tell};
use crate::shelve::{images_of, shelve};
use crate::stage::{Stage, hosts, play, play_default};
use crate::unshelve::{is_as_before, unshelve};
use crate::unshelve_across::{for_any_cell, lives_on, shelved_in_cell1, to_host};

/// Checks that the failed unshelve has changed nothing, and has left nothing in the other cell.
async fn nothing_moved(stage: &Stage, server: Uuid, what: &str) {
    is_as_before(stage, server, Some("cell1")).await;
    assert!(stage.cell("cell2").instance(server).await.is_err(), "{what}: no row in the target cell");
    assert_eq!(images_of(stage, server).await.len(), 1, "{what}");
    for host in ["cell2-host1", "cell2-host2"] {
        assert!(stage.guest(host, server).await.is_none(), "{what}: {host}");
        assert!(stage.report("cell2", host).await.claims.is_empty(), "{what}: {host}");
    }
}

#[test]
fn a_failure_of_any_step_leaves_the_server_in_its_cell() {
    play_default(|stage| async move {
        let server = stage.create(for_any_cell(stage.server())).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        let spec = stage.world().api.request_spec(server).await.expect("a spec");
        let steps = [
            "create_target_records",
            "claim_at_host",
            "bind_ports_at_target",
            "reserve_volumes_for_target",
            "prepare_at_target",
            "take_ownership",
            "start_at_target",
        ];
        for step in steps {
            stage.refuse(step);
            unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
            nothing_moved(&stage, server, step).await;
            stage.disarm();
            assert_eq!(stage.world().api.request_spec(server).await.expect("a spec"), spec, "{step}");
        }
        unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
        lives_on(&stage, server, "cell2-host1", "cell1").await;
    });
}

#[test]
fn a_host_of_another_cell_that_refuses_leads_to_the_next_one() {
    play_default(|stage| async move {
        let server = shelved_in_cell1(&stage).await;
        // The host with more room comes first.
        let (_, fuller) = stage.create_on_a_host(stage.server().named("other").flavor("gen2.large")).await;
        let first = if fuller == "cell2-host1" { "cell2-host2" } else { "cell2-host1" };
        let stranger = fill(&stage, first).await;
        unshelve(&stage, server, &json!({"availability_zone": "cell2"})).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(fuller));
        assert_eq!(stage.holds(server).await, hosts(&[&fuller]));
        assert!(stage.guest(first, server).await.is_none());
        assert!(stage.cell("cell1").instance(server).await.is_err());
        tell(&stage, first, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
    });
}

/// The copy is made already, and must be shown with the change.
#[test]
fn a_name_that_is_given_meanwhile_is_kept() {
    play_default(|stage| async move {
        let server = shelved_in_cell1(&stage).await;
        let held = Held::at(&stage, "prepare_at_target", Moment::BeforeEffect);
        unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
        held.met().await;
        let path = format!("/servers/{server}");
        let new = json!({"server": {"name": "renamed", "description": "mine"}});
        stage.member.speaking("2.90").put(&path, new).await.expect(200);
        assert_eq!(stage.member.show(server).await["name"], "renamed");
        held.release();
        let shown = lives_on(&stage, server, "cell2-host1", "cell1").await;
        assert_eq!((&shown["name"], &shown["description"]), (&json!("renamed"), &json!("mine")));
    });
}

/// A cell that is down is probed again at once.
fn probed_often(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
}

/// Makes the cell down from the end of this step until the test says otherwise; reports when it is.
fn down_from(stage: &Arc<Stage>, step: &'static str, cell: &'static str) -> oneshot::Receiver<()> {
    let (sender, down) = oneshot::channel();
    let (db, sender) = (stage.cell(cell).db().clone(), Mutex::new(Some(sender)));
    stage.arm(move |point| {
        if (point.step, point.side, point.moment) == (step, "act", Moment::AfterJournal)
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

/// Brings the cell's database back, and waits until the controller has noticed.
async fn back(stage: &Stage, cell: &str) {
    stage.cell(cell).db().set_outage(Outage::None);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    stage.until("the cell answers again", || async { health.is_up() }).await;
}

#[test]
fn a_cell_that_goes_down_half_way_delays_or_undoes_it() {
    let cases = [
        ("select_host", "cell1"),
        ("select_host", "cell2"),
        ("create_target_records", "cell2"),
        ("bind_ports_at_target", "cell1"),
        ("prepare_at_target", "cell2"),
        ("take_ownership", "cell1"),
        ("take_ownership", "cell2"),
        ("finish_target_record", "cell1"),
        ("publish", "cell1"),
        ("publish", "cell2"),
    ];
    for (step, cell) in cases {
        play(probed_often, |stage| async move {
            let server = shelved_in_cell1(&stage).await;
            let down = down_from(&stage, step, cell);
            unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
            tokio::time::timeout(PATIENCE, down).await.expect("the step is reached").expect("it is told");
            if (step, cell) == ("publish", "cell1") {
                // The records there are owed, and the server serves meanwhile.
                stage.ended(server).await;
                assert_eq!(stage.runs_on(server).await, hosts(&["cell2-host1"]));
            }
            stage.disarm();
            back(&stage, cell).await;
            stage.ended(server).await;
            stage.paid(server).await;
            let status = stage.member.status(server).await;
            match status.as_str() {
                "ACTIVE" => drop(lives_on(&stage, server, "cell2-host1", "cell1").await),
                "SHELVED_OFFLOADED" => nothing_moved(&stage, server, &format!("{step} {cell}")).await,
                other => panic!("{step} {cell}: {other}"),
            }
        });
    }
}

#[test]
fn a_target_whose_cell_is_down_gets_no_server() {
    play(probed_often, |stage| async move {
        let server = shelved_in_cell1(&stage).await;
        stage.cell("cell2").db().set_outage(Outage::Refuses);
        let answer = unshelve(&stage, server, &to_host("cell2-host1")).await;
        assert!([202, 503].contains(&answer.status), "{}", answer.text);
        stage.ended(server).await;
        assert_eq!(stage.member.status(server).await, "SHELVED_OFFLOADED");
        back(&stage, "cell2").await;
        stage.paid(server).await;
        assert!(stage.cell("cell2").instance(server).await.is_err());
        unshelve(&stage, server, &Value::Null).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell1");
    });
}

#[test]
fn a_target_host_that_dies_before_the_start_gives_the_server_up() {
    play_default(|stage| async move {
        let server = shelved_in_cell1(&stage).await;
        stage.power("cell2-host1", false).await;
        unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
        is_as_before(&stage, server, Some("cell1")).await;
        stage.power("cell2-host1", true).await;
        unshelve(&stage, server, &to_host("cell2-host1")).await.expect(202);
        lives_on(&stage, server, "cell2-host1", "cell1").await;
    });
}
