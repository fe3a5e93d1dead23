//! A move past its pivot whose target runs the guest, is forced down, and has no time to say so: the server is not handed back to its source.

use std::sync::atomic::Ordering;

use cellshift::domain::host_protocol::HostCommand;
use uuid::Uuid;

use crate::busy::{Treatment, play_busy};
use crate::stage::Stage;

const TARGETS: [&str; 2] = ["cell2-host1", "cell2-host2"];

/// Busy targets start guests without a reply, and do not fence them.
fn rule(host: &str, command: &HostCommand) -> Treatment {
    match command {
        HostCommand::Fence if TARGETS.contains(&host) => Treatment::Refuses,
        HostCommand::StartGuest if TARGETS.contains(&host) => Treatment::LosesReply,
        _ => Treatment::Does,
    }
}

/// Returns the number of tries to hand the server back.
async fn tries_back(stage: &Stage, move_id: Uuid) -> usize {
    let journal = stage.world().operations.entries(move_id).await.expect("the journal");
    let is_try = |step: &str, side: &str, event: &str| (step, side, event) == ("start_at_target", "undo", "begun");
    journal.iter().filter(|entry| is_try(&entry.step, &entry.side, &entry.event)).count()
}

#[test]
fn a_forced_down_target_that_lives_keeps_its_server() {
    play_busy(rule, |stage, busy| async move {
        let server = stage.create(stage.server()).await;
        busy.store(true, Ordering::SeqCst);
        stage.member.resize(server, "gen2.small").await.expect(202);
        let move_id = stage.world().operations.holder(server).await.expect("the journal").expect("a move");
        stage.until("the hand-back is tried", async || tries_back(&stage, move_id).await > 0).await;
        for target in TARGETS {
            stage.force_down(target, true).await;
        }
        let before = tries_back(&stage, move_id).await;
        stage.until("the hand-back is tried after that", async || tries_back(&stage, move_id).await > before + 1).await;
        let runs_on = stage.runs_on(server).await;
        assert!(runs_on.len() == 1 && runs_on.iter().all(|host| TARGETS.contains(&host.as_str())), "{runs_on:?}");

        busy.store(false, Ordering::SeqCst);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        for target in TARGETS {
            stage.force_down(target, false).await;
        }
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
    });
}
