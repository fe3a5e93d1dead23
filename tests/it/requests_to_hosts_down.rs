//! Requests that need a host that is down: each is refused at once and changes nothing, and works when the host is back.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::stage::{Stage, play, play_default};

const HOST: &str = "cell1-host1";

/// A request about a server: the method, what follows the server's path, and the body.
type Request = (&'static str, String, Value);

/// A server of the story, in the state that some requests need.
struct Case {
    server: Uuid,
    status: &'static str,
    requests: Vec<Request>,
}

#[test]
fn requests_are_refused_only_while_their_host_is_down() {
    let roomy = |config: &mut Config| (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    play(roomy, |stage| async move {
        let (free, held) = (stage.admin.make_volume().await, stage.admin.make_volume().await);
        let cases = cases(&stage, free, held).await;
        stage.force_down(HOST, true).await;
        are_refused(&stage, &cases).await;
        stage.force_down(HOST, false).await;
        let doomed = stage.at_home().await;
        stage.power(HOST, false).await;
        are_refused(&stage, &cases).await;
        stage.admin.delete(&format!("/servers/{doomed}")).await.expect(204);
        stage.gone(doomed).await;
        let mut volumes = Vec::new();
        for volume in [free, held] {
            let shown = stage.admin.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body;
            volumes.push(shown["volume"]["status"].clone());
        }
        assert_eq!(volumes, ["available", "in-use"]);
        stage.power(HOST, true).await;
        stage.paid(doomed).await;
        stage.until("the guest runs again", || async { !stage.runs_on(cases[0].server).await.is_empty() }).await;
        for case in &cases {
            work(&stage, case).await;
        }
    });
}

/// The volumes of a server that waits for a confirm are those of its target.
#[test]
fn a_resized_server_is_refused_what_needs_its_target_only() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.member.make_volume().await;
        let source = stage.host_of(server).await;
        let target = stage.cross(server).await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        stage.power(&source, false).await;
        stage.member.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        stage.power(&source, true).await;
        stage.power(&target, false).await;
        assert_refusal(&stage.member.detach(server, volume).await, "detach");
        stage.power(&target, true).await;
        stage.member.detach(server, volume).await.expect(202);
        stage.ended(server).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}

/// The image of a server on a volume is a snapshot, which needs no host.
#[test]
fn a_server_on_a_volume_gives_an_image_while_its_host_is_down() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.volume_server()).await;
        stage.power(&host, false).await;
        let image =
            stage.member.speaking("2.45").act(server, json!({"createImage": {"name": "kept"}})).await.expect(202).body["image_id"].clone();
        stage.at_rest(server, "ACTIVE").await;
        let image = image.as_str().expect("an id").to_owned();
        let shown = stage.member.get(&format!("/image/v2/images/{image}")).await.expect(200).body;
        assert_eq!(shown["status"], "active");
        stage.power(&host, true).await;
        stage.until("the guest runs again", || async { !stage.runs_on(server).await.is_empty() }).await;
    });
}

/// Makes servers in all states, with the requests that their states allow, in an order in which they can be carried out.
async fn cases(stage: &Stage, free: Uuid, held: Uuid) -> Vec<Case> {
    let act = |action: Value| ("POST", "/action".to_owned(), action);
    let active = stage.at_home().await;
    stage.admin.attach(active, held).await.expect(200);
    stage.ended(active).await;
    let interfaces = stage.admin.get(&format!("/servers/{active}/os-interface")).await.expect(200).body;
    let interface = &interfaces["interfaceAttachments"][0];
    let (network, port) = (&interface["net_id"], interface["port_id"].as_str().expect("a port"));
    let requests = vec![
        ("POST", "/os-volume_attachments".to_owned(), json!({"volumeAttachment": {"volumeId": free}})),
        ("DELETE", format!("/os-volume_attachments/{held}"), Value::Null),
        ("POST", "/os-interface".to_owned(), json!({"interfaceAttachment": {"net_id": network}})),
        ("DELETE", format!("/os-interface/{port}"), Value::Null),
        act(json!({"changePassword": {"adminPass": "other"}})),
        act(json!({"trigger_crash_dump": null})),
        act(json!({"createImage": {"name": "image"}})),
        act(json!({"createBackup": {"name": "backup", "backup_type": "daily", "rotation": 1}})),
        act(json!({"reboot": {"type": "SOFT"}})),
        act(json!({"reboot": {"type": "HARD"}})),
        act(json!({"rebuild": {"imageRef": stage.image}})),
    ];
    let mut cases = vec![Case { server: active, status: "ACTIVE", requests }];
    for (before, status, action) in [
        (None, "ACTIVE", "os-stop"),
        (None, "ACTIVE", "pause"),
        (None, "ACTIVE", "suspend"),
        (None, "ACTIVE", "rescue"),
        (None, "ACTIVE", "shelve"),
        (Some("os-stop"), "SHUTOFF", "os-start"),
        (Some("pause"), "PAUSED", "unpause"),
        (Some("suspend"), "SUSPENDED", "resume"),
        (Some("rescue"), "RESCUE", "unrescue"),
    ] {
        let server = stage.at_home().await;
        if let Some(before) = before {
            succeeds(&stage.admin.act(server, json!({before: null})).await, before);
            stage.at_rest(server, status).await;
        }
        cases.push(Case { server, status, requests: vec![act(json!({action: null}))] });
    }
    let broken = stage.at_home().await;
    stage.admin.act(broken, json!({"os-resetState": {"state": "error"}})).await.expect(202);
    cases.push(Case { server: broken, status: "ERROR", requests: vec![act(json!({"reboot": {"type": "HARD"}}))] });
    cases
}

async fn ask(stage: &Stage, server: Uuid, (method, rest, body): &Request) -> Answer {
    let (user, path) = (stage.admin.speaking("2.17"), format!("/servers/{server}{rest}"));
    match *method {
        "DELETE" => user.delete(&path).await,
        _ => user.post(&path, body.clone()).await,
    }
}

fn assert_refusal(answer: &Answer, what: &str) {
    let sentence = "Service is unavailable at this time: its compute host is down";
    assert!(answer.status == 409 && answer.message().starts_with(sentence), "{what}: {} {}", answer.status, answer.text);
}

fn succeeds(answer: &Answer, what: &str) {
    assert!((200..300).contains(&answer.status), "{what}: {} {}", answer.status, answer.text);
}

/// Checks that each request is refused, and that the servers are as before.
async fn are_refused(stage: &Stage, cases: &[Case]) {
    for case in cases {
        let actions = stage.admin.actions(case.server).await;
        for request in &case.requests {
            assert_refusal(&ask(stage, case.server, request).await, &format!("{request:?} of {}", case.status));
        }
        let shown = stage.admin.show(case.server).await;
        assert_eq!((&shown["status"], &shown["OS-EXT-STS:task_state"]), (&json!(case.status), &Value::Null));
        assert_eq!(stage.admin.actions(case.server).await, actions);
    }
}

/// Checks that each request is carried out.
async fn work(stage: &Stage, case: &Case) {
    for request in &case.requests {
        let what = format!("{request:?} of {}", case.status);
        succeeds(&ask(stage, case.server, request).await, &what);
        stage.ended(case.server).await;
        let shown = stage.admin.show(case.server).await;
        assert_ne!(shown["status"], "ERROR", "{what}");
        let newest = stage.admin.speaking("2.84").actions(case.server).await.remove(0);
        assert_eq!(newest["message"], Value::Null, "{what}");
    }
}
