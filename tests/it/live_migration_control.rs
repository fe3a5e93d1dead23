//! Live migrations under way: their queue and progress, abort, force-complete and time limit, and hosts that die meanwhile.

use std::sync::Arc;

use cellshift::config::{Config, Seconds, TimeoutAction};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::live_migration::live;
use crate::stage::{Stage, hosts, play, play_default};

/// Lets guests change their memory faster than it is copied: a copy ends only if it is made to.
pub fn endless(config: &mut Config) {
    config.compute.live_migration.bandwidth_mib = 4000;
    config.compute.live_migration.dirty_rate_mib = 16_000;
}

async fn in_progress(stage: &Stage, server: Uuid) -> Vec<Value> {
    let answer = stage.admin.get(&format!("/servers/{server}/migrations")).await.expect(200);
    answer.body["migrations"].as_array().cloned().expect("a list")
}

/// Makes a server, and returns it with its live migration once that copies.
pub async fn begin_copy(stage: &Arc<Stage>) -> (Uuid, Value) {
    let server = stage.at_home().await;
    stage.admin.act(server, live(None)).await.expect(202);
    (server, until_it_is(stage, server, "running").await)
}

/// Waits until the server's live migration has this status, and returns it.
pub async fn until_it_is(stage: &Arc<Stage>, server: Uuid, status: &str) -> Value {
    stage.until(status, || async { in_progress(stage, server).await.iter().any(|migration| migration["status"] == status) }).await;
    in_progress(stage, server).await.pop().expect("a migration")
}

/// Checks that the server is where it was, and that nothing is left of the migration.
pub async fn stays(stage: &Stage, server: Uuid, status: &str) {
    stage.at_rest(server, "ACTIVE").await;
    assert_eq!(stage.migration_status("cell1", server).await, status);
    assert_eq!((stage.holds(server).await, stage.runs_on(server).await), (hosts(&["cell1-host1"]), hosts(&["cell1-host1"])));
    assert!(stage.guest("cell1-host2", server).await.is_none());
}

#[test]
fn a_running_migration_shows_its_progress_and_is_aborted() {
    play(endless, |stage| async move {
        let (server, shown) = begin_copy(&stage).await;
        let path = format!("/servers/{server}/migrations/{}", shown["id"]);
        stage
            .until("memory is counted", || async {
                stage.admin.get(&path).await.body["migration"]["memory_processed_bytes"].as_u64().is_some_and(|bytes| bytes > 0)
            })
            .await;
        let one = stage.admin.get(&path).await.expect(200).body;
        assert_eq!(one["migration"]["memory_total_bytes"], 512u64 << 20);
        assert_eq!(stage.admin.status(server).await, "MIGRATING");
        stage.guest_writes("cell1-host1", server, b"meanwhile").await;
        stage.admin.delete(&path).await.expect(202);
        stays(&stage, server, "cancelled").await;
        assert!(crate::resize_confirm::contains(&stage.disks("cell1-host1", server).await["disk"], b"meanwhile"));
        stage.admin.action(server, "live_migration_cancel").await;
        let again = stage.admin.delete(&path).await.expect(409);
        assert!(again.message().contains("task_state"), "{}", again.message());
    });
}

#[test]
fn a_forced_end_moves_the_guest_with_its_late_writes() {
    play(endless, |stage| async move {
        let (server, shown) = begin_copy(&stage).await;
        stage.guest_writes("cell1-host1", server, b"meanwhile").await;
        let path = format!("/servers/{server}/migrations/{}/action", shown["id"]);
        stage.until("it is hastened", || async { stage.admin.post(&path, json!({"force_complete": null})).await.status == 202 }).await;
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "completed");
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        assert!(crate::resize_confirm::contains(&stage.disks("cell1-host2", server).await["disk"], b"meanwhile"));
        stage.admin.action(server, "live_migration_force_complete").await;
    });
}

#[test]
fn a_second_guest_waits_in_the_queue_and_may_be_aborted_there() {
    play(endless, |stage| async move {
        let (first, second) = (stage.at_home().await, stage.at_home().await);
        stage.admin.act(first, live(None)).await.expect(202);
        until_it_is(&stage, first, "running").await;
        stage.admin.act(second, live(None)).await.expect(202);
        let queued = until_it_is(&stage, second, "queued").await;
        let path = format!("/servers/{second}/migrations/{}", queued["id"]);
        stage.admin.speaking("2.64").delete(&path).await.expect(400);
        stage.admin.post(&format!("{path}/action"), json!({"force_complete": null})).await.expect(400);
        stage.admin.speaking("2.65").delete(&path).await.expect(202);
        stays(&stage, second, "cancelled").await;
        // A delete makes room, too.
        stage.admin.delete(&format!("/servers/{first}")).await.expect(204);
        stage.gone(first).await;
    });
}

#[test]
fn a_copy_at_its_time_limit_is_given_up_or_forced() {
    for (action, ends) in [(TimeoutAction::Abort, "failed"), (TimeoutAction::ForceComplete, "completed")] {
        let configure = move |config: &mut Config| {
            endless(config);
            config.compute.live_migration.completion_timeout = Seconds::millis(300);
            config.compute.live_migration.timeout_action = action;
        };
        play(configure, |stage| async move {
            let server = stage.at_home().await;
            stage.admin.act(server, live(None)).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.migration_status("cell1", server).await, ends);
        });
    }
}

#[test]
fn a_source_that_dies_during_the_copy_has_its_guest_again() {
    play(endless, |stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, live(None)).await.expect(202);
        until_it_is(&stage, server, "running").await;
        stage.power("cell1-host1", false).await;
        stage.ended(server).await;
        stage.power("cell1-host1", true).await;
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        stage.until("it runs again", || async { stage.runs_on(server).await == hosts(&["cell1-host1"]) }).await;
        stays(&stage, server, "failed").await;
    });
}

#[test]
fn a_refusal_before_the_pivot_leaves_the_guest_running() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        for (step, ends) in [
            ("check_at_target", "error"),
            ("bind_ports_at_target", "error"),
            ("prepare_at_target", "failed"),
            ("copy_guest", "failed"),
            ("activate_target_ports", "failed"),
        ] {
            stage.refuse(step);
            stage.admin.act(server, live(None)).await.expect(202);
            stage.ended(server).await;
            stage.disarm();
            stays(&stage, server, ends).await;
        }
    });
}
