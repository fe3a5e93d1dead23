//! Drains that are undone: moves in flight are cancelled, hosts are enabled again, and servers that have moved stay where they are.

use serde_json::{Value, json};

use crate::drain::{begun, done, service_of, shown};
use crate::live_migration_control::endless;
use crate::stage::{Stage, play, play_default};

const HOST: &str = "cell1-host1";

/// Undoes the drain, waits until nothing of it is in flight, and returns it.
async fn undone(stage: &Stage, drain: &str) -> Value {
    let begun = stage.admin.post(&format!("/ops/v1/drains/{drain}/undo"), json!({})).await.expect(202).body;
    assert!(["undoing", "undone"].contains(&begun["state"].as_str().expect("a state")), "{begun:#}");
    stage.until("the drain is undone", || async { shown(stage, drain).await["state"] == "undone" }).await;
    shown(stage, drain).await
}

#[test]
fn a_drain_that_has_ended_is_undone_and_its_servers_stay() {
    play_default(|stage| async move {
        let (moved, locked) = (stage.at_home().await, stage.at_home().await);
        stage.admin.act(locked, json!({"lock": null})).await.expect(202);
        let drain = begun(&stage, json!({"host": HOST})).await;
        done(&stage, &drain).await;
        let ended = shown(&stage, &drain).await;
        assert_eq!((&ended["state"], &ended["stays"]), (&json!("done"), &json!(1)));
        assert_eq!(ended["reasons"], json!([{"state": "refused", "reason": "the server is locked", "servers": 1}]));

        let after = undone(&stage, &drain).await;
        assert_eq!((&after["hosts_disabled"], &after["stays"]), (&json!(false), &json!(1)));
        let service = service_of(&stage, HOST).await;
        assert_eq!((&service["status"], &service["disabled_reason"]), (&json!("enabled"), &Value::Null));
        assert_eq!(stage.at_rest(moved, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        let again = stage.admin.post(&format!("/ops/v1/drains/{drain}/undo"), json!({})).await.expect(409);
        assert!(again.message().contains("undone already"), "{}", again.text);
        done(&stage, &begun(&stage, json!({"host": HOST})).await).await;
    });
}

#[test]
fn an_undone_drain_cancels_its_moves_in_flight() {
    play(endless, |stage| async move {
        let server = stage.at_home().await;
        let drain = begun(&stage, json!({"host": HOST})).await;
        stage.until("it is moving", || async { stage.admin.status(server).await == "MIGRATING" }).await;
        let after = undone(&stage, &drain).await;
        assert_eq!(after["servers"], json!({"pending": 1, "moving": 0, "moved": 0, "refused": 0, "gone": 0}));
        assert_eq!(after["reasons"][0]["reason"], "its move was taken back: the drain was undone");
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], HOST);
        assert_eq!(service_of(&stage, HOST).await["status"], "enabled");
    });
}

#[test]
fn an_undone_drain_leaves_hosts_that_others_disabled() {
    play_default(|stage| async move {
        let id = service_of(&stage, HOST).await["id"].as_str().expect("an id").to_owned();
        let by_hand = json!({"status": "disabled", "disabled_reason": "a broken fan"});
        stage.admin.put(&format!("/os-services/{id}"), by_hand).await.expect(200);
        let drain = begun(&stage, json!({"cell": "cell1", "to_cell": "cell2"})).await;
        done(&stage, &drain).await;
        assert_eq!(service_of(&stage, "cell1-host2").await["status"], "disabled");
        undone(&stage, &drain).await;
        assert_eq!(service_of(&stage, "cell1-host2").await["status"], "enabled");
        assert_eq!(service_of(&stage, HOST).await["disabled_reason"], "a broken fan");
    });
}
