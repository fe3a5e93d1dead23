//! Crash dumps and other passwords of running guests, and the remote consoles that they do not have.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::{Stage, play_default};

async fn console(stage: &Stage, server: Uuid) -> String {
    let answer = stage.admin.act(server, json!({"os-getConsoleOutput": {}})).await.expect(200);
    answer.body["output"].as_str().expect("lines").to_owned()
}

#[test]
fn a_guest_keeps_its_new_password_and_tells_nobody() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let request = json!({"changePassword": {"adminPass": "an0ther-one"}});
        assert_eq!(stage.admin.act(server, request.clone()).await.expect(202).text, "");
        stage.at_rest(server, "ACTIVE").await;
        let root = stage.disks("cell1-host1", server).await.remove("disk").expect("a root disk");
        let text = String::from_utf8_lossy(&root).into_owned();
        assert!(text.contains("shadow root:$5$") && !text.contains("an0ther-one"), "{text}");
        assert!(!console(&stage, server).await.contains("shadow"), "its console does not show it");
        let action = stage.admin.action(server, "changePassword").await;
        assert_eq!((&action["message"], &action["events"][0]["event"]), (&Value::Null, &json!("compute_set_admin_password")));
        for body in [json!({"changePassword": {}}), json!({"changePassword": {"adminPass": 1}}), json!({"changePassword": null})] {
            stage.admin.act(server, body).await.expect(400);
        }
        stage.stop(&stage.admin, server).await;
        stage.admin.act(server, request).await.expect(409);
    });
}

#[test]
fn a_guest_dumps_its_memory_on_request() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let request = json!({"trigger_crash_dump": null});
        stage.admin.speaking("2.16").act(server, request.clone()).await.expect(404);
        assert_eq!(stage.admin.speaking("2.17").act(server, request.clone()).await.expect(202).text, "");
        stage.at_rest(server, "ACTIVE").await;
        assert!(console(&stage, server).await.contains("crash dump"));
        let notified = stage.notified(server).await;
        assert!(notified.iter().any(|event| event == "instance.trigger_crash_dump.end"), "{notified:?}");
        stage.admin.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        stage.admin.act(server, request.clone()).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        let refused = stage.admin.action(server, "trigger_crash_dump").await;
        assert_eq!(refused["message"], "Error", "a guest that stands still cannot");
        stage.admin.act(server, json!({"unpause": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.stop(&stage.admin, server).await;
        stage.admin.act(server, request).await.expect(409);
    });
}

#[test]
fn a_guest_dumps_its_memory_between_a_move_and_its_confirm() {
    play_default(|stage| async move {
        for flavor in ["gen1.large", "gen2.small"] {
            let server = stage.create(stage.server()).await;
            stage.member.resize(server, flavor).await.expect(202);
            let host = stage.at_rest(server, "VERIFY_RESIZE").await["OS-EXT-SRV-ATTR:host"].clone();
            stage.member.act(server, json!({"trigger_crash_dump": null})).await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            let action = stage.admin.action(server, "trigger_crash_dump").await;
            assert_eq!((&action["message"], &action["events"][0]["host"]), (&Value::Null, &host), "{flavor}: {action:#}");
            assert!(console(&stage, server).await.contains("crash dump"), "{flavor}");
            stage.member.act(server, json!({"revertResize": null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            stage.member.act(server, json!({"trigger_crash_dump": null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
        }
    });
}

#[test]
fn other_types_of_remote_consoles_are_not_available() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let path = format!("/servers/{server}/remote-consoles");
        let request = |protocol: &str, kind: &str| json!({"remote_console": {"protocol": protocol, "type": kind}});
        for (version, protocol, kind) in
            [("2.6", "vnc", "novnc"), ("2.6", "vnc", "serial"), ("2.8", "mks", "webmks"), ("2.99", "spice", "spice-direct")]
        {
            let refused = stage.admin.speaking(version).post(&path, request(protocol, kind)).await.expect(400);
            assert_eq!(refused.message(), format!("Unavailable console type {kind}."));
        }
        let unknown = stage.admin.speaking("2.7").post(&path, request("mks", "webmks")).await.expect(400);
        assert!(unknown.message().contains("Invalid input"), "{}", unknown.text);
        stage.admin.speaking("2.5").post(&path, request("vnc", "novnc")).await.expect(404);
        for (action, kind) in [("os-getVNCConsole", "novnc"), ("os-getSPICEConsole", "spice-html5")] {
            let refused = stage.admin.speaking("2.5").act(server, json!({action: {"type": kind}})).await.expect(400);
            assert_eq!(refused.message(), format!("Unavailable console type {kind}."));
            stage.admin.speaking("2.5").act(server, json!({action: {"type": "other"}})).await.expect(400);
            stage.admin.speaking("2.6").act(server, json!({action: {"type": kind}})).await.expect(404);
        }
        stage.admin.speaking("2.5").act(server, json!({"os-getRDPConsole": {"type": "rdp-html5"}})).await.expect(410);
        stage.admin.speaking("2.30").get("/os-console-auth-tokens/none").await.expect(400);
        stage.admin.speaking("2.31").get("/os-console-auth-tokens/none").await.expect(404);
        stage.member.speaking("2.31").get("/os-console-auth-tokens/none").await.expect(403);
    });
}
