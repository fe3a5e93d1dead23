//! An administrator resets a server's state: not while a move waits or an operation runs, so that all that they hold is given back. A server
//! that becomes active has the state of its guest.

use std::collections::BTreeSet;

use cellshift::chaos::audit::audit;
use cellshift::db::cell::CellTxn;
use cellshift::domain::host_trial::HostTrial;
use cellshift::domain::instance_change::InstanceChange;
use cellshift::domain::server::TaskState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::hosts_down::fail_to_revert;
use crate::stage::{Stage, hosts, play_default};

async fn reset(stage: &Stage, server: Uuid, state: &str) -> Answer {
    stage.admin.act(server, json!({"os-resetState": {"state": state}})).await
}

/// The move is confirmed or reverted afterwards, as if nobody had asked.
#[test]
fn a_server_whose_move_waits_keeps_its_state() {
    play_default(|stage| async move {
        for (before, after, confirms) in
            [("m1.tiny", "m1.small", true), ("gen1.small", "gen2.small", true), ("gen1.small", "gen2.small", false)]
        {
            let server = stage.create(stage.server().flavor(before)).await;
            stage.member.resize(server, after).await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            for state in ["active", "error"] {
                let refused = reset(&stage, server, state).await.expect(409);
                assert!(refused.text.contains("vm_state resized") && refused.text.contains("revertResize"), "{}", refused.text);
                assert_eq!(stage.admin.status(server).await, "VERIFY_RESIZE");
            }
            if confirms {
                stage.member.confirm(server).await.expect(204);
            } else {
                stage.member.act(server, json!({"revertResize": null})).await.expect(202);
            }
            stage.at_rest(server, "ACTIVE").await;
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
            assert_eq!(stage.holds(server).await, BTreeSet::new());
        }
    });
}

#[test]
fn a_server_at_rest_is_reset() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        for (state, status) in [("error", "ERROR"), ("active", "ACTIVE")] {
            reset(&stage, server, state).await.expect(202);
            stage.at_rest(server, status).await;
        }
        assert_eq!(stage.runs_on(server).await, hosts(&[&host]));
    });
}

async fn act(stage: &Stage, server: Uuid, action: &str) {
    let answer = stage.admin.act(server, json!({action: null})).await;
    assert!((200..300).contains(&answer.status), "{action}: {}", answer.text);
}

/// The guest does not change, so the request that ends its state is still there.
#[test]
fn an_active_server_has_the_state_of_its_guest() {
    play_default(|stage| async move {
        for (before, status, power, after) in [
            ("pause", "PAUSED", 3, "unpause"),
            ("suspend", "SUSPENDED", 7, "resume"),
            ("os-stop", "SHUTOFF", 4, "os-start"),
            ("rescue", "RESCUE", 1, "unrescue"),
        ] {
            let server = stage.create(stage.server().flavor("m1.tiny")).await;
            act(&stage, server, before).await;
            stage.at_rest(server, status).await;
            for states in [&["active"][..], &["error", "active"]] {
                for state in states {
                    reset(&stage, server, state).await.expect(202);
                }
                let shown = stage.at_rest(server, status).await;
                assert_eq!(shown["OS-EXT-STS:power_state"], power, "{before}");
                let report = audit(stage.world()).await.expect("an audit");
                assert!(report.clean, "{before}: {report:#?}");
            }
            assert_eq!(stage.admin.action(server, "resetState").await["message"], Value::Null);
            act(&stage, server, after).await;
            stage.at_rest(server, "ACTIVE").await;
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

/// The leftovers of a rescue go with the hard reboot.
#[test]
fn a_rescued_server_in_error_boots_from_its_own_disk_again() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server().flavor("m1.tiny")).await;
        act(&stage, server, "rescue").await;
        stage.at_rest(server, "RESCUE").await;
        reset(&stage, server, "error").await.expect(202);
        stage.admin.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert!(!stage.guest(&host, server).await.expect("a guest").rescued);
    });
}

/// The host cannot say what its guest does, so the record follows when it is back.
#[test]
fn a_server_that_was_reset_while_its_host_was_silent_follows() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server().flavor("m1.tiny")).await;
        act(&stage, server, "pause").await;
        stage.at_rest(server, "PAUSED").await;
        stage.power(&host, false).await;
        for (state, status) in [("error", "ERROR"), ("active", "ACTIVE")] {
            reset(&stage, server, state).await.expect(202);
            stage.at_rest(server, status).await;
        }
        stage.power(&host, true).await;
        stage.until("the record follows", || async { stage.member.status(server).await == "PAUSED" }).await;
        act(&stage, server, "unpause").await;
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_server_without_a_guest_does_not_become_active() {
    play_default(|stage| async move {
        let server = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host("cell1-host1")).await;
        reset(&stage, server, "error").await.expect(202);
        stage.trial("cell1-host1", HostTrial::LoseGuest { server }).await;
        let refused = reset(&stage, server, "active").await.expect(409);
        assert!(refused.message().ends_with("its host has no guest of it. Reboot it hard, or rebuild it."), "{}", refused.text);
        stage.admin.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
    });
}

#[test]
fn a_server_without_a_host_does_not_become_active() {
    play_default(|stage| async move {
        stage.make_flavor("huge", 1, 64, 900_000).await;
        let server = crate::client::id_of(&stage.server().flavor("huge").ask(&stage.admin).await.expect(202).body["server"]);
        stage.at_rest(server, "ERROR").await;
        reset(&stage, server, "error").await.expect(202);
        let refused = reset(&stage, server, "active").await.expect(409);
        assert!(refused.message().ends_with("it is on no host. Delete it."), "{}", refused.text);
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}

/// A revert has failed: the server is in ERROR, and its move still waits.
#[test]
fn a_broken_server_keeps_the_move_that_waits() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let target = fail_to_revert(&stage, server).await;
        let refused = reset(&stage, server, "active").await.expect(409);
        assert!(refused.message().ends_with("Reboot it hard, then confirm or revert the move."), "{}", refused.text);
        stage.power(&target, true).await;
        stage.paid(server).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.confirm(server).await;
    });
}

/// Somebody has written a task into the cell's database.
#[test]
fn a_task_without_an_operation_ends() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (state, status) in [("active", "ACTIVE"), ("error", "ERROR"), ("active", "ACTIVE")] {
            let txn = CellTxn::new().instance_change(server, InstanceChange::task(Some(TaskState::PoweringOff)));
            stage.cell("cell1").apply_unfenced(txn).await.expect("a task");
            reset(&stage, server, state).await.expect(202);
            stage.at_rest(server, status).await;
        }
    });
}
