//! Start, stop and reboot whose replies are lost: the guest agrees with the record, or the server is in ERROR.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::json;
use uuid::Uuid;

use crate::stage::{Stage, hosts, play_default};

/// Loses each reply of this act, and of its undo if `undo` is true.
fn lose_replies(stage: &Stage, step: &'static str, undo: bool) {
    stage.arm(move |point| match point.moment {
        Moment::BeforeEffect if point.step == step && (undo || point.side == "act") => StepFault::LoseReply,
        _ => StepFault::None,
    });
}

async fn stopped(stage: &Stage) -> Uuid {
    let server = stage.create(stage.server()).await;
    stage.member.act(server, json!({"os-stop": null})).await.expect(202);
    stage.at_rest(server, "SHUTOFF").await;
    server
}

#[test]
fn a_stop_of_which_nobody_hears_leaves_the_guest_running() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.runs_on(server).await;
        lose_replies(&stage, "stop_guest", false);
        stage.member.act(server, json!({"os-stop": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, host);
        stage.disarm();
    });
}

#[test]
fn a_start_of_which_nobody_hears_leaves_the_guest_off() {
    play_default(|stage| async move {
        let server = stopped(&stage).await;
        lose_replies(&stage, "start_guest", false);
        stage.member.act(server, json!({"os-start": null})).await.expect(202);
        stage.at_rest(server, "SHUTOFF").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[]));
        stage.disarm();
    });
}

#[test]
fn a_reboot_of_which_nobody_hears_leaves_the_guest_running() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.runs_on(server).await;
        lose_replies(&stage, "reboot_guest", false);
        stage.member.act(server, json!({"reboot": {"type": "SOFT"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, host);
        stage.disarm();
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
