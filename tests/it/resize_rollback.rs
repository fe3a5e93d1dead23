//! A cross-cell resize that fails leaves the server as it was, with a reason that its user can read (NOVA-DIFFERENCES L2,
//! L16).

use serde_json::{Value, json};
use uuid::Uuid;

use crate::resize_confirm::contains;
use crate::stage::{Stage, hosts, play, play_default};
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::domain::fence::Fence;
use cellshift::domain::flavor::Resources;
use cellshift::domain::host_protocol::{HostCommand, HostReply, HostRequest};

/// Checks that the server runs (or not) at the source, and that only the record of the move is left.
async fn assert_nothing_moved(stage: &Stage, server: Uuid, source: &str, status: &str) {
    let shown = stage.at_rest(server, status).await;
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(source));
    assert_eq!(shown["flavor"]["original_name"], "gen1.small");
    let record = stage.record("cell1", server).await.expect("live");
    assert!(record.old_flavor.is_none() && record.new_flavor.is_none() && record.old_vm_state.is_none(), "L14");
    assert!(stage.cell("cell1").migration_context(server).await.expect("a context").is_none(), "L14");
    assert!(stage.cell("cell2").instance(server).await.is_err(), "no row in the target cell");
    let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
    assert_eq!(migration.status.to_string(), "error");
    assert_eq!(stage.holds(server).await, hosts(&[source]));
    assert!(stage.holds(migration.uuid).await.is_empty());
    assert_eq!(stage.runs_on(server).await, if status == "ACTIVE" { hosts(&[source]) } else { hosts(&[]) });
    for host in ["cell2-host1", "cell2-host2"] {
        assert!(stage.guest(host, server).await.is_none(), "{host}");
    }
    for port in stage.bindings(server).await {
        assert_eq!(port, [(source.to_owned(), "ACTIVE".to_owned())].into_iter().collect(), "L15");
    }
}

/// Returns the reason that the action of a failed move gives to administrators; its owner reads of no host.
async fn reason(stage: &Stage, server: Uuid, action: &str) -> String {
    let text = stage.member.speaking("2.84").action(server, action).await.to_string();
    assert!(!text.contains("-host"), "the owner reads of a host: {text}");
    let action = stage.admin.speaking("2.84").action(server, action).await;
    assert_eq!(action["message"], "Error", "{action:#}");
    let failed = action["events"].as_array().into_iter().flatten().find(|event| event["result"] == "Error");
    let event = failed.unwrap_or_else(|| panic!("no failed event in {action:#}"));
    event["traceback"].as_str().unwrap_or_default().to_owned()
}

/// Makes a server with a volume in cell1.
async fn server_with_volume(stage: &Stage) -> (Uuid, Uuid, String) {
    let server = stage.create(stage.server()).await;
    let volume = stage.member.make_volume().await;
    stage.member.attach(server, volume).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
    let source = stage.host_of(server).await;
    (server, volume, source)
}

#[test]
fn a_target_that_cannot_build_the_guest_gives_it_back() {
    play_default(|stage| async move {
        let (server, volume, source) = server_with_volume(&stage).await;
        stage.guest_writes(&source, server, b"dear data").await;
        stage.refuse("prepare_at_target");
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        assert_eq!(stage.attachments(server).await[&volume], [Some(source.clone())].into_iter().collect());
        assert_eq!(stage.guest(&source, server).await.expect("a guest").volumes, [volume], "connected again (L16)");
        assert!(contains(&stage.disks(&source, server).await["disk"], b"dear data"));
        assert!(reason(&stage, server, "resize").await.contains("refused"));
        assert!(stage.notified(server).await.contains(&"compute_task.migrate_server.error".to_owned()));
        stage.disarm();
        stage.cross(server).await;
    });
}

#[test]
fn a_source_that_cannot_let_go_runs_the_guest_on() {
    play_default(|stage| async move {
        let (server, _, source) = server_with_volume(&stage).await;
        stage.refuse("release_source_guest");
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        stage.disarm();
        stage.cross(server).await;
    });
}

#[test]
fn a_stopped_server_is_stopped_after_a_failed_move() {
    play_default(|stage| async move {
        let (server, _, source) = server_with_volume(&stage).await;
        stage.stop(&stage.member, server).await;
        stage.refuse("prepare_at_target");
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "SHUTOFF").await;
    });
}

/// As in Nova, the source's guest stays off and the server is in ERROR.
fn without_recovery(config: &mut cellshift::config::Config) {
    config.migration.recover_source_guest = false;
}

#[test]
fn a_hard_reboot_recovers_a_server_that_was_left_in_error() {
    play(without_recovery, |stage| async move {
        let (server, volume, source) = server_with_volume(&stage).await;
        stage.guest_writes(&source, server, b"dear data").await;
        stage.refuse("prepare_at_target");
        stage.member.resize(server, "gen2.small").await.expect(202);
        let shown = stage.at_rest(server, "ERROR").await;
        assert!(shown["fault"]["message"].as_str().is_some_and(|why| why.contains("refused")), "{}", shown["fault"]);
        assert_nothing_moved(&stage, server, &source, "ERROR").await;
        stage.disarm();
        stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&source]));
        assert!(contains(&stage.disks(&source, server).await["disk"], b"dear data"), "on its kept disks");
        assert_eq!(stage.attachments(server).await[&volume], [Some(source)].into_iter().collect());
        stage.cross(server).await;
    });
}

#[test]
fn a_rebuild_recovers_it_too() {
    play(without_recovery, |stage| async move {
        let (server, volume, source) = server_with_volume(&stage).await;
        stage.guest_writes(&source, server, b"old data").await;
        stage.refuse("prepare_at_target");
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ERROR").await;
        stage.disarm();
        stage.member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&source]));
        assert!(!contains(&stage.disks(&source, server).await["disk"], b"old data"), "on a fresh disk");
        assert_eq!(stage.attachments(server).await[&volume], [Some(source)].into_iter().collect());
        stage.cross(server).await;
    });
}

#[test]
fn a_rebuilt_server_on_a_volume_stays_on_it() {
    play_default(|stage| async move {
        let server = stage.create(stage.volume_server()).await;
        stage.member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.member.show(server).await["image"], "", "it has a volume, not an image");
        stage.cross(server).await;
        stage.confirm(server).await;
    });
}

#[test]
fn a_corrupted_snapshot_rolls_back() {
    play_default(|stage| async move {
        let (server, _, source) = server_with_volume(&stage).await;
        stage.guest_writes(&source, server, b"dear data").await;
        let (images, tiny) = (stage.running.cloud.config.data_dir.join("images"), stage.image.to_string());
        stage.arm(move |point| {
            if (point.step, point.side, point.moment) == ("prepare_at_target", "act", Moment::BeforeEffect) {
                let files = std::fs::read_dir(&images).expect("images").map(|entry| entry.expect("an image").path());
                for snapshot in files.filter(|path| path.is_file() && !path.ends_with(&tiny)) {
                    let mut bytes = std::fs::read(&snapshot).expect("a snapshot");
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                    std::fs::write(&snapshot, bytes).expect("a corrupted snapshot");
                }
            }
            StepFault::None
        });
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        let why = reason(&stage, server, "resize").await.to_lowercase();
        assert!(why.contains("checksum") || why.contains("sha"), "{why}");
        assert!(contains(&stage.disks(&source, server).await["disk"], b"dear data"));
    });
}

#[test]
fn a_flavor_too_big_for_every_host_changes_nothing() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.make_flavor("huge", 1, 1024, 5000).await;
        stage.member.resize(server, "huge").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        let why = reason(&stage, server, "resize").await;
        assert!(why.contains("No valid host"), "{why}");
        assert_eq!(stage.member.show(server).await.get("fault"), None, "not shown: the server is well");
        stage.cross(server).await;
    });
}

/// Fills a host without placement's knowledge, so that it refuses the next claim. The returned value empties it again.
pub async fn fill(stage: &Stage, host: &str) -> Uuid {
    let stranger = Uuid::new_v5(&Uuid::NAMESPACE_OID, host.as_bytes());
    let resources = Resources { vcpu: 1, memory_mb: 32_768, disk_gb: 1 };
    tell(stage, host, stranger, HostCommand::Claim { holder: stranger, resources, functions: Vec::new() }, 1).await;
    stranger
}

pub async fn tell(stage: &Stage, host: &str, server: Uuid, command: HostCommand, attempt: i64) {
    let cell = host.split('-').next().expect("a cell");
    let request = HostRequest::new(Fence { server, epoch: 0, attempt }, server, command);
    let reply = stage.world().hosts.request(cell, host, request).await;
    assert_eq!(reply, Ok(HostReply::Done));
}

#[test]
fn the_alternate_is_taken_when_the_first_host_refuses() {
    play_default(|stage| async move {
        let (server, _, _) = server_with_volume(&stage).await;
        // The host with more room comes first.
        let (_, fuller) = stage.create_on_a_host(stage.server().named("other").flavor("gen2.large")).await;
        let first = if fuller == "cell2-host1" { "cell2-host2" } else { "cell2-host1" };
        let stranger = fill(&stage, first).await;
        let shown = stage.cross(server).await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(fuller));
        assert_eq!(stage.holds(server).await, hosts(&[&fuller]));
        assert!(stage.guest(first, server).await.is_none());
        let refused = stage.migrations("cell2", server).await.pop().expect("a migration");
        assert_eq!(refused.dest_compute.as_deref(), Some(fuller.as_str()));
        for port in stage.bindings(server).await {
            assert!(!port.contains_key(first), "no binding is left at the host that refused: {port:?}");
        }
        let action = stage.admin.action(server, "resize").await;
        let preps: Vec<_> = action["events"].as_array().expect("events").iter().filter(|event| !event["host"].is_null()).collect();
        let result = |host: &str| preps.iter().find(|event| event["host"] == host).map(|event| event["result"].clone());
        assert_eq!((result(first), result(&fuller)), (Some(json!("Error")), Some(json!("Success"))), "{action:#}");
        assert_eq!(action["message"], json!(null), "the move as a whole went well");
        tell(&stage, first, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
    });
}

#[test]
fn the_prior_state_comes_only_after_the_last_alternate() {
    play_default(|stage| async move {
        let (server, _, source) = server_with_volume(&stage).await;
        let strangers = [("cell2-host1", fill(&stage, "cell2-host1").await), ("cell2-host2", fill(&stage, "cell2-host2").await)];
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        let why = reason(&stage, server, "resize").await;
        assert!(why.contains("cell2-host1") && why.contains("cell2-host2"), "both are named: {why}");
        for (host, stranger) in strangers {
            tell(&stage, host, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
        }
        stage.cross(server).await;
    });
}

#[test]
fn a_revert_finds_its_room_though_the_source_is_full() {
    let small = |config: &mut cellshift::config::Config| {
        config.cells.hosts_per_cell = Some(1);
        config.compute.memory_mb = 2048;
    };
    play(small, |stage| async move {
        let server = stage.create(stage.server()).await;
        let _neighbour = stage.create(stage.server().named("neighbour")).await;
        stage.cross(server).await;
        let too_much = stage.server().named("too much").ask(&stage.member).await.expect(202);
        let too_much = crate::client::id_of(&too_much.body["server"]);
        stage.at_rest(too_much, "ERROR").await;
        stage.member.revert(server).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host1");
        assert_eq!(stage.holds(server).await, hosts(&["cell1-host1"]));
        stage.member.delete(&format!("/servers/{too_much}")).await.expect(204);
        stage.gone(too_much).await;
        assert_eq!(stage.member.show(server).await.get("fault"), None::<&Value>);
    });
}

#[test]
fn what_a_step_in_doubt_has_learnt_is_not_believed() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.arm(|point| match (point.step, point.side, point.moment) {
            ("select_destination", "act", Moment::BeforeEffect) => StepFault::LoseReply,
            _ => StepFault::None,
        });
        stage.member.resize(server, "gen2.small").await.expect(202);
        assert_nothing_moved(&stage, server, &source, "ACTIVE").await;
        // The scheduler's choice was lost with its reply: neither an undo nor a successor uses it.
        let migration = stage.migrations("cell1", server).await.pop().expect("a migration");
        let saga = stage.world().operations.saga(migration.uuid).await.expect("the journal").expect("its saga");
        let context: Value = serde_json::from_str(&saga.context).expect("a context");
        assert!(context["source"].is_object() && context["target"].is_null(), "{context:#}");
    });
}

/// Refuses the act of one step, and each try to activate the ports again in the undo of another.
fn owe_ports(stage: &Stage, refused: &'static str, owed: &'static str) {
    stage.arm(move |point| match (point.step, point.side, point.moment) {
        (step, "act", Moment::BeforeEffect) if step == refused => StepFault::Refuse,
        (step, "undo", Moment::BeforeEffect) if step == owed => StepFault::Refuse,
        _ => StepFault::None,
    });
}

/// Checks that the guest runs on its host before the debt is paid, and that the debt changes nothing.
async fn assert_runs_while_owed(stage: &Stage, server: Uuid, host: &str) {
    stage.ended(server).await;
    assert_eq!(stage.debts(server).await.len(), 1);
    assert_eq!(stage.runs_on(server).await, hosts(&[host]));
    for port in stage.bindings(server).await {
        assert_eq!(port.get(host).map(String::as_str), Some("ACTIVE"));
    }
    stage.disarm();
    stage.paid(server).await;
    assert_eq!(stage.runs_on(server).await, hosts(&[host]));
}

#[test]
fn a_guest_waits_for_no_port_that_an_undo_owes() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        for flavor in ["gen2.small", "gen1.large"] {
            owe_ports(&stage, "prepare_at_target", "activate_target_ports");
            stage.member.resize(server, flavor).await.expect(202);
            assert_runs_while_owed(&stage, server, &source).await;
            stage.at_rest(server, "ACTIVE").await;
        }
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        owe_ports(&stage, "take_ownership_back", "activate_source_ports");
        stage.member.revert(server).await.expect(202);
        assert_runs_while_owed(&stage, server, &target).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.revert(server).await;
        // The host is only forced down: its guest is stopped, and runs again when the evacuation has failed.
        stage.force_down(&source, true).await;
        owe_ports(&stage, "prepare_at_target", "activate_target_ports");
        stage.admin.act(server, json!({"evacuate": {}})).await.expect(200);
        assert_runs_while_owed(&stage, server, &source).await;
        stage.force_down(&source, false).await;
    });
}
