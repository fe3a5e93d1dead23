//! Live migration: whereto a server may go by microversion and request, and that disks and memory come along.

use cellshift::domain::host_trial::HostTrial;
use serde_json::{Value, json};

use crate::resize_confirm::{contains, events};
use crate::stage::{Stage, hosts, play_default};

/// The action's body.
pub fn live(host: Option<&str>) -> Value {
    json!({"os-migrateLive": {"host": host, "block_migration": "auto"}})
}

#[test]
fn disks_and_memory_come_along_and_nothing_stays() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.guest_writes("cell1-host1", server, b"dear data").await;
        stage.trial("cell1-host1", HostTrial::MemoryWrite { server, bytes: b"a thought".to_vec() }).await;
        let before = stage.memory("cell1-host1", server).await;
        stage.admin.act(server, live(None)).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(shown["OS-EXT-STS:power_state"], 1);
        assert_eq!(stage.memory("cell1-host2", server).await, before, "it has not booted");
        assert!(contains(&stage.disks("cell1-host2", server).await["disk"], b"dear data"));
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        assert_eq!(stage.holds(server).await, hosts(&["cell1-host2"]));
        assert!(stage.guest("cell1-host1", server).await.is_none());
        let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
        assert_eq!((migration.status.as_str(), migration.migration_type.as_str()), ("completed", "live-migration"));
        assert!(stage.holds(migration.uuid).await.is_empty());
        let action = stage.admin.action(server, "live-migration").await;
        let names: Vec<String> = events(&action).into_iter().map(|(event, _)| event).collect();
        for event in ["conductor_live_migrate_instance", "compute_pre_live_migration", "compute_live_migration"] {
            assert!(names.contains(&event.to_owned()), "{names:?}");
        }
        let notified = stage.notified(server).await;
        for event in ["live_migration_pre.start", "live_migration_pre.end", "live_migration_post.start", "live_migration_post_dest.end"] {
            assert!(notified.contains(&format!("instance.{event}")), "{notified:?}");
        }
    });
}

#[test]
fn a_server_on_volumes_moves_alive_and_its_volume_follows() {
    play_default(|stage| async move {
        let new = stage.volume_server().flavor("m1.tiny").on_host("cell1-host1");
        let server = stage.create_by(&stage.admin, new).await;
        stage.admin.act(server, live(None)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let attached = stage.attachments(server).await;
        assert!(attached.values().all(|hosts| *hosts == [Some("cell1-host2".to_owned())].into()), "{attached:?}");
    });
}

/// A request and its end.
struct Row {
    version: &'static str,
    host: Option<&'static str>,
    /// The value of `force`; none to leave it out.
    force: Option<bool>,
    /// True if the named host is disabled.
    disabled: bool,
    answer: u16,
    /// The migration's status; empty if there is none.
    ends: &'static str,
    /// A part of the refusal's text.
    says: &'static str,
}

const fn row(version: &'static str, host: Option<&'static str>, answer: u16, ends: &'static str) -> Row {
    Row { version, host, force: None, disabled: false, answer, ends, says: "" }
}

impl Row {
    const fn forced(self, force: bool) -> Row {
        Row { force: Some(force), ..self }
    }

    const fn disabled(self) -> Row {
        Row { disabled: true, ..self }
    }

    const fn saying(self, says: &'static str) -> Row {
        Row { says, ..self }
    }
}

const HOME: Option<&str> = Some("cell1-host1");
const NEXT: Option<&str> = Some("cell1-host2");

const ROWS: &[Row] = &[
    row("2.24", None, 202, "completed"),
    row("2.25", None, 202, "completed"),
    row("2.30", None, 202, "completed").forced(false),
    row("2.68", None, 202, "completed"),
    row("2.30", None, 400, "").forced(true).saying("Can't force to a non-provided destination"),
    row("2.67", None, 400, "").forced(true).saying("Can't force to a non-provided destination"),
    row("2.68", NEXT, 400, "").forced(true).saying("'force' was unexpected"),
    row("2.29", NEXT, 400, "").forced(true).saying("'force' was unexpected"),
    row("2.30", NEXT, 202, "completed"),
    row("2.68", NEXT, 202, "completed"),
    row("2.30", NEXT, 400, "conflict").disabled().saying("No valid host was found."),
    row("2.34", NEXT, 202, "conflict").disabled(),
    row("2.68", NEXT, 202, "conflict").disabled(),
    row("2.30", HOME, 400, "conflict").saying("No valid host was found."),
    row("2.68", HOME, 202, "conflict"),
    row("2.29", NEXT, 202, "completed").disabled(),
    row("2.24", NEXT, 202, "completed").disabled(),
    row("2.67", NEXT, 202, "completed").forced(true).disabled(),
    row("2.29", HOME, 400, "error").saying("to current host"),
    row("2.67", HOME, 202, "error").forced(true),
    row("2.1", Some("nowhere"), 400, "").saying("Compute host nowhere could not be found."),
    row("2.67", Some("nowhere"), 400, "").forced(true).saying("Compute host nowhere could not be found."),
    row("2.68", Some("cell2-host1"), 400, "").saying("Compute host cell2-host1 could not be found."),
    row("2.29", Some("cell2-host1"), 400, "").saying("Compute host cell2-host1 could not be found."),
];

fn body_of(row: &Row) -> Value {
    let old = row.version.trim_start_matches("2.").parse::<u16>().expect("a version") < 25;
    let mut request = json!({"host": row.host, "block_migration": if old { json!(true) } else { json!("auto") }});
    if old {
        request["disk_over_commit"] = json!(false);
    }
    if let Some(force) = row.force {
        request["force"] = json!(force);
    }
    json!({"os-migrateLive": request})
}

async fn assert_row(stage: &Stage, row: &Row) {
    let server = stage.at_home().await;
    let service = json!({"binary": "nova-compute", "host": "cell1-host2"});
    if row.disabled {
        stage.admin.speaking("2.50").put("/os-services/disable", service.clone()).await.expect(200);
    }
    let answer = stage.admin.speaking(row.version).act(server, body_of(row)).await.expect(row.answer);
    let what = format!("{} {:?} {:?}", row.version, row.host, row.force);
    assert!(row.says.is_empty() || answer.message().contains(row.says), "{what}: {}", answer.message());
    let shown = stage.at_rest(server, "ACTIVE").await;
    assert_eq!(stage.migration_status("cell1", server).await, row.ends, "{what}");
    let at = if row.ends == "completed" { "cell1-host2" } else { "cell1-host1" };
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], at, "{what}");
    assert_eq!((stage.holds(server).await, stage.runs_on(server).await), (hosts(&[at]), hosts(&[at])), "{what}");
    if !row.ends.is_empty() {
        let name = if row.force == Some(true) { "FORCED_MIGRATE" } else { "live-migration" };
        let action = stage.admin.action(server, name).await;
        assert_eq!(action["message"] == "Error", row.ends != "completed", "{what}: {action:#}");
    }
    if row.disabled {
        stage.admin.speaking("2.50").put("/os-services/enable", service).await.expect(200);
    }
    stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
    stage.gone(server).await;
}

#[test]
fn each_request_ends_as_the_decision_table_says() {
    play_default(|stage| async move {
        for row in ROWS {
            assert_row(&stage, row).await;
        }
    });
}

#[test]
fn block_migration_must_suit_the_disks() {
    play_default(|stage| async move {
        let local = stage.at_home().await;
        let remote = stage.create_by(&stage.admin, stage.volume_server().flavor("m1.tiny").on_host("cell1-host1")).await;
        let old = stage.admin.speaking("2.25");
        for (server, block, says) in [(local, false, "is not on shared storage"), (remote, true, "is not on local storage")] {
            let body = json!({"os-migrateLive": {"host": null, "block_migration": block}});
            let answer = old.act(server, body).await.expect(400);
            assert!(answer.message().contains(says), "{}", answer.message());
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.migration_status("cell1", server).await, "error");
            assert_eq!(stage.holds(server).await, hosts(&["cell1-host1"]));
        }
    });
}

#[test]
fn only_a_running_server_moves_alive() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.stop(&stage.admin, server).await;
        let answer = stage.admin.act(server, live(None)).await.expect(409);
        assert!(answer.message().contains("vm_state stopped"), "{}", answer.message());
    });
}
