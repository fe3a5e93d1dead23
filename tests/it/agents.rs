//! A cell whose host is an agent: a real NATS server, a controller in this process, and an agent beside it. The other cell has hosts within the
//! controller.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellshift::agent::Agent;
use cellshift::agent::config::{AgentConfig, AgentHost, AgentNats};
use cellshift::config::{Config, Nats};
use cellshift::domain::standing::{OffBy, Standing};
use cellshift::env::Env;
use cellshift_nats::Rhythm;
use cellshift_nats::testkit::Broker;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::stage::{Stage, hosts, play};

const CELL: &str = "cell1";
const HOST: &str = "cell1-host1";

/// All that agents do, they do soon.
fn quick() -> Rhythm {
    Rhythm {
        report: Duration::from_millis(100),
        hello: Duration::from_millis(500),
        patience: Duration::from_secs(5),
        retry: Duration::from_millis(50),
        refused: Duration::from_millis(100),
        spread: Duration::from_millis(20),
    }
}

/// The cell's NATS server, its users' keys as files, and the agent.
struct Site {
    broker: Broker,
    folder: TempDir,
    agent: Mutex<Option<Agent>>,
}

impl Site {
    fn begin() -> Site {
        let broker = actix_rt::System::new().block_on(Broker::of_cell(CELL, &[HOST]));
        let site = Site { broker, folder: tempfile::tempdir().expect("a directory"), agent: Mutex::default() };
        site.broker.controllers.write(&site.file("controllers.nk")).expect("a key file");
        site.broker.agent(HOST).write(&site.file("host.nk")).expect("a key file");
        site
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn servers(&self) -> Vec<String> {
        vec![format!("nats://{}", self.broker.address())]
    }

    fn configure(&self, config: &mut Config) {
        let nats = Nats { servers: self.servers(), key: Some(self.file("controllers.nk")), authorities: None };
        config.nats.insert(CELL.to_owned(), nats);
        config.cells.discover = true;
    }

    /// Starts the agent, and waits until its host takes servers.
    async fn start_agent(&self, stage: &Stage) {
        let hosts = vec![AgentHost { name: HOST.to_owned(), key: self.file("host.nk") }];
        let nats = AgentNats { servers: self.servers(), authorities: None };
        let cloud = &stage.running.cloud;
        let mut config = AgentConfig::new(CELL, cloud.deployment, self.file("agent"), hosts, nats);
        config.compute = cloud.config.compute.clone();
        config.chaos.trials = true;
        *self.agent.lock().await = Some(Agent::start(&config, Env::system(), quick()).await.expect("an agent"));
        let answers = || async { standing(stage).is_up() && stage.world().hosts.report(CELL, HOST, PATIENCE).await.is_ok() };
        stage.until("the host answers", answers).await;
        // Placement comes last.
        let has_a_provider =
            || async { stage.world().placement.providers().await.expect("providers").iter().any(|provider| provider.name == HOST) };
        stage.until("the host is recorded", has_a_provider).await;
    }

    /// Ends the agent as a kill does: it says nothing.
    async fn kill_agent(&self, stage: &Stage) {
        let agent = self.agent.lock().await.take().expect("an agent");
        let hosts = agent.hosts().clone();
        drop(agent);
        stage.until("the host's actor has ended", || async { !hosts.standing(HOST).is_up() }).await;
    }

    /// Stops the agent in order.
    async fn stop_agent(&self) {
        self.agent.lock().await.take().expect("an agent").stop().await;
    }
}

fn standing(stage: &Stage) -> Standing {
    stage.running.tree.cell(CELL).expect("the cell").hosts.standing(HOST)
}

/// Runs a story on a cloud with an agent, which lives until the audit has ended.
fn play_with_an_agent<F: Future<Output = ()>>(story: impl FnOnce(Arc<Stage>, Arc<Site>) -> F) {
    let site = Arc::new(Site::begin());
    let of_story = site.clone();
    play(
        |config| site.configure(config),
        |stage| async move {
            of_story.start_agent(&stage).await;
            story(stage, of_story).await;
        },
    );
}

/// Creates a server on the agent's host.
async fn server_on_the_agent(stage: &Stage) -> Uuid {
    let server = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host(HOST)).await;
    assert_eq!(stage.runs_on(server).await, hosts(&[HOST]));
    server
}

#[test]
fn a_server_leaves_an_agent_for_another_cell_and_stays_there() {
    play_with_an_agent(|stage, _| async move {
        let server = server_on_the_agent(&stage).await;
        stage.guest_writes(HOST, server, b"what the guest wrote last").await;
        stage.admin.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let target = stage.host_of(server).await;
        assert!(target.starts_with("cell2-"), "{target}");
        let disk = stage.disks(&target, server).await["disk"].clone();
        assert!(disk.windows(25).any(|bytes| bytes == b"what the guest wrote last"), "the snapshot has every byte");
        let kept = stage.guest(HOST, server).await.expect("the source keeps the disks");
        assert!(!kept.defined);

        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.guest(HOST, server).await, None);
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
    });
}

#[test]
fn a_server_comes_back_to_its_agent_when_its_move_is_reverted() {
    play_with_an_agent(|stage, _| async move {
        let server = server_on_the_agent(&stage).await;
        stage.admin.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.revert(server).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[HOST]));
    });
}

#[test]
fn a_server_arrives_at_an_agent_from_another_cell() {
    play_with_an_agent(|stage, _| async move {
        let server = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host("cell2-host1")).await;
        stage.guest_writes("cell2-host1", server, b"carried to the agent").await;
        stage.admin.migrate(server, Some(HOST)).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[HOST]));
        let disk = stage.disks(HOST, server).await["disk"].clone();
        assert!(disk.windows(20).any(|bytes| bytes == b"carried to the agent"));
        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn an_agent_moves_the_images_of_each_operation_on_its_servers() {
    play_with_an_agent(|stage, _| async move {
        let server = server_on_the_agent(&stage).await;
        stage.guest_writes(HOST, server, b"what the guest keeps").await;
        let image = stage.image;
        let operations: [(Value, u16, &str); 7] = [
            (json!({"createImage": {"name": "keepsake"}}), 202, "ACTIVE"),
            (json!({"createBackup": {"name": "backup", "backup_type": "daily", "rotation": 1}}), 202, "ACTIVE"),
            (json!({"rescue": {"rescue_image_ref": image}}), 200, "RESCUE"),
            (json!({"unrescue": null}), 202, "ACTIVE"),
            (json!({"shelve": null}), 202, "SHELVED_OFFLOADED"),
            (json!({"unshelve": {"host": HOST}}), 202, "ACTIVE"),
            (json!({"rebuild": {"imageRef": image}}), 202, "ACTIVE"),
        ];
        for (action, answer, status) in operations {
            let unshelves = action.get("unshelve").is_some();
            // The first version in which a server may be unshelved to a host.
            stage.admin.speaking("2.91").act(server, action).await.expect(answer);
            stage.at_rest(server, status).await;
            if unshelves {
                let disk = stage.disks(HOST, server).await["disk"].clone();
                assert!(disk.windows(20).any(|bytes| bytes == b"what the guest keeps"), "the shelved image has every byte");
            }
        }
        assert_eq!(stage.runs_on(server).await, hosts(&[HOST]));
        let listed = stage.admin.get("/image/v2/images").await.expect(200).body;
        let images = listed["images"].as_array().expect("images").iter();
        let made = images.filter(|image| image["instance_uuid"] == json!(server) && image["status"] == "active");
        let mut names: Vec<&str> = made.filter_map(|image| image["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["backup", "keepsake"]);
    });
}

#[test]
fn an_agent_that_stops_is_off_and_comes_back_with_its_guests() {
    play_with_an_agent(|stage, site| async move {
        let server = server_on_the_agent(&stage).await;
        site.stop_agent().await;
        stage.until("the host is off", || async { standing(&stage) == Standing::Off(OffBy::Host) }).await;
        site.start_agent(&stage).await;
        stage.until("its guest runs again", || async { stage.runs_on(server).await == hosts(&[HOST]) }).await;
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_killed_agent_is_accepted_again_and_brings_its_guests_back() {
    play_with_an_agent(|stage, site| async move {
        let server = server_on_the_agent(&stage).await;
        site.kill_agent(&stage).await;
        assert!(!standing(&stage).is_off(), "nobody knows whether its guests run");
        site.start_agent(&stage).await;
        stage.until("its guest runs again", || async { stage.runs_on(server).await == hosts(&[HOST]) }).await;
        stage.admin.act(server, json!({"os-stop": null})).await.expect(202);
        stage.at_rest(server, "SHUTOFF").await;
    });
}
