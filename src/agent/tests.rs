//! An agent without a NATS server: its hosts take messages at its end of the link, and each start is counted.

use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cellshift_host::link::{Delivered, HostEnd};
use cellshift_nats::credentials::UserKey;
use uuid::Uuid;

use super::config::{AgentConfig, AgentHost, AgentNats};
use super::end::LocalEnd;
use super::*;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::reason::Reason;

const HOST: &str = "cell1-host1";
const DEADLINE: Duration = Duration::from_secs(20);

/// A configuration whose server is not there.
fn config(folder: &Path) -> AgentConfig {
    let key = folder.join("host.nk");
    if !key.exists() {
        UserKey::new().unwrap().write(&key).unwrap();
    }
    let nats = AgentNats { servers: vec!["nats://127.0.0.1:9".to_owned()], authorities: None };
    let hosts = vec![AgentHost { name: HOST.to_owned(), key }];
    AgentConfig::new("cell1", Uuid::from_u128(1), folder.join("data"), hosts, nats)
}

async fn start(config: &AgentConfig) -> Agent {
    Agent::start(config, Env::system(), Rhythm::default()).await.unwrap()
}

async fn summary(agent: &Agent, host: &str) -> Delivered<HostAnswer> {
    let fence = Arc::new(SelfFence::new(&Env::system(), None));
    LocalEnd::new(agent.hosts().clone(), host, fence).query(HostQuery::Summary).await
}

/// Returns the reason why a host takes no messages.
async fn refusal(agent: &Agent, host: &str) -> Reason {
    match summary(agent, host).await {
        Delivered::NotTaken { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Waits until the condition holds.
async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, holds).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[actix::test]
async fn a_host_answers_again_after_its_actor_has_died() {
    let folder = tempfile::tempdir().unwrap();
    let agent = start(&config(folder.path())).await;
    let answers = || async { matches!(summary(&agent, HOST).await, Delivered::Answered(HostAnswer::Summary(_))) };
    assert!(answers().await);
    let restarts = || agent.roster().all().into_iter().map(|listed| (listed.name, listed.restarts)).collect::<Vec<_>>();
    assert_eq!(restarts(), [("cell1/cell1-host1".to_owned(), 0), ("hosts/cell1-host1".to_owned(), 0)]);
    assert!(agent.roster().kill("cell1/cell1-host1"));
    until("the host is back", || async { restarts()[0].1 == 1 && answers().await }).await;
    assert!(agent.roster().kill("hosts/cell1-host1"));
    until("its supervisor is back", || async { restarts()[1].1 == 1 && answers().await }).await;
}

#[actix::test]
async fn a_host_that_is_not_here_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let agent = start(&config(folder.path())).await;
    assert_eq!(refusal(&agent, "elsewhere").await.to_string(), "there is no host elsewhere in this cell");
}

#[actix::test]
async fn each_start_is_counted_and_a_stop_ends_the_guests() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let place = || std::fs::read_to_string(config.data_dir.join("agent/cell1-host1.toml")).unwrap_or_default();
    for number in 1..=2 {
        let agent = start(&config).await;
        until("the life is counted", || async { place().contains(&format!("start = {number}\n")) }).await;
        let hosts = agent.hosts().clone();
        agent.stop().await;
        assert!(hosts.standing(HOST).is_off(), "{:?}", hosts.standing(HOST));
    }
}

#[actix::test]
async fn the_directory_of_another_deployment_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    start(&config).await.stop().await;
    let place = || std::fs::read_to_string(config.data_dir.join("agent/cell1-host1.toml")).unwrap();
    let before = place();
    let agent = start(&AgentConfig { deployment: Uuid::from_u128(2), ..config.clone() }).await;
    let reason = refusal(&agent, HOST).await.to_string();
    assert!(reason.contains("is not this deployment's, nothing in it is touched"), "{reason}");
    agent.stop().await;
    assert_eq!(place(), before, "its agent has not lived");
}

#[actix::test]
async fn a_key_that_others_may_read_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    std::fs::set_permissions(&config.hosts[0].key, Permissions::from_mode(0o644)).unwrap();
    let refused = Agent::start(&config, Env::system(), Rhythm::default()).await.err().expect("a refusal").to_string();
    let expected = format!("host {HOST}: key: the key file {} may be read by others", config.hosts[0].key.display());
    assert!(refused.starts_with(&expected), "{refused}");
}
