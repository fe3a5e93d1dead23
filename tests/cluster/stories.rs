//! Moves between the cells of a cluster, with a process that dies, stands still or is cut off in the middle.

mod cuts;
mod experiments;
mod full_disk;
mod kills;
mod self_fence;
mod strangers;

use cellshift::cluster::{Role, Signal};
use serde_json::json;

use crate::stage::{SOURCE, Stage, TARGET, until};

/// The step at which the source guest is off and released, and no guest runs.
const FATAL_STEP: &str = "prepare_at_target";

fn agent(host: &str) -> Role {
    Role::Agent(host.to_owned())
}

#[tokio::test]
async fn a_server_moves_to_the_other_cell_and_back() {
    let stage = Stage::set().await;
    let confirmed = stage.create("confirmed").await;
    stage.begin_move(&confirmed).await;
    stage.rests(&confirmed, &["VERIFY_RESIZE"]).await;
    stage.confirm(&confirmed).await;

    let reverted = stage.create("reverted").await;
    stage.begin_move(&reverted).await;
    stage.rests(&reverted, &["VERIFY_RESIZE"]).await;
    stage.act(&reverted, json!({"revertResize": null})).await;
    stage.rests(&reverted, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&reverted).await, SOURCE);
    stage.end().await;
}

#[tokio::test]
async fn disks_go_from_agent_to_agent_within_a_cell() {
    let mut stage = Stage::with_agents(2).await;
    let server = stage.create_in_cell1("moved").await;
    let source = stage.host_of(&server).await;
    let target = if source == SOURCE { "cell1-host2" } else { SOURCE };
    stage.act_as_admin(&server, json!({"migrate": {"host": target}})).await;
    stage.rests(&server, &["VERIFY_RESIZE"]).await;
    stage.act(&server, json!({"confirmResize": null})).await;
    stage.rests(&server, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&server).await, target);
    stage.act_as_admin(&server, json!({"os-migrateLive": {"host": source, "block_migration": "auto"}})).await;
    stage.rests(&server, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&server).await, source);

    // An agent that ends in order says that no guest runs, so that nobody need vouch for it.
    stage.cluster.signal(&agent(&source), Signal::TERM).expect("it ends");
    stage.is(&source, "down").await;
    stage.act_as_admin(&server, json!({"evacuate": {}})).await;
    until("the server is evacuated", async || stage.host_of(&server).await == target).await;
    // The agent cleans up after the evacuation when it is back.
    stage.cluster.kill(&agent(&source)).expect("it has ended");
    stage.cluster.restart(&agent(&source)).expect("it starts again");
    stage.rests(&server, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&server).await, target);
    stage.end().await;
}

#[tokio::test]
async fn a_killed_target_agent_loses_no_server() {
    killed_and_started_again(&agent(TARGET), FATAL_STEP).await;
}

#[tokio::test]
async fn a_killed_source_agent_loses_no_server() {
    killed_and_started_again(&agent(SOURCE), "upload_snapshot").await;
}

#[tokio::test]
async fn a_killed_nats_server_loses_no_server() {
    killed_and_started_again(&Role::Broker("cell2".to_owned()), FATAL_STEP).await;
}

/// Kills a process at a step of a move, starts it again, and sees the server at rest, where it was or where it goes.
async fn killed_and_started_again(role: &Role, step: &str) {
    let mut stage = Stage::set().await;
    let server = stage.create("moved").await;
    stage.begin_move_up_to(&server, step).await;
    stage.cluster.kill(role).expect("it is killed");
    stage.cluster.restart(role).expect("it starts again");
    settle(&stage, &server).await;
    stage.end().await;
}

#[tokio::test]
async fn an_agent_that_stands_still_is_waited_for() {
    let stage = Stage::set().await;
    let server = stage.create("moved").await;
    stage.begin_move_up_to(&server, FATAL_STEP).await;
    stage.cluster.signal(&agent(TARGET), Signal::STOP).expect("it stands still");
    until("a try of the step has ended without an answer", async || {
        let journal = stage.newest(&server).await;
        let tries = journal["steps"].as_array().into_iter().flatten();
        tries.filter(|one| one["step"] == FATAL_STEP).any(|one| one["outcome"].is_string())
    })
    .await;
    stage.cluster.signal(&agent(TARGET), Signal::CONT).expect("it goes on");
    settle(&stage, &server).await;
    stage.end().await;
}

/// Waits until the server is at rest. A move that has arrived is confirmed; one that was undone has left the server at its source.
async fn settle(stage: &Stage, server: &str) {
    match stage.rests(server, &["VERIFY_RESIZE", "ACTIVE"]).await.as_str() {
        "VERIFY_RESIZE" => stage.confirm(server).await,
        _ => assert_eq!(stage.host_of(server).await, SOURCE),
    }
}
