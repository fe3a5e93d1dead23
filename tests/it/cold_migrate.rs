//! The choice of a move's target: named hosts, the weigher that keeps moves in their cell, groups over cells, and moves inside a cell
//! (INVARIANTS C1 to C10).

use serde_json::json;
use uuid::Uuid;

use crate::resize_confirm::events;
use crate::stage::{Stage, hosts, play, play_default};

/// Makes a server on this host, with a flavor for any host.
async fn anywhere(stage: &Stage, name: &str, host: &str) -> Uuid {
    stage.create_by(&stage.admin, stage.server().named(name).flavor("m1.tiny").on_host(host)).await
}

#[test]
fn a_migration_goes_to_the_named_host_in_another_cell() {
    play_default(|stage| async move {
        let server = anywhere(&stage, "one", "cell1-host1").await;
        stage.admin.migrate(server, Some("cell2-host2")).await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell2-host2");
        assert_eq!(shown["flavor"]["original_name"], "m1.tiny");
        let migration = stage.migrations("cell2", server).await.pop().expect("a migration");
        assert_eq!(migration.migration_type.to_string(), "migration");
        assert!(migration.cross_cell_move);
        let action = stage.admin.action(server, "migrate").await;
        assert!(events(&action).iter().all(|(_, result)| result == "Success"), "{action:#}");
        let record = stage.record("cell2", server).await.expect("live");
        assert_eq!(record.old_flavor, record.new_flavor, "both are stored, and equal");
        stage.admin.confirm(server).await.expect(204);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell2-host2");
        stage.admin.migrate(server, Some("cell1-host1")).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.revert(server).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell2-host2");
    });
}

#[test]
fn the_weigher_keeps_a_move_in_its_cell() {
    play_default(|stage| async move {
        let server = anywhere(&stage, "one", "cell1-host1").await;
        // The cell's other host is the fullest of all hosts.
        anywhere(&stage, "two", "cell1-host2").await;
        anywhere(&stage, "three", "cell1-host2").await;
        stage.admin.migrate(server, None).await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert!(stage.record("cell2", server).await.is_none());
    });
}

#[test]
fn a_negative_multiplier_prefers_the_other_cell() {
    play(
        |config| config.scheduler.cross_cell_move_weight_multiplier = -1_000_000.0,
        |stage| async move {
            let server = anywhere(&stage, "one", "cell1-host1").await;
            stage.admin.migrate(server, None).await.expect(202);
            let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
            assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell2", "{}", shown["OS-EXT-SRV-ATTR:host"]);
        },
    );
}

#[test]
fn anti_affinity_counts_members_in_all_cells() {
    play_default(|stage| async move {
        let body = json!({"server_group": {"name": "apart", "policy": "anti-affinity"}});
        let group = stage.admin.post("/os-server-groups", body).await.expect(200).body;
        let group = crate::client::id_of(&group["server_group"]);
        let mut servers = Vec::new();
        for (name, host) in [("one", "cell1-host1"), ("two", "cell1-host2")] {
            let new = stage.server().named(name).flavor("m1.tiny").on_host(host).in_group(group);
            servers.push(stage.create_by(&stage.admin, new).await);
        }
        stage.admin.migrate(servers[0], None).await.expect(202);
        let shown = stage.at_rest(servers[0], "VERIFY_RESIZE").await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        assert!(target.starts_with("cell2-"), "its own cell's other host has a member: {target}");
        stage.admin.migrate(servers[1], Some(&target)).await.expect(202);
        stage.at_rest(servers[1], "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", servers[1]).await, "conflict");
        assert_eq!(stage.holds(servers[1]).await, hosts(&["cell1-host2"]));
    });
}

#[test]
fn a_move_inside_its_cell_is_confirmed() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.guest_writes(&source, server, b"dear data").await;
        stage.member.resize(server, "gen1.large").await.expect(202);
        let shown = stage.at_rest(server, "VERIFY_RESIZE").await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        assert!(target.starts_with("cell1-") && target != source);
        assert_eq!(shown["flavor"]["original_name"], "gen1.large");
        assert!(crate::resize_confirm::contains(&stage.disks(&target, server).await["disk"], b"dear data"));
        let names: Vec<String> = events(&stage.admin.action(server, "resize").await).into_iter().map(|(event, _)| event).collect();
        assert!(names.contains(&"compute_resize_instance".to_owned()), "{names:?}");
        stage.confirm(server).await;
        assert!(stage.guest(&source, server).await.is_none());
        assert_eq!(stage.holds(server).await, hosts(&[&target]));
    });
}

#[test]
fn a_move_inside_its_cell_is_reverted() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let volume = stage.member.make_volume().await;
        stage.member.resize(server, "gen1.large").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.member.attach(server, volume).await.expect(200);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.member.revert(server).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(source));
        assert_eq!(shown["flavor"]["original_name"], "gen1.small");
        assert_eq!(stage.runs_on(server).await, hosts(&[&source]));
        assert_eq!(stage.holds(server).await, hosts(&[&source]));
        assert_eq!(stage.attachments(server).await[&volume], [Some(source)].into_iter().collect());
    });
}
