//! Each operation on a server whose ports ask for resources.

use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, give_bridges, moved, policy, port, ports, settled};
use crate::live_migration::live;
use crate::stage::{Stage, play_default};

/// Makes an admin's server on cell1-host1 with a port that asks for bandwidth and packets, and a port that asks for nothing.
async fn server(stage: &Stage, flavor: &str) -> Uuid {
    give_bridges(stage).await;
    let policy = policy(stage, Minimum { egress: 1000, ingress: 2000, packets: 3 }).await;
    let asking = port(stage, json!({"qos_policy_id": policy})).await;
    let plain = port(stage, json!({})).await;
    let networks = json!([{"port": asking}, {"port": plain}]);
    let (server, host) = stage.create_on_a_host(stage.server().flavor(flavor).with("networks", networks)).await;
    expect(stage, server, None, &settled(&host)).await;
    server
}

async fn migration(stage: &Stage, cell: &str, server: Uuid) -> Uuid {
    stage.migrations(cell, server).await.pop().expect("a migration").uuid
}

#[test]
fn a_deleted_server_gives_its_bandwidth_back() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let ports = ports(&stage, server).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        expect(&stage, server, None, &[]).await;
        for port in ports {
            let shown = stage.admin.get(&format!("/network/v2.0/ports/{}", port.id)).await.expect(200).body;
            assert_eq!((&shown["port"]["binding:profile"], &shown["port"]["binding:host_id"]), (&json!({}), &json!("")), "{shown:#}");
        }
    });
}

#[test]
fn a_move_across_cells_is_charged_at_both_ends_until_confirmed() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let source = stage.host_of(server).await;
        stage.cross(server).await;
        let (target, migration) = (stage.host_of(server).await, migration(&stage, "cell2", server).await);
        expect(&stage, server, Some(migration), &moved(&source, &target)).await;
        stage.confirm(server).await;
        expect(&stage, server, Some(migration), &settled(&target)).await;
    });
}

#[test]
fn a_revert_across_cells_restores_the_same_provider() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let (source, before) = (stage.host_of(server).await, ports(&stage, server).await);
        stage.cross(server).await;
        let migration = migration(&stage, "cell2", server).await;
        stage.revert(server).await;
        expect(&stage, server, Some(migration), &settled(&source)).await;
        let after = ports(&stage, server).await;
        assert_eq!(after[0].bindings[0].allocation(), before[0].bindings[0].allocation());
    });
}

#[test]
fn a_resize_within_the_cell_is_confirmed_and_reverted() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let source = stage.host_of(server).await;
        stage.member.resize(server, "gen1.large").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let (target, first) = (stage.host_of(server).await, migration(&stage, "cell1", server).await);
        expect(&stage, server, Some(first), &moved(&source, &target)).await;
        stage.revert(server).await;
        expect(&stage, server, Some(first), &settled(&source)).await;
        stage.admin.migrate(server, None).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let (target, second) = (stage.host_of(server).await, migration(&stage, "cell1", server).await);
        expect(&stage, server, Some(second), &moved(&source, &target)).await;
        stage.confirm(server).await;
        expect(&stage, server, Some(second), &settled(&target)).await;
    });
}

#[test]
fn a_live_migration_takes_its_bandwidth_along() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let source = stage.host_of(server).await;
        stage.admin.act(server, live(None)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let (target, migration) = (stage.host_of(server).await, migration(&stage, "cell1", server).await);
        assert_ne!(source, target);
        expect(&stage, server, Some(migration), &settled(&target)).await;
        // A failure leaves the source as it was.
        stage.refuse("copy_guest");
        stage.admin.act(server, live(None)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.disarm();
        expect(&stage, server, None, &settled(&target)).await;
    });
}

#[test]
fn the_source_of_an_evacuation_is_charged_until_it_returns() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let source = stage.host_of(server).await;
        stage.power(&source, false).await;
        stage.admin.speaking("2.90").act(server, json!({"evacuate": {}})).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        let (target, migration) = (stage.host_of(server).await, migration(&stage, "cell1", server).await);
        assert_eq!(stage.holds(migration).await.len(), 3, "the host, its agent and its bridge");
        let holdings = super::networks::ledger(&stage, server, Some(migration)).await;
        assert!(holdings.iter().any(|line| line.starts_with("migration holds") && line.contains(&source)), "{holdings:#?}");
        stage.power(&source, true).await;
        stage.paid(server).await;
        expect(&stage, server, Some(migration), &settled(&target)).await;
    });
}

#[test]
fn an_offloaded_server_holds_nothing_and_gets_it_back() {
    play_default(|stage| async move {
        let server = server(&stage, "m1.tiny").await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        expect(&stage, server, None, &[]).await;
        stage.member.act(server, json!({"unshelve": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&stage.host_of(server).await)).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        let away = json!({"unshelve": {"host": "cell2-host1"}});
        stage.admin.speaking("2.91").act(server, away).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled("cell2-host1")).await;
    });
}

#[test]
fn a_forced_move_is_refused_and_changes_nothing() {
    play_default(|stage| async move {
        let server = server(&stage, "gen1.small").await;
        let source = stage.host_of(server).await;
        let other = if source == "cell1-host1" { "cell1-host2" } else { "cell1-host1" };
        let forced = json!({"os-migrateLive": {"host": other, "block_migration": "auto", "force": true}});
        stage.admin.speaking("2.60").act(server, forced).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
        stage.force_down(&source, true).await;
        let forced: Value = json!({"evacuate": {"host": other, "force": true}});
        stage.admin.speaking("2.60").act(server, forced).await.expect(200);
        stage.ended(server).await;
        stage.force_down(&source, false).await;
        let holdings = super::networks::ledger(&stage, server, None).await;
        assert!(holdings.iter().any(|line| line.starts_with("server holds")), "{holdings:#?}");
        expect(&stage, server, None, &settled(&source)).await;
    });
}
