//! Agents and messages that a cell does not expect: a second agent of a name, the key of another cell, and messages that cannot be read.

use std::net::SocketAddr;
use std::path::Path;

use cellshift::agent::config::AgentConfig;
use cellshift::cluster::Role;
use cellshift_nats::credentials::UserKey;
use cellshift_nats::testkit::raw_client;
use cellshift_nats::{CellAddress, Life, Name};
use serde_json::json;

use super::agent;
use crate::other_agent::OtherAgent;
use crate::stage::{SOURCE, Stage, TARGET, until};

/// The beginning of the controller's line about an accepted life, up to the life.
const ACCEPTED: &str = "the agent of host cell1-host1 is accepted with life ";

/// Returns the configuration of an agent of the cluster.
fn config_of(stage: &Stage, host: &str) -> AgentConfig {
    AgentConfig::load(&stage.cluster.config(&agent(host)), None).expect("a configuration")
}

fn text_of(log: &Path) -> String {
    std::fs::read_to_string(log).expect("a log")
}

/// Returns the life of the source's agent, by the controller's log.
fn life_of_source(stage: &Stage) -> Life {
    let log = text_of(&stage.cluster.log(&Role::Controller));
    let after = log.split(ACCEPTED).nth(1).expect("the controller says whom it accepts");
    Life::new(after.split_whitespace().next().and_then(|life| life.parse().ok()).expect("a life"))
}

/// Uses the server's host, sees that no process of the cluster has ended, and ends the story.
async fn goes_on(mut stage: Stage, server: &str) {
    stage.act(server, json!({"reboot": {"type": "HARD"}})).await;
    stage.rests(server, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(server).await, SOURCE);
    let ended = stage.cluster.ended();
    assert!(ended.is_empty(), "{ended:?}");
    stage.end().await;
}

#[tokio::test]
async fn a_second_agent_of_a_name_stays_silent() {
    let stage = Stage::set().await;
    let (server, life) = (stage.create("kept").await, life_of_source(&stage));
    let mut second = OtherAgent::start(config_of(&stage, SOURCE));
    second.says(&format!("another agent has the name of this host (life {life}, last heard of at ")).await;
    second.says("this agent stays silent").await;
    goes_on(stage, &server).await;
    assert!(second.runs() && !second.log().contains("have accepted"), "{}", second.log());
}

#[tokio::test]
async fn the_key_of_another_cell_is_refused() {
    let stage = Stage::set().await;
    let server = stage.create("kept").await;
    let mut config = config_of(&stage, SOURCE);
    config.hosts[0].key.clone_from(&config_of(&stage, TARGET).hosts[0].key);
    let mut stranger = OtherAgent::start(config);
    stranger.says("authorization violation").await;
    goes_on(stage, &server).await;
    assert!(stranger.runs() && !stranger.log().contains("have accepted"), "{}", stranger.log());
}

#[tokio::test]
async fn messages_that_cannot_be_read_change_nothing() {
    let stage = Stage::set().await;
    let (server, life) = (stage.create("kept").await, life_of_source(&stage));
    let config = config_of(&stage, SOURCE);
    let nats: SocketAddr = config.nats.servers[0].strip_prefix("nats://").and_then(|at| at.parse().ok()).expect("an address");
    let host = CellAddress::new(Name::parse("cell1").expect("a name")).host(Name::parse(SOURCE).expect("a name"));
    let key = |file: &Path| UserKey::read(file).expect("a key");
    let of_agent = key(&config.hosts[0].key);
    let of_controllers = key(&Path::new(stage.data()).join("cluster/cell1-controllers.nk"));
    let to_agent = [host.requests(life), host.queries(life)];
    let to_controllers = [host.hello(), host.report(), host.question()];
    let ways = [
        (of_controllers, host.cell.inbox(), to_agent.as_slice(), agent(SOURCE), "is not known to this release"),
        (of_agent, host.inbox(), to_controllers.as_slice(), Role::Controller, "what this release does not know"),
    ];
    for (key, inbox, subjects, receiver, words) in ways {
        let (client, log) = (raw_client(nats, &key).await, stage.cluster.log(&receiver));
        let payloads = ["{".to_owned(), json!({"padding": "x".repeat(600_000)}).to_string()];
        for payload in &payloads {
            for subject in subjects {
                client.publish_with_reply(subject.clone(), format!("{inbox}.nobody"), payload.clone().into()).await.expect("it is sent");
            }
        }
        client.flush().await.expect("the server has all");
        let all = payloads.len() * subjects.len();
        until(&format!("{receiver} has a line for each message"), async || text_of(&log).matches(words).count() == all).await;
    }
    goes_on(stage, &server).await;
}
