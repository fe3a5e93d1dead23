//! Evacuations that are refused or fail: the decision table, one row per line, and what a failure leaves.

use serde_json::{Value, json};

use crate::evacuate::{evacuate, evacuate_anywhere, stranded};
use crate::stage::{hosts, play_default};

/// A row of the decision table: microversion, host, force, and what becomes of it. Host `disabled` is the cell's other host, disabled.
struct Row {
    version: &'static str,
    body: &'static str,
    disabled: bool,
    answer: u16,
    text: &'static str,
    /// The migration's status, the server's host and the action afterwards; none if nothing was written.
    end: Option<(&'static str, &'static str, &'static str)>,
}

const fn refused(version: &'static str, body: &'static str, answer: u16, text: &'static str) -> Row {
    Row { version, body, disabled: false, answer, text, end: None }
}

const fn ends(version: &'static str, body: &'static str, disabled: bool, end: (&'static str, &'static str, &'static str)) -> Row {
    Row { version, body, disabled, answer: 200, text: "", end: Some(end) }
}

const X: &str = r#"{"host": "cell1-host2"}"#;
const OLD_X: &str = r#"{"host": "cell1-host2", "onSharedStorage": false}"#;
const FORCED_X: &str = r#"{"host": "cell1-host2", "force": true}"#;
const THERE: &str = "cell1-host2";
const HERE: &str = "cell1-host1";

const TABLE: &[Row] = &[
    refused("2.13", r#"{}"#, 400, "onSharedStorage"),
    refused("2.13", r#"{"onSharedStorage": true}"#, 400, "not on shared storage"),
    refused("2.14", r#"{"onSharedStorage": false}"#, 400, "onSharedStorage"),
    refused("2.28", FORCED_X, 400, "force"),
    refused("2.68", FORCED_X, 400, "force"),
    refused("2.67", r#"{"force": true}"#, 400, "Can't force to a non-provided destination"),
    refused("2.90", r#"{"host": "nowhere"}"#, 404, "Compute host nowhere not found."),
    refused("2.90", r#"{"host": "cell1-host1"}"#, 400, "The target host can't be the same one."),
    refused("2.90", r#"{"host": "cell2-host1"}"#, 400, "is in another cell"),
    refused("2.28", r#"{"host": "cell2-host1"}"#, 400, "is in another cell"),
    // Each of the rest leaves the server as it was, or at its target.
    ends("2.28", r#"{}"#, true, ("error", HERE, "evacuate")),
    ends("2.90", r#"{}"#, true, ("error", HERE, "evacuate")),
    ends("2.29", X, true, ("conflict", HERE, "evacuate")),
    ends("2.67", r#"{"host": "cell1-host2", "force": false}"#, true, ("conflict", HERE, "evacuate")),
    ends("2.90", X, true, ("conflict", HERE, "evacuate")),
    ends("2.13", OLD_X, true, ("completed", THERE, "evacuate")),
    ends("2.28", X, true, ("completed", THERE, "evacuate")),
    ends("2.29", FORCED_X, true, ("completed", THERE, "FORCED_REBUILD")),
    ends("2.67", FORCED_X, true, ("completed", THERE, "FORCED_REBUILD")),
    ends("2.90", X, false, ("completed", THERE, "evacuate")),
];

#[test]
fn the_decision_table_of_evacuations() {
    play_default(|stage| async move {
        for Row { version, body, disabled, answer, text, end } in TABLE {
            let row = format!("{version} {body}");
            let server = stranded(&stage).await;
            let action = if *disabled { "disable" } else { "enable" };
            let service = json!({"host": THERE, "binary": "nova-compute"});
            stage.admin.speaking("2.11").put(&format!("/os-services/{action}"), service.clone()).await.expect(200);
            let request: Value = serde_json::from_str(body).expect("JSON");
            let answered = evacuate(&stage, version, server, request).await;
            assert_eq!(answered.status, *answer, "{row}: {}", answered.text);
            assert!(answered.text.contains(text), "{row}: {}", answered.text);
            assert_eq!(answered.body["adminPass"].is_string(), *version == "2.13" && *answer == 200, "{row}");
            let shown = stage.at_rest(server, "ACTIVE").await;
            stage.admin.speaking("2.11").put("/os-services/enable", service).await.expect(200);
            let expected_host = end.map_or(HERE, |(_, host, _)| host);
            assert_eq!(shown["OS-EXT-SRV-ATTR:host"], expected_host, "{row}");
            stage.power(HERE, true).await;
            stage.paid(server).await;
            stage.until("its guest runs", async || stage.runs_on(server).await == hosts(&[expected_host])).await;
            assert_eq!(stage.holds(server).await, hosts(&[expected_host]), "{row}");
            match end {
                None => assert!(stage.migrations("cell1", server).await.is_empty(), "{row}"),
                Some((status, _, action)) => {
                    assert_eq!(stage.migration_status("cell1", server).await, *status, "{row}");
                    let failed = expected_host == HERE;
                    let result = stage.admin.action(server, action).await;
                    assert_eq!(result["message"] == "Error", failed, "{row}: {result:#}");
                    assert!(shown["fault"].is_null(), "{row}: a server that works shows no fault");
                }
            }
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn a_host_that_is_up_is_not_evacuated() {
    play_default(|stage| async move {
        let server = stage.create_by(&stage.admin, stage.server().on_host(HERE)).await;
        let answer = evacuate(&stage, "2.90", server, json!({})).await.expect(400);
        assert_eq!(answer.message(), "Compute service of cell1-host1 is still in use.");
        assert!(stage.migrations("cell1", server).await.is_empty());
    });
}

#[test]
fn only_administrators_evacuate_and_states_are_checked() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        stage.member.act(server, json!({"evacuate": {}})).await.expect(404);
        stage.power(HERE, true).await;
        stage.until("its guest runs", async || !stage.runs_on(server).await.is_empty()).await;
        stage.admin.migrate(server, Some(THERE)).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.power(THERE, false).await;
        let answer = evacuate(&stage, "2.90", server, json!({})).await.expect(409);
        assert!(answer.message().contains("vm_state resized"), "{}", answer.text);
        stage.power(THERE, true).await;
    });
}

#[test]
fn a_source_that_comes_back_before_the_pivot_keeps_its_server() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        stage.refuse("prepare_at_target");
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        stage.power(HERE, true).await;
        let shown = stage.at_rest(server, "ACTIVE").await;
        stage.disarm();
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], HERE);
        stage.paid(server).await;
        stage.until("its guest runs", async || stage.runs_on(server).await == hosts(&[HERE])).await;
        assert!(stage.guest(THERE, server).await.is_none());
        assert_eq!(stage.migration_status("cell1", server).await, "failed");
        assert_eq!(stage.holds(server).await, hosts(&[HERE]));
    });
}

#[test]
fn a_late_refusal_of_the_claim_keeps_the_state() {
    play_default(|stage| async move {
        let server = stranded(&stage).await;
        stage.refuse("claim_at_target");
        evacuate_anywhere(&stage, server).await;
        stage.disarm();
        assert_eq!(stage.migration_status("cell1", server).await, "failed");
        assert_eq!(stage.holds(server).await, hosts(&[HERE]));
        assert_eq!(stage.admin.action(server, "evacuate").await["message"], "Error");
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], THERE);
        stage.power(HERE, true).await;
        stage.paid(server).await;
    });
}
