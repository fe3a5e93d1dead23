//! A server is resized into another cell and stays there.

use serde_json::{Value, json};

use crate::stage::{hosts, play, play_default};

/// Checks a server that waits in cell2, with any kind of disks.
pub async fn assert_waits_in_cell2(stage: &crate::stage::Stage, server: uuid::Uuid, ran: bool) -> String {
    let shown = stage.admin.show(server).await;
    let host = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
    assert!(host.starts_with("cell2-"), "{host}");
    assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell2");
    assert_eq!(shown["flavor"]["original_name"], "gen2.small");
    assert_eq!(shown["OS-EXT-STS:vm_state"], "resized");
    assert_eq!(shown["OS-EXT-STS:power_state"], json!(if ran { 1 } else { 4 }));
    let (source, target) = (stage.record("cell1", server).await.expect("kept"), stage.record("cell2", server).await.expect("live"));
    assert!(source.hidden && !target.hidden);
    assert_eq!(target.old_flavor.map(|flavor| flavor.name).as_deref(), Some("gen1.small"));
    assert_eq!(target.new_flavor.map(|flavor| flavor.name).as_deref(), Some("gen2.small"));
    assert_eq!(target.created_at, source.created_at);
    assert_eq!(stage.migration_status("cell1", server).await, "post-migrating");
    assert_eq!(stage.migration_status("cell2", server).await, "finished");
    let migration = stage.migrations("cell2", server).await.pop().expect("a migration");
    assert!(migration.cross_cell_move);
    assert_eq!(stage.holds(server).await, hosts(&[&host]));
    assert_eq!(stage.holds(migration.uuid).await, hosts(&[&migration.source_compute]));
    let expected = if ran { hosts(&[&host]) } else { hosts(&[]) };
    assert_eq!(stage.runs_on(server).await, expected);
    let kept = stage.guest(&migration.source_compute, server).await.expect("the source keeps the disks");
    assert!(!kept.defined && kept.volumes.is_empty() && kept.ports.is_empty(), "{kept:?}");
    for port in stage.bindings(server).await {
        let expected = [(host.clone(), "ACTIVE".to_owned()), (migration.source_compute.clone(), "INACTIVE".to_owned())];
        assert_eq!(port, expected.into_iter().collect());
    }
    for (volume, attachments) in stage.attachments(server).await {
        assert_eq!(attachments, [None, Some(host.clone())].into_iter().collect(), "volume {volume}");
    }
    host
}

#[test]
fn an_image_backed_server_is_confirmed_and_leaves_nothing() {
    play_default(|stage| async move {
        let server = stage.create(stage.server().with("tags", json!(["blue"])).with("metadata", json!({"rack": "7"}))).await;
        let before = stage.admin.show(server).await;
        let source = before["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        assert!(source.starts_with("cell1-"));
        stage.guest_writes(&source, server, b"what the guest wrote last").await;
        let shown = stage.cross(server).await;
        let target = assert_waits_in_cell2(&stage, server, true).await;
        for unchanged in ["id", "name", "tenant_id", "image", "addresses", "tags", "key_name", "metadata", "created"] {
            assert_eq!(shown[unchanged], before[unchanged], "{unchanged}");
        }
        let listed = stage.member.get("/servers").await.expect(200).body;
        assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1), "one server in lists");
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "VERIFY_RESIZE").await;

        stage.member.confirm(server).await.expect(204);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(target));
        let migration = stage.migrations("cell2", server).await.pop().expect("a migration");
        assert_eq!(migration.status.to_string(), "confirmed");
        assert_eq!(stage.holds(server).await, hosts(&[&target]));
        assert!(stage.holds(migration.uuid).await.is_empty());
        assert!(stage.record("cell1", server).await.is_none());
        assert!(stage.migrations("cell1", server).await.is_empty());
        let live = stage.record("cell2", server).await.expect("live");
        assert!(live.old_flavor.is_none() && live.new_flavor.is_none() && live.old_vm_state.is_none());
        assert!(stage.guest(&source, server).await.is_none(), "the source's disks are gone");
        assert!(stage.report("cell1", &source).await.claims.is_empty());
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
        assert_eq!(stage.attachments(server).await[&volume], [Some(target.clone())].into_iter().collect());
        for port in stage.bindings(server).await {
            assert_eq!(port, [(target.clone(), "ACTIVE".to_owned())].into_iter().collect());
        }
        let events = events(&stage.admin.action(server, "confirmResize").await);
        let expected = ["compute_confirm_snapshot_based_resize_at_source", "conductor_confirm_snapshot_based_resize"];
        assert_eq!(events, expected.map(|event| (event.to_owned(), "Success".to_owned())));

        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        assert!(stage.attachments(server).await.is_empty());
        assert!(stage.holds(server).await.is_empty());
        assert!(stage.record("cell2", server).await.is_none());
        assert!(stage.guest(&target, server).await.is_none());
    });
}

/// Returns the events of an action with their results, sorted.
pub fn events(action: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = action["events"].as_array().expect("events");
    let mut pairs: Vec<_> = events.iter().map(|event| (text(&event["event"]), text(&event["result"]))).collect();
    pairs.sort();
    pairs
}

#[test]
fn the_disk_holds_what_the_guest_wrote_last() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.guest_writes(&source, server, b"before the move").await;
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        let (kept, moved) = (stage.disks(&source, server).await, stage.disks(&target, server).await);
        assert!(contains(&kept["disk"], b"before the move"));
        assert!(contains(&moved["disk"], b"before the move"));
        stage.guest_writes(&target, server, b"after the move").await;
        stage.confirm(server).await;
        assert!(contains(&stage.disks(&target, server).await["disk"], b"after the move"));
    });
}

/// True if the disk contains the bytes.
pub fn contains(disk: &[u8], bytes: &[u8]) -> bool {
    disk.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn the_history_of_a_resize_is_one() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let events = events(&stage.admin.action(server, "resize").await);
        let names: Vec<&str> = events.iter().map(|(event, _)| event.as_str()).collect();
        assert_eq!(
            names,
            [
                "cold_migrate",
                "compute_finish_snapshot_based_resize_at_dest",
                "compute_prep_snapshot_based_resize_at_dest",
                "compute_prep_snapshot_based_resize_at_source",
                "conductor_migrate_server",
            ]
        );
        assert!(events.iter().all(|(_, result)| result == "Success"), "{events:?}");
        stage.confirm(server).await;
        let moves = ["resize_prep", "resize", "resize_finish", "resize_confirm"];
        let expected: Vec<String> =
            moves.iter().flat_map(|action| [format!("instance.{action}.start"), format!("instance.{action}.end")]).collect();
        let types: Vec<String> = stage.notified(server).await.into_iter().filter(|event| event.contains("resize")).collect();
        assert_eq!(types, expected);
    });
}

#[test]
fn a_stopped_server_stays_stopped_and_can_be_moved_back() {
    play_default(|stage| async move {
        let server = stage.create(stage.volume_server()).await;
        stage.stop(&stage.member, server).await;
        stage.cross(server).await;
        assert_waits_in_cell2(&stage, server, false).await;
        stage.member.confirm(server).await.expect(204);
        let shown = stage.at_rest(server, "SHUTOFF").await;
        assert_eq!(shown["OS-EXT-STS:power_state"], json!(4));
        assert_eq!(stage.migration_status("cell2", server).await, "confirmed");
        assert!(stage.allocations(server).await.values().all(|amounts| !amounts.contains_key("DISK_GB")), "volume-backed");
        stage.member.resize(server, "gen1.large").await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell1");
        assert!(stage.runs_on(server).await.is_empty());
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "SHUTOFF").await;
    });
}

#[test]
fn a_key_pair_moves_with_its_server() {
    play_default(|stage| async move {
        stage.make_key_pair("mine").await;
        let server = stage.create(stage.server().with("key_name", json!("mine"))).await;
        let before = stage.record("cell1", server).await.expect("live").keypair;
        assert!(before.is_some());
        stage.cross(server).await;
        stage.member.confirm(server).await.expect(204);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["key_name"], "mine");
        let record = stage.record("cell2", server).await.expect("live");
        assert_eq!(record.keypair, before);
        assert!(record.key_data.is_some());
    });
}

#[test]
fn a_resize_that_nobody_confirms_is_confirmed_across_cells() {
    play(
        |config| config.migration.resize_confirm_window = cellshift::config::Seconds::millis(300),
        |stage| async move {
            let server = stage.create(stage.server()).await;
            stage.member.resize(server, "gen2.small").await.expect(202);
            let confirmed = || async { stage.migration_status("cell2", server).await == "confirmed" };
            stage.until("the move is confirmed", confirmed).await;
            stage.at_rest(server, "ACTIVE").await;
            assert!(stage.record("cell1", server).await.is_none());
        },
    );
}

#[test]
fn a_server_that_waits_for_confirm_is_deleted_in_both_cells() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        stage.cross(server).await;
        let migration = stage.migrations("cell2", server).await.pop().expect("a migration").uuid;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        assert!(stage.holds(server).await.is_empty() && stage.holds(migration).await.is_empty());
        assert!(stage.attachments(server).await.is_empty());
        assert!(stage.cell("cell1").instance(server).await.is_err(), "no row at the source, deleted or not");
        assert_eq!(stage.migration_status("cell2", server).await, "confirmed");
        assert!(stage.runs_on(server).await.is_empty());
        for cell in ["cell1", "cell2"] {
            for host in 1..=2 {
                assert!(stage.guest(&format!("{cell}-host{host}"), server).await.is_none());
            }
        }
        let shown = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200);
        assert_eq!(shown.body["volume"]["status"], "available");
    });
}

#[test]
fn migrations_and_hypervisors_tell_the_same_story() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        let used = async |host: &str| {
            let body = stage.admin.speaking("2.53").get("/os-hypervisors/detail").await.expect(200).body;
            let all = body["hypervisors"].as_array().cloned().unwrap_or_default();
            all.iter().find(|node| node["service"]["host"] == host).map(|node| node["vcpus_used"].clone())
        };
        let listed = async || {
            let body = stage.admin.get(&format!("/os-migrations?instance_uuid={server}")).await.expect(200).body;
            body["migrations"].as_array().cloned().unwrap_or_default()
        };
        assert_eq!((used(&source).await, used(&target).await), (Some(json!(1)), Some(json!(1))), "the source keeps room for a revert");
        let migrations = listed().await;
        assert_eq!(migrations.len(), 1, "one move, though both cells record it (L21)");
        assert_eq!(migrations[0]["status"], "finished");
        assert_eq!((&migrations[0]["source_compute"], &migrations[0]["dest_compute"]), (&json!(source), &json!(target)));
        assert_eq!(stage.admin.get(&format!("/servers/{server}/migrations")).await.expect(200).body["migrations"], json!([]));
        stage.confirm(server).await;
        assert_eq!((used(&source).await, used(&target).await), (Some(json!(0)), Some(json!(1))));
        assert_eq!(listed().await[0]["status"], "confirmed");
        stage.member.resize(server, "gen1.small").await.expect(202);
        let back = stage.at_rest(server, "VERIFY_RESIZE").await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        stage.revert(server).await;
        assert_eq!((used(&back).await, used(&target).await), (Some(json!(0)), Some(json!(1))));
        assert_eq!(listed().await.iter().map(|migration| migration["status"].clone()).collect::<Vec<_>>(), ["reverted", "confirmed"]);
    });
}
