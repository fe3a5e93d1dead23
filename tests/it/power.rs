//! Start, stop, reboot, pause and suspend: the guest agrees with the record, or the server is in ERROR, whatever replies are lost.

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::domain::server::PowerState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::{Stage, hosts, play_default};

/// Loses each reply of this act, and of its undo if `undo` is true.
fn lose_replies(stage: &Stage, step: &'static str, undo: bool) {
    stage.arm(move |point| match point.moment {
        Moment::BeforeEffect if point.step == step && (undo || point.side == "act") => StepFault::LoseReply,
        _ => StepFault::None,
    });
}

/// Has the user act while nobody hears of the step, and checks that the server and its guest are as before.
async fn stays_as_it_is(stage: &Stage, server: Uuid, status: &str, step: &'static str, action: Value) {
    let host = stage.runs_on(server).await;
    lose_replies(stage, step, false);
    stage.member.act(server, action).await.expect(202);
    stage.at_rest(server, status).await;
    assert_eq!(stage.runs_on(server).await, host);
    stage.disarm();
}

async fn stopped(stage: &Stage) -> Uuid {
    let server = stage.create(stage.server()).await;
    stage.stop(&stage.member, server).await;
    server
}

#[test]
fn a_stop_of_which_nobody_hears_leaves_the_guest_running() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stays_as_it_is(&stage, server, "ACTIVE", "stop_guest", json!({"os-stop": null})).await;
    });
}

#[test]
fn a_start_of_which_nobody_hears_leaves_the_guest_off() {
    play_default(|stage| async move {
        let server = stopped(&stage).await;
        stays_as_it_is(&stage, server, "SHUTOFF", "start_guest", json!({"os-start": null})).await;
        assert_eq!(stage.runs_on(server).await, hosts(&[]));
    });
}

#[test]
fn a_reboot_of_which_nobody_hears_leaves_the_guest_running() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stays_as_it_is(&stage, server, "ACTIVE", "reboot_guest", json!({"reboot": {"type": "SOFT"}})).await;
    });
}

#[test]
fn a_server_with_a_silent_guest_is_in_error_until_it_answers() {
    play_default(|stage| async move {
        let server = stopped(&stage).await;
        lose_replies(&stage, "start_guest", true);
        stage.member.act(server, json!({"os-start": null})).await.expect(202);
        stage.at_rest(server, "ERROR").await;
        stage.disarm();
        stage.paid(server).await;
        stage.at_rest(server, "SHUTOFF").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[]));
    });
}

#[test]
fn a_guest_that_its_user_mended_is_left_as_it_is() {
    play_default(|stage| async move {
        let server = stopped(&stage).await;
        lose_replies(&stage, "start_guest", true);
        stage.member.act(server, json!({"os-start": null})).await.expect(202);
        stage.at_rest(server, "ERROR").await;
        // Before the conductor pays the debt.
        stage.disarm();
        stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.paid(server).await;
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host")]));
    });
}

async fn power_of_guest(stage: &Stage, host: &str, server: Uuid) -> PowerState {
    stage.guest(host, server).await.expect("a guest").power_state
}

#[test]
fn paused_and_suspended_guests_go_on_with_their_memory() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let thought = stage.memory("cell1-host1", server).await;
        for (away, status, power, back) in
            [("pause", "PAUSED", PowerState::Paused, "unpause"), ("suspend", "SUSPENDED", PowerState::Suspended, "resume")]
        {
            stage.admin.act(server, json!({away: null})).await.expect(202);
            let shown = stage.at_rest(server, status).await;
            assert_eq!(shown["OS-EXT-STS:power_state"], power.code());
            assert_eq!(power_of_guest(&stage, "cell1-host1", server).await, power);
            stage.admin.act(server, json!({away: null})).await.expect(409);
            stage.admin.act(server, json!({"os-stop": null})).await.expect(409);
            stage.admin.act(server, json!({back: null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.memory("cell1-host1", server).await, thought, "it has not booted");
            stage.admin.act(server, json!({back: null})).await.expect(409);
            let notified = stage.notified(server).await;
            for event in [format!("instance.{away}.start"), format!("instance.{away}.end"), format!("instance.{back}.end")] {
                assert!(notified.contains(&event), "{event}: {notified:?}");
            }
        }
    });
}

#[test]
fn a_hard_reboot_or_a_delete_ends_a_standstill() {
    play_default(|stage| async move {
        for (away, status) in [("pause", "PAUSED"), ("suspend", "SUSPENDED")] {
            let server = stage.at_home().await;
            stage.admin.act(server, json!({away: null})).await.expect(202);
            stage.at_rest(server, status).await;
            stage.admin.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            stage.admin.act(server, json!({away: null})).await.expect(202);
            stage.at_rest(server, status).await;
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.until("the guest is gone", || async { stage.guest("cell1-host1", server).await.is_none() }).await;
        }
    });
}

#[test]
fn a_paused_guest_that_is_lost_leaves_its_server_off() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        stage.lose_guests("cell1-host1").await;
        stage.power("cell1-host1", true).await;
        stage.until("it is off", || async { stage.admin.status(server).await == "SHUTOFF" }).await;
        assert_eq!(stage.runs_on(server).await, hosts(&[]));
        stage.admin.act(server, json!({"os-start": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_guest_that_stands_still_survives_a_restart_of_its_host() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let thought = stage.memory("cell1-host1", server).await;
        for (away, status, back) in [("suspend", "SUSPENDED", "resume"), ("pause", "PAUSED", "unpause")] {
            stage.admin.act(server, json!({away: null})).await.expect(202);
            stage.at_rest(server, status).await;
            stage.power("cell1-host1", false).await;
            stage.power("cell1-host1", true).await;
            stage.admin.act(server, json!({back: null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.memory("cell1-host1", server).await, thought);
        }
    });
}

#[test]
fn a_paused_server_moves_alive_and_stays_paused() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let thought = stage.memory("cell1-host1", server).await;
        stage.admin.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        stage.admin.act(server, json!({"os-migrateLive": {"host": null, "block_migration": "auto"}})).await.expect(202);
        let shown = stage.at_rest(server, "PAUSED").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(power_of_guest(&stage, "cell1-host2", server).await, PowerState::Paused);
        assert_eq!(stage.memory("cell1-host2", server).await, thought);
        stage.admin.act(server, json!({"unpause": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.memory("cell1-host2", server).await, thought);
    });
}

#[test]
fn a_shelve_that_fails_gives_a_paused_server_back_off() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        lose_replies(&stage, "upload_shelved_image", false);
        stage.admin.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHUTOFF").await;
        stage.disarm();
        assert_eq!(power_of_guest(&stage, "cell1-host1", server).await, PowerState::Shutdown);
        stage.admin.act(server, json!({"os-start": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn the_console_shows_what_the_guest_wrote() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let read = |length: Value| stage.admin.act(server, json!({"os-getConsoleOutput": {"length": length}}));
        let output = read(Value::Null).await.expect(200).body["output"].as_str().expect("a text").to_owned();
        assert!(output.starts_with(&format!("guest {server} record 1 boot\n")), "{output}");
        stage.admin.act(server, json!({"reboot": {"type": "SOFT"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.stop(&stage.admin, server).await;
        // The text ends with a line's end, after which Nova counts another line.
        let last = read(json!(2)).await.expect(200).body["output"].as_str().expect("a text").to_owned();
        assert!(last.ends_with(" shutdown\n") && last.lines().count() == 1, "{last}");
        stage.power("cell1-host1", false).await;
        read(Value::Null).await.expect(409);
        stage.power("cell1-host1", true).await;
    });
}

/// The action is accepted while a service that a guest's start needs does not answer. The server keeps its state, and its guest runs.
async fn assert_refused_behind(stage: &Stage, server: Uuid, action: &Value, state: &str) {
    let databases = stage.running.cloud.databases();
    for service in ["network", "volume"] {
        databases[service].set_outage(Outage::Refuses);
        stage.member.act(server, action.clone()).await.expect(202);
        stage.ended(server).await;
        databases[service].set_outage(Outage::None);
        let shown = stage.at_rest(server, state).await;
        assert_eq!(shown["OS-EXT-STS:power_state"], 1, "{service}: {shown:#}");
        assert_eq!(stage.runs_on(server).await.len(), 1, "{service}");
    }
}

#[test]
fn a_guest_that_could_not_start_again_is_not_stopped() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let reboot = json!({"reboot": {"type": "HARD"}});
        assert_refused_behind(&stage, server, &reboot, "ACTIVE").await;
        stage.member.act(server, json!({"rescue": null})).await.expect(200);
        stage.at_rest(server, "RESCUE").await;
        let unrescue = json!({"unrescue": null});
        assert_refused_behind(&stage, server, &unrescue, "RESCUE").await;
        for (action, state) in [(unrescue, "ACTIVE"), (reboot, "ACTIVE")] {
            stage.member.act(server, action).await.expect(202);
            stage.at_rest(server, state).await;
        }
    });
}
