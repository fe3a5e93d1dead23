//! A host loses its power after a request was accepted: the request waits for it, and is carried out or undone when the host is back. No server
//! is in ERROR. A delete or an evacuation does not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::config::Config;
use cellshift::saga::machine::Event;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::stage::{Stage, hosts, play};

const HOST: &str = "cell1-host1";

/// A request whose host goes down before the act of a step.
struct Case {
    /// The action that brings the server to its state, and that state.
    before: Option<(&'static str, &'static str)>,
    request: Wish,
    step: &'static str,
    /// The server's status when the host is back.
    ends: &'static str,
}

enum Wish {
    Act(Value),
    AttachVolume,
    DetachVolume,
    AttachInterface,
    DetachInterface,
}

const fn case(before: Option<(&'static str, &'static str)>, request: Wish, step: &'static str, ends: &'static str) -> Case {
    Case { before, request, step, ends }
}

fn act(name: &str) -> Wish {
    Wish::Act(json!({name: null}))
}

fn reboot(how: &str) -> Wish {
    Wish::Act(json!({"reboot": {"type": how}}))
}

fn cases(image: Uuid) -> Vec<Case> {
    let rebuild = || Wish::Act(json!({"rebuild": {"imageRef": image}}));
    vec![
        case(None, act("os-stop"), "stop_guest", "SHUTOFF"),
        case(Some(("os-stop", "SHUTOFF")), act("os-start"), "start_guest", "ACTIVE"),
        case(None, reboot("SOFT"), "reboot_guest", "ACTIVE"),
        case(None, reboot("HARD"), "stop_guest", "ACTIVE"),
        case(None, reboot("HARD"), "define_guest", "ACTIVE"),
        case(None, reboot("HARD"), "start_guest", "ACTIVE"),
        // The guest boots before it stands still, because its memory is gone.
        case(None, act("pause"), "pause_guest", "PAUSED"),
        case(None, act("suspend"), "suspend_guest", "SUSPENDED"),
        case(Some(("pause", "PAUSED")), act("unpause"), "resume_guest", "ACTIVE"),
        case(Some(("suspend", "SUSPENDED")), act("resume"), "resume_guest", "ACTIVE"),
        case(None, Wish::Act(json!({"createImage": {"name": "image"}})), "upload_image", "ACTIVE"),
        case(None, act("rescue"), "stop_guest", "ACTIVE"),
        case(None, act("rescue"), "build_rescue", "RESCUE"),
        case(None, act("rescue"), "start_guest", "RESCUE"),
        case(Some(("rescue", "RESCUE")), act("unrescue"), "stop_guest", "ACTIVE"),
        case(Some(("rescue", "RESCUE")), act("unrescue"), "remove_rescue", "ACTIVE"),
        case(None, rebuild(), "stop_guest", "ACTIVE"),
        case(None, rebuild(), "build_guest", "ACTIVE"),
        case(None, rebuild(), "start_guest", "ACTIVE"),
        case(None, Wish::Act(json!({"changePassword": {"adminPass": "other"}})), "set_password", "ACTIVE"),
        case(None, act("trigger_crash_dump"), "inject_nmi", "ACTIVE"),
        case(None, Wish::AttachVolume, "connect_volume", "ACTIVE"),
        case(None, Wish::DetachVolume, "disconnect_volume", "ACTIVE"),
        case(None, Wish::AttachInterface, "plug_interface", "ACTIVE"),
        case(None, Wish::DetachInterface, "unplug_interface", "ACTIVE"),
    ]
}

/// Holds each of these servers before the act of its step, once.
struct Holds {
    steps: Mutex<BTreeMap<Uuid, &'static str>>,
    met: Semaphore,
    goes_on: Arc<Semaphore>,
}

impl FaultPlan for Holds {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let mut steps = self.steps.lock();
        let is_there = point.side == "act" && point.moment == Moment::BeforeEffect && steps.get(&point.server) == Some(&point.step);
        if !is_there {
            return StepFault::None;
        }
        steps.remove(&point.server);
        self.met.add_permits(1);
        StepFault::Wait
    }

    fn released(&self, _: &Point<'_>) -> BoxFuture<'static, ()> {
        let goes_on = self.goes_on.clone();
        Box::pin(async move { goes_on.acquire().await.expect("it is never closed").forget() })
    }
}

fn roomy(config: &mut Config) {
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
}

async fn succeeds(stage: &Stage, server: Uuid, action: Value) {
    let answer = stage.admin.speaking("2.17").act(server, action.clone()).await;
    assert!((200..300).contains(&answer.status), "{action}: {}", answer.text);
}

/// Makes the case's server, and asks for what it wants.
async fn ask(stage: &Stage, case: &Case, held: &Holds) -> Uuid {
    let server = stage.at_home().await;
    if let Some((action, status)) = case.before {
        succeeds(stage, server, json!({action: null})).await;
        stage.at_rest(server, status).await;
    }
    let volumes = format!("/servers/{server}/os-volume_attachments");
    let interfaces = format!("/servers/{server}/os-interface");
    let volume = match case.request {
        Wish::AttachVolume | Wish::DetachVolume => Some(stage.admin.make_volume().await),
        _ => None,
    };
    if matches!(case.request, Wish::DetachVolume) {
        stage.admin.attach(server, volume.expect("a volume")).await.expect(200);
        stage.ended(server).await;
    }
    held.steps.lock().insert(server, case.step);
    match &case.request {
        Wish::Act(action) => succeeds(stage, server, action.clone()).await,
        Wish::AttachVolume => drop(stage.admin.attach(server, volume.expect("a volume")).await.expect(200)),
        Wish::DetachVolume => drop(stage.admin.delete(&format!("{volumes}/{}", volume.expect("a volume"))).await.expect(202)),
        Wish::AttachInterface => {
            let attachments = stage.admin.get(&interfaces).await.expect(200).body;
            let network = &attachments["interfaceAttachments"][0]["net_id"];
            let (user, body) = (stage.admin.clone(), json!({"interfaceAttachment": {"net_id": network}}));
            // Its answer comes at the end of the attach.
            actix_rt::spawn(async move { drop(user.try_post(&interfaces, body).await) });
        }
        Wish::DetachInterface => {
            let attachments = stage.admin.get(&interfaces).await.expect(200).body;
            let port = attachments["interfaceAttachments"][0]["port_id"].as_str().expect("a port");
            stage.admin.delete(&format!("{interfaces}/{port}")).await.expect(202);
        }
    }
    server
}

/// Asks for all of this, and switches the host off before any of it reaches the host.
async fn lost(stage: &Stage, cases: &[Case]) -> Vec<Uuid> {
    let held = Arc::new(Holds { steps: Mutex::default(), met: Semaphore::new(0), goes_on: Arc::new(Semaphore::new(0)) });
    stage.seams.steps.arm(Some(held.clone()));
    let mut servers = Vec::new();
    for case in cases {
        servers.push(ask(stage, case, &held).await);
        let met = tokio::time::timeout(PATIENCE, held.met.acquire()).await.unwrap_or_else(|_| panic!("{} never comes", case.step));
        met.expect("it is never closed").forget();
    }
    stage.power(HOST, false).await;
    held.goes_on.add_permits(cases.len());
    for (server, case) in servers.iter().zip(cases) {
        stage.until(case.step, || async { waits(stage, *server).await }).await;
        assert_ne!(stage.admin.status(*server).await, "ERROR", "{}", case.step);
    }
    stage.disarm();
    servers
}

/// True if the server's operation has met its host's absence. A crash dump does not wait: it has nothing to undo.
async fn waits(stage: &Stage, server: Uuid) -> bool {
    let operations = &stage.world().operations;
    let Some(holder) = operations.holder(server).await.expect("the journal") else { return true };
    let entries = operations.entries(holder).await.expect("the journal");
    entries.iter().any(|entry| entry.event == Event::Unknown.as_str())
}

#[test]
fn accepted_requests_wait_for_their_host() {
    play(roomy, |stage| async move {
        let cases = cases(stage.image);
        let servers = lost(&stage, &cases).await;
        stage.power(HOST, true).await;
        for (server, case) in servers.iter().zip(&cases) {
            stage.ended(*server).await;
            let status = stage.admin.status(*server).await;
            assert_eq!(status, case.ends, "{}", case.step);
        }
        let is_as_it_was = |case: &Case| matches!(case.ends, "ACTIVE" | "RESCUE");
        for (server, _) in servers.iter().zip(&cases).filter(|(_, case)| is_as_it_was(case)) {
            stage.until("the guest runs", || async { stage.runs_on(*server).await == hosts(&[HOST]) }).await;
        }
    });
}

#[test]
fn a_delete_does_not_wait_for_the_host() {
    play(roomy, |stage| async move {
        let servers = lost(&stage, &cases(stage.image)).await;
        for server in &servers {
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        }
        for server in &servers {
            stage.gone(*server).await;
        }
        stage.power(HOST, true).await;
        for server in &servers {
            stage.paid(*server).await;
        }
    });
}

#[test]
fn an_evacuation_does_not_wait_for_the_host() {
    play(roomy, |stage| async move {
        let cases = [
            case(None, act("os-stop"), "stop_guest", "ACTIVE"),
            case(None, reboot("HARD"), "define_guest", "ACTIVE"),
            case(None, Wish::DetachVolume, "disconnect_volume", "ACTIVE"),
        ];
        let servers = lost(&stage, &cases).await;
        for server in &servers {
            stage.admin.speaking("2.90").act(*server, json!({"evacuate": {}})).await.expect(200);
            stage.at_rest(*server, "ACTIVE").await;
            assert_eq!(stage.runs_on(*server).await, hosts(&["cell1-host2"]));
        }
        stage.power(HOST, true).await;
        for server in &servers {
            stage.paid(*server).await;
            stage.until("the source is cleaned up", || async { stage.guest(HOST, *server).await.is_none() }).await;
        }
    });
}

/// Its conductor forgets that it waited, and the operations of other hosts go on meanwhile.
#[test]
fn an_operation_that_waits_holds_up_no_other() {
    let one_at_once = |config: &mut Config| config.migration.max_in_flight = 1;
    play(one_at_once, |stage| async move {
        let elsewhere = stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host("cell1-host2")).await;
        let servers = lost(&stage, &[case(None, act("os-stop"), "stop_guest", "SHUTOFF")]).await;
        succeeds(&stage, elsewhere, json!({"os-stop": null})).await;
        stage.at_rest(elsewhere, "SHUTOFF").await;
        assert!(stage.running.tree.conductor.kill_migration(servers[0]).await, "it waits");
        let refused = stage.admin.act(servers[0], json!({"os-resetState": {"state": "active"}})).await.expect(409);
        assert!(refused.message().contains("while its host is down, a delete or an evacuation ends it"), "{}", refused.text);
        stage.power(HOST, true).await;
        stage.at_rest(servers[0], "SHUTOFF").await;
        assert_eq!(stage.runs_on(servers[0]).await, BTreeSet::new());
    });
}
