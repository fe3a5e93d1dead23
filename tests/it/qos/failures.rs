//! Moves of servers with guaranteed bandwidth that fail, are tried on another host, aborted, or cut short by a delete.

use cellshift::chaos::point::Moment;
use cellshift::config::Config;
use cellshift::domain::host_protocol::HostCommand;
use serde_json::json;
use uuid::Uuid;

use super::networks::{At, Minimum, expect, give_bridges, moved, policy, port, server_with, settled};
use super::refusals::has_version;
use crate::held::Held;
use crate::live_migration::live;
use crate::live_migration_control::{endless, until_it_is};
use crate::resize_rollback::{fill, tell};
use crate::stage::{Stage, play, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 3 };

async fn server(stage: &Stage) -> (Uuid, String) {
    server_with(stage, FAST).await
}

async fn migration(stage: &Stage, cell: &str, server: Uuid) -> Uuid {
    stage.migrations(cell, server).await.pop().expect("a migration").uuid
}

#[test]
fn an_alternate_gives_its_own_providers() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        // The host with more room comes first, and refuses.
        let (_, fuller) = stage.create_on_a_host(stage.server().named("other").flavor("gen2.large")).await;
        let first = if fuller == "cell2-host1" { "cell2-host2" } else { "cell2-host1" };
        let stranger = fill(&stage, first).await;
        stage.cross(server).await;
        let migration = migration(&stage, "cell2", server).await;
        expect(&stage, server, Some(migration), &moved(&source, &fuller)).await;
        stage.revert(server).await;
        expect(&stage, server, Some(migration), &settled(&source)).await;
        tell(&stage, first, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
    });
}

#[test]
fn nothing_is_charged_after_the_last_alternate() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let strangers = [("cell2-host1", fill(&stage, "cell2-host1").await), ("cell2-host2", fill(&stage, "cell2-host2").await)];
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "error");
        expect(&stage, server, Some(migration(&stage, "cell1", server).await), &settled(&source)).await;
        for (host, stranger) in strangers {
            tell(&stage, host, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
        }
    });
}

#[test]
fn an_aborted_live_migration_leaves_the_source_as_it_was() {
    play(endless, |stage| async move {
        let (server, source) = server(&stage).await;
        stage.admin.act(server, live(None)).await.expect(202);
        let shown = until_it_is(&stage, server, "running").await;
        let migration = migration(&stage, "cell1", server).await;
        stage.admin.delete(&format!("/servers/{server}/migrations/{}", shown["id"])).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "cancelled");
        expect(&stage, server, Some(migration), &settled(&source)).await;
    });
}

#[test]
fn every_step_that_refuses_a_move_leaves_the_source_charged() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        for step in ["bind_ports_at_target", "claim_at_target", "activate_target_ports", "prepare_at_target", "take_ownership"] {
            for flavor in ["gen1.large", "gen2.small"] {
                stage.refuse(step);
                stage.member.resize(server, flavor).await.expect(202);
                stage.at_rest(server, "ACTIVE").await;
                stage.disarm();
                let migration = migration(&stage, "cell1", server).await;
                expect(&stage, server, Some(migration), &settled(&source)).await;
            }
        }
    });
}

#[test]
fn a_failed_unshelve_leaves_no_port_bound() {
    let kept = |config: &mut Config| config.compute.shelved_offload_time = 0;
    play(kept, |stage| async move {
        let (server, _) = server(&stage).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        for step in ["bind_ports_at_target", "prepare_at_target", "take_ownership"] {
            stage.refuse(step);
            stage.member.act(server, json!({"unshelve": null})).await.expect(202);
            stage.at_rest(server, "SHELVED_OFFLOADED").await;
            stage.disarm();
            expect(&stage, server, None, &[]).await;
        }
    });
}

#[test]
fn an_evacuation_that_fails_leaves_the_ports_at_the_source() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        for step in ["claim_at_target", "activate_target_ports", "prepare_at_target"] {
            stage.force_down(&source, true).await;
            stage.refuse(step);
            stage.admin.speaking("2.90").act(server, json!({"evacuate": {}})).await.expect(200);
            stage.ended(server).await;
            stage.disarm();
            stage.force_down(&source, false).await;
            stage.at_rest(server, "ACTIVE").await;
            let migration = migration(&stage, "cell1", server).await;
            expect(&stage, server, Some(migration), &settled(&source)).await;
        }
    });
}

#[test]
fn a_delete_frees_both_ends_of_a_move() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        let migration = migration(&stage, "cell2", server).await;
        let both: [At<'_>; 2] = moved(&source, &target);
        expect(&stage, server, Some(migration), &both).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        expect(&stage, server, Some(migration), &[]).await;
    });
}

#[test]
fn a_host_that_turns_old_is_left_before_any_port_is_written() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let other = if source == "cell1-host1" { "cell1-host2" } else { "cell1-host1" };
        for (step, request) in [("bind_ports_at_target", json!({"migrate": null})), ("bind_ports_at_target", live(None))] {
            let held = Held::at(&stage, step, Moment::BeforeEffect);
            stage.admin.act(server, request).await.expect(202);
            held.met().await;
            has_version(&stage, other, 70).await;
            held.release();
            stage.at_rest(server, "ACTIVE").await;
            stage.disarm();
            has_version(&stage, other, 71).await;
            assert_eq!(stage.migration_status("cell1", server).await, "error");
            expect(&stage, server, Some(migration(&stage, "cell1", server).await), &settled(&source)).await;
        }
    });
}

#[test]
fn a_network_service_that_is_down_at_the_switch_changes_nothing() {
    play(
        |config| config.chaos.enabled = true,
        |stage| async move {
            let (server, source) = server(&stage).await;
            let file = "[[faults]]\nwhen = { step = \"activate_target_ports\" }\n\
                        what = { database = { name = \"network\", outage = \"refuses\", for_ms = 300 } }\n";
            stage.admin.post_file("/ops/v1/chaos/experiment", "application/toml", file).await.expect(202);
            stage.member.resize(server, "gen2.small").await.expect(202);
            stage.ended(server).await;
            stage.paid(server).await;
            stage.at_rest(server, "ACTIVE").await;
            let migration = migration(&stage, "cell1", server).await;
            expect(&stage, server, Some(migration), &settled(&source)).await;
        },
    );
}

/// Three hosts in each cell, so that a live migration has an alternate.
fn three_hosts(config: &mut Config) {
    config.cells.hosts_per_cell = Some(3);
}

#[test]
fn the_alternate_of_a_live_migration_gives_its_own_providers() {
    play(three_hosts, |stage| async move {
        let (server, source) = server(&stage).await;
        let others: Vec<&str> = ["cell1-host1", "cell1-host2", "cell1-host3"].into_iter().filter(|host| *host != source).collect();
        for refusing in &others {
            let stranger = fill(&stage, refusing).await;
            stage.admin.act(server, live(None)).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            let alternate = others.iter().find(|host| *host != refusing).expect("an alternate");
            assert_eq!(stage.migration_status("cell1", server).await, "completed");
            expect(&stage, server, Some(migration(&stage, "cell1", server).await), &settled(alternate)).await;
            stage.admin.act(server, live(Some(&source))).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            expect(&stage, server, None, &settled(&source)).await;
            tell(&stage, refusing, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
        }
    });
}

#[test]
fn every_refused_step_of_a_live_migration_leaves_the_source() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let steps =
            ["check_at_target", "bind_ports_at_target", "claim_at_target", "prepare_at_target", "copy_guest", "activate_target_ports"];
        for step in steps {
            stage.refuse(step);
            stage.admin.act(server, live(None)).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            stage.disarm();
            assert_ne!(stage.migration_status("cell1", server).await, "completed", "{step}");
            let migration = migration(&stage, "cell1", server).await;
            expect(&stage, server, Some(migration), &settled(&source)).await;
        }
    });
}

#[test]
fn an_alternate_takes_a_new_server_with_its_own_providers() {
    play_default(|stage| async move {
        give_bridges(&stage).await;
        let policy = policy(&stage, FAST).await;
        let mut new = Vec::new();
        for _ in 0..2 {
            let networks = json!([{"port": port(&stage, json!({"qos_policy_id": policy})).await}]);
            new.push(stage.server().flavor("gen1.large").with("networks", networks).with("availability_zone", json!("cell1")));
        }
        let (first, fuller) = stage.create_on_a_host(new.remove(0)).await;
        stage.member.delete(&format!("/servers/{first}")).await.expect(204);
        stage.gone(first).await;
        // The host that is chosen refuses, and its alternate takes the server.
        let stranger = fill(&stage, &fuller).await;
        let (second, host) = stage.create_on_a_host(new.remove(0)).await;
        assert_ne!(host, fuller);
        expect(&stage, second, None, &settled(&host)).await;
        tell(&stage, &fuller, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
    });
}

#[test]
fn an_unshelve_without_a_network_service_binds_nothing() {
    let kept = |config: &mut Config| {
        config.compute.shelved_offload_time = 0;
        config.chaos.enabled = true;
    };
    play(kept, |stage| async move {
        let (server, _) = server(&stage).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        let file = "[[faults]]\nwhen = { step = \"bind_ports_at_target\" }\n\
                    what = { database = { name = \"network\", outage = \"refuses\", for_ms = 300 } }\n";
        stage.admin.post_file("/ops/v1/chaos/experiment", "application/toml", file).await.expect(202);
        stage.member.act(server, json!({"unshelve": null})).await.expect(202);
        stage.ended(server).await;
        stage.paid(server).await;
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        expect(&stage, server, None, &[]).await;
    });
}
