//! The events of each action: Nova's names in Nova's order, one entry each, begun before they end, and none left open.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::{Stage, play_default};

/// Returns the events of the newest action with this name, with results, in the order shown. Checks the rules that hold for all.
async fn results(stage: &Stage, server: Uuid, action: &str) -> Vec<(String, String)> {
    let action = stage.admin.action(server, action).await;
    let moment = |value: &Value| value.as_str().unwrap_or_else(|| panic!("a moment in {action:#}")).to_owned();
    let events = action["events"].as_array().expect("events");
    for event in events {
        let (start, finish) = (moment(&event["start_time"]), moment(&event["finish_time"]));
        assert!(moment(&action["start_time"]) <= start && start < finish, "an event takes its time: {action:#}");
        let by_host = event["event"].as_str().is_some_and(|name| name.starts_with("compute_"));
        assert_eq!(by_host, event["host"].is_string(), "a host's event names it: {action:#}");
    }
    events.iter().map(|event| (event["event"].as_str().unwrap().to_owned(), event["result"].as_str().unwrap().to_owned())).collect()
}

async fn succeeded(stage: &Stage, server: Uuid, action: &str, names: &[&str]) {
    let expected: Vec<(String, String)> = names.iter().map(|name| ((*name).to_owned(), "Success".to_owned())).collect();
    assert_eq!(results(stage, server, action).await, expected, "{action}");
}

#[test]
fn each_action_has_novas_events_once_and_in_order() {
    play_default(|stage| async move {
        let (member, image) = (stage.member.clone(), stage.image);
        let server = stage.create(stage.server()).await;
        succeeded(&stage, server, "create", &["compute__do_build_and_run_instance"]).await;
        for (name, body, status, event) in [
            ("stop", json!({"os-stop": null}), "SHUTOFF", "compute_stop_instance"),
            ("start", json!({"os-start": null}), "ACTIVE", "compute_start_instance"),
            ("reboot", json!({"reboot": {"type": "HARD"}}), "ACTIVE", "compute_reboot_instance"),
        ] {
            member.act(server, body).await.expect(202);
            stage.at_rest(server, status).await;
            succeeded(&stage, server, name, &[event]).await;
        }
        member.act(server, json!({"rebuild": {"imageRef": image}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        succeeded(&stage, server, "rebuild", &["rebuild_server", "compute_rebuild_instance"]).await;
        let volume = member.make_volume().await;
        member.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        succeeded(&stage, server, "attach_volume", &["compute_attach_volume"]).await;
        member.detach(server, volume).await.expect(202);
        stage.ended(server).await;
        succeeded(&stage, server, "detach_volume", &["compute_detach_volume"]).await;
    });
}

#[test]
fn a_move_within_a_cell_has_novas_events() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let resize =
            ["conductor_migrate_server", "cold_migrate", "compute_prep_resize", "compute_resize_instance", "compute_finish_resize"];
        for (end, status, action, events) in [
            ("revertResize", 202, "revertResize", &["compute_revert_resize", "compute_finish_revert_resize"][..]),
            ("confirmResize", 204, "confirmResize", &["compute_confirm_resize"][..]),
        ] {
            stage.member.resize(server, "gen1.large").await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            succeeded(&stage, server, "resize", &resize).await;
            stage.member.act(server, json!({end: null})).await.expect(status);
            stage.at_rest(server, "ACTIVE").await;
            succeeded(&stage, server, action, events).await;
        }
    });
}

#[test]
fn a_move_between_cells_has_novas_events() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let resize = [
            "conductor_migrate_server",
            "cold_migrate",
            "compute_prep_snapshot_based_resize_at_dest",
            "compute_prep_snapshot_based_resize_at_source",
            "compute_finish_snapshot_based_resize_at_dest",
        ];
        let revert = [
            "conductor_revert_snapshot_based_resize",
            "compute_revert_snapshot_based_resize_at_dest",
            "compute_finish_revert_snapshot_based_resize_at_source",
        ];
        let confirm = ["conductor_confirm_snapshot_based_resize", "compute_confirm_snapshot_based_resize_at_source"];
        for (end, status, events) in [("revertResize", 202, &revert[..]), ("confirmResize", 204, &confirm[..])] {
            stage.cross(server).await;
            succeeded(&stage, server, "resize", &resize).await;
            stage.member.act(server, json!({end: null})).await.expect(status);
            stage.at_rest(server, "ACTIVE").await;
            succeeded(&stage, server, end, events).await;
        }
    });
}

#[test]
fn a_move_that_goes_back_leaves_no_event_open() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.refuse("release_source_guest");
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let events = results(&stage, server, "resize").await;
        let failed: Vec<&str> = events.iter().filter(|(_, result)| result == "Error").map(|(name, _)| name.as_str()).collect();
        assert_eq!(failed, ["conductor_migrate_server", "cold_migrate", "compute_prep_snapshot_based_resize_at_source"], "{events:?}");
        assert_eq!(stage.admin.action(server, "resize").await["message"], "Error");
    });
}
