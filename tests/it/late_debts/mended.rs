//! Debts of servers that were mended, or whose guest went on, before the debt was paid.

use cellshift::domain::host_trial::HostTrial;

use super::*;

/// Makes a server in ERROR, because its source's guest could not be defined again. Returns its host, too. Returns none if a conductor has paid
/// the debt at once: then the server is ACTIVE.
async fn without_its_guest(stage: &Stage) -> Option<(Uuid, String)> {
    let Subject { server, .. } = subject(stage, Across).await;
    let host = stage.host_of(server).await;
    stage.arm(|point| match (point.step, point.side, point.moment) {
        ("activate_target_ports", "act", Moment::BeforeEffect) | ("release_source_guest", "undo", Moment::BeforeEffect) => {
            StepFault::Refuse
        }
        _ => StepFault::None,
    });
    stage.member.resize(server, "gen2.small").await.expect(202);
    stage.ended(server).await;
    stage.disarm();
    let is_paid = stage.member.status(server).await == "ACTIVE" && stage.debts(server).await.is_empty();
    (!is_paid).then_some((server, host))
}

/// `mend` brings the server to ACTIVE before the debt is paid. Then the debt is paid, the guest has its volume connected once, and the
/// server can move. If a conductor pays first, another server is taken.
async fn mended_before_it_is_paid(stage: &Stage, mend: serde_json::Value) {
    for _ in 0..10 {
        let Some((server, host)) = without_its_guest(stage).await else { continue };
        let mended = stage.admin.act(server, mend.clone()).await.status == 202;
        stage.ended(server).await;
        let stood = mended && !stage.debts(server).await.is_empty();
        stage.paid(server).await;
        stage.at_rest(server, "ACTIVE").await;
        assert!(stage.guest(&host, server).await.is_some_and(|guest| guest.defined && guest.volumes.len() == 1));
        assert_eq!(stage.runs_on(server).await, [host.clone()].into());
        assert_eq!(stage.attachments(server).await.into_values().collect::<Vec<_>>(), [[Some(host)].into()]);
        let subject = Subject::alone(server);
        for next in [HardReboot, Across, Revert, Delete] {
            act(stage, subject, next).await;
        }
        if stood {
            return;
        }
    }
    panic!("a conductor always came first");
}

/// The guest is defined by then, and each volume is connected by the attachment that the record named in the middle of the move.
#[test]
fn a_server_that_was_rebooted_hard_before_the_debt_was_paid() {
    play_default(|stage| async move { mended_before_it_is_paid(&stage, json!({"reboot": {"type": "HARD"}})).await });
}

/// A reset state mends no guest: the payment of the debt does.
#[test]
fn a_server_whose_state_was_reset_before_the_debt_was_paid() {
    play_default(|stage| async move { mended_before_it_is_paid(&stage, json!({"os-resetState": {"state": "active"}})).await });
}

/// The payment was forgotten after its effect, and the guest has run since, until its host went away.
#[test]
fn a_debt_paid_twice_leaves_an_interrupted_guest_to_its_host() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        stage.refuse("activate_target_ports");
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.disarm();
        stage.admin.act(server, json!({"os-resetState": {"state": "error"}})).await.expect(202);
        let owing = last_operation(&stage, server).await;
        let context: Context = serde_json::from_str(&owing.context).expect("a context");
        stage.power(&host, false).await;
        let released = table_of(&context).steps.iter().find(|step| step.name.as_str() == "release_source_guest").expect("a step");
        owe(&stage, &owing, &context, 1000, (released, "undo")).await;
        // Another conductor has the server while the host comes back, so the host may not run the guest yet.
        let operations = &stage.world().operations;
        let debt = stage.debts(server).await.pop().expect("a debt");
        let held = operations.hold(&debt, "another conductor", true).await.expect("the journal").expect("a hold");
        stage.power(&host, true).await;
        stage.trial(&host, HostTrial::ResumeGuests).await;
        assert!(stage.runs_on(server).await.is_empty());
        operations.release(debt.saga, held.lease_epoch).await.expect("a release");
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        stage.until("the guest runs again", || async { stage.runs_on(server).await == [host.clone()].into() }).await;
        stage.at_rest(server, "ACTIVE").await;
    });
}
