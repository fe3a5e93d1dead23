//! Servers whose ports ask for more than there is, or whose hosts and services cannot give it.

use std::sync::Arc;

use cellshift::actors::root::Parts;
use cellshift::db::cell::CellTxn;
use cellshift::services::placement::{Allocations, PlacementService};
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::network::records::Attributes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, give_bridges, ledger, moved, policy, port, ports, settled};
use crate::client::id_of;
use crate::databases;
use crate::live_migration::live;
use crate::stage::{Stage, play_altered, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 0 };

async fn server(stage: &Stage, minimum: Minimum) -> Uuid {
    give_bridges(stage).await;
    let policy = policy(stage, minimum).await;
    let port = port(stage, json!({"qos_policy_id": policy})).await;
    stage.create(stage.server().with("networks", json!([{"port": port}]))).await
}

#[test]
fn more_bandwidth_than_any_bridge_has_is_no_valid_host() {
    play_default(|stage| async move {
        give_bridges(&stage).await;
        let policy = policy(&stage, Minimum { egress: 10_000_001, ..Minimum::default() }).await;
        let port = port(&stage, json!({"qos_policy_id": policy})).await;
        let request = stage.server().with("networks", json!([{"port": port}]));
        let refused = request.clone().ask(&stage.member.speaking("2.71")).await.expect(400);
        assert!(refused.message().contains("until microversion 2.72"), "{}", refused.text);
        let server = id_of(&request.ask(&stage.member).await.expect(202).body["server"]);
        let shown = stage.at_rest(server, "ERROR").await;
        assert!(shown["fault"]["message"].as_str().unwrap_or_default().starts_with("No valid host was found."), "{shown:#}");
        expect(&stage, server, None, &[]).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}

#[test]
fn the_last_bandwidth_of_a_cell_keeps_a_move_at_home() {
    play_default(|stage| async move {
        let first = server(&stage, Minimum { egress: 6_000_000, ..Minimum::default() }).await;
        let second = server(&stage, Minimum { egress: 6_000_000, ..Minimum::default() }).await;
        assert_ne!(stage.host_of(first).await, stage.host_of(second).await, "a bridge has 10 Gbit/s");
        stage.member.resize(first, "gen1.large").await.expect(202);
        stage.at_rest(first, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", first).await, "error");
        let action = stage.admin.speaking("2.84").action(first, "resize").await;
        assert!(
            action.to_string().contains("ports removed 1 (no provider of its network gives NET_BW_EGR_KILOBIT_PER_SEC 6000000"),
            "{action:#}"
        );
        let destinations = stage.admin.get(&format!("/ops/v1/servers/{first}/destinations")).await.expect(200).body;
        assert!(destinations.to_string().contains("no provider of its network gives"), "{destinations:#}");
        stage.cross(first).await;
        stage.confirm(first).await;
    });
}

/// Has the compute service of a host be of this version.
pub async fn has_version(stage: &Stage, host: &str, version: i32) {
    let cell = stage.cell(host.split('-').next().expect("a cell"));
    let mut service = cell.service_on(host, "nova-compute").await.expect("a service");
    service.version = version;
    cell.apply_unfenced(CellTxn::new().register_service(service)).await.expect("a change");
}

#[test]
fn a_host_with_an_older_service_is_never_chosen() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let source = stage.host_of(server).await;
        let other = if source == "cell1-host1" { "cell1-host2" } else { "cell1-host1" };
        has_version(&stage, other, 70).await;
        stage.admin.act(server, live(None)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "error");
        let action = stage.admin.speaking("2.84").action(server, "live-migration").await;
        assert!(action.to_string().contains("too old"), "{action:#}");
        expect(&stage, server, None, &settled(&source)).await;
        // The host takes servers whose ports ask for nothing.
        let plain = stage.create(stage.server()).await;
        stage.admin.migrate(plain, None).await.expect(202);
        stage.at_rest(plain, "VERIFY_RESIZE").await;
        has_version(&stage, other, 71).await;
    });
}

/// The operation, and the status in which it leaves the server.
fn operations_to(other: &str) -> [(Value, &'static str); 3] {
    [
        (json!({"migrate": {"host": other}}), "ACTIVE"),
        (json!({"resize": {"flavorRef": "gen1.large"}}), "ACTIVE"),
        (json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}), "ACTIVE"),
    ]
}

#[test]
fn no_operation_brings_such_a_port_to_an_older_host() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let source = stage.host_of(server).await;
        let others = ["cell1-host1", "cell1-host2", "cell2-host1", "cell2-host2"].into_iter().filter(|host| *host != source);
        for other in others.clone() {
            has_version(&stage, other, 70).await;
        }
        for other in others.clone() {
            for (action, status) in operations_to(other) {
                stage.admin.speaking("2.93").act(server, action).await.expect(202);
                stage.at_rest(server, status).await;
                expect(&stage, server, None, &settled(&source)).await;
            }
        }
        stage.force_down(&source, true).await;
        stage.admin.speaking("2.93").act(server, json!({"evacuate": {}})).await.expect(200);
        stage.ended(server).await;
        stage.force_down(&source, false).await;
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
        stage.admin.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        has_version(&stage, &source, 70).await;
        stage.admin.act(server, json!({"unshelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        expect(&stage, server, None, &[]).await;
        let asking = port(&stage, json!({"qos_policy_id": policy(&stage, FAST).await})).await;
        let refused =
            id_of(&stage.server().with("networks", json!([{"port": asking}])).ask(&stage.member).await.expect(202).body["server"]);
        stage.at_rest(refused, "ERROR").await;
        let plain = stage.create(stage.server()).await;
        let body = json!({"interfaceAttachment": {"port_id": asking}});
        let attach = stage.member.post(&format!("/servers/{plain}/os-interface"), body).await.expect(400);
        assert!(attach.message().contains("too old"), "{}", attach.text);
        assert_eq!(ledger(&stage, plain, None).await, [format!("port 0 ACTIVE on {}: nothing", stage.host_of(plain).await)]);
        for server in [refused, plain] {
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn a_revert_to_a_host_that_turned_old_writes_no_port() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let (source, before) = (stage.host_of(server).await, ports(&stage, server).await);
        stage.cross(server).await;
        let (target, migration) = (stage.host_of(server).await, stage.migrations("cell2", server).await.pop().expect("a migration").uuid);
        has_version(&stage, &source, 70).await;
        stage.member.revert(server).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        expect(&stage, server, Some(migration), &moved(&source, &target)).await;
        let action = stage.admin.speaking("2.84").action(server, "revertResize").await;
        assert!(action.to_string().contains("too old"), "{action:#}");
        has_version(&stage, &source, 71).await;
        stage.revert(server).await;
        expect(&stage, server, Some(migration), &settled(&source)).await;
        assert_eq!(ports(&stage, server).await[0].bindings[0].allocation(), before[0].bindings[0].allocation());
    });
}

#[test]
fn a_live_migration_needs_a_binding_for_each_host() {
    let old = |parts: &mut Parts| parts.network = Arc::new(EmbeddedNetwork::new(parts.services.clone()).without_extended_bindings());
    play_altered(
        |_| {},
        databases::place,
        old,
        |stage| async move {
            let server = server(&stage, FAST).await;
            let source = stage.host_of(server).await;
            stage.admin.act(server, live(None)).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.migration_status("cell1", server).await, "error");
            expect(&stage, server, None, &settled(&source)).await;
            let action = stage.admin.speaking("2.84").action(server, "live-migration").await;
            assert!(action.to_string().contains("binding-extended"), "{action:#}");
            stage.member.resize(server, "gen2.small").await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            expect(&stage, server, None, &settled(&source)).await;
        },
    );
}

/// Takes from a server what its ports have of its host's network, as if an older service had made it.
pub async fn assert_from_before(stage: &Stage, server: Uuid) {
    let services = &stage.running.cloud.services;
    for port in ports(stage, server).await {
        let host = port.bindings[0].host.clone();
        let profile: Attributes = json!({"profile": {}}).as_object().expect("an object").clone();
        services.network.update_binding(port.id, host, profile).await.expect("a binding");
    }
    let held = services.placement.allocations_of(server).await.expect("allocations").expect("an allocation");
    let allocations = held.allocations.clone().into_iter().filter(|(_, amounts)| amounts.contains_key("VCPU")).collect();
    services.placement.put_allocations(vec![Allocations { allocations, ..held }]).await.expect("a change");
}

#[test]
fn a_move_gives_a_server_from_before_its_bandwidth() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let source = stage.host_of(server).await;
        assert_from_before(&stage, server).await;
        let report = cellshift::chaos::audit::audit(stage.world()).await.expect("an audit");
        assert!(report.violations.iter().any(|one| one.message.contains("has no allocation")), "{report:#?}");
        stage.cross(server).await;
        let holdings = ledger(&stage, server, None).await;
        let target = stage.host_of(server).await;
        assert!(holdings.contains(&format!("port 0 INACTIVE on {source}: nothing")), "{holdings:#?}");
        assert!(
            holdings.iter().any(|line| line.starts_with(&format!("port 0 ACTIVE on {target}: {target}:Open vSwitch agent"))),
            "{holdings:#?}"
        );
        // A revert leads back to what there was.
        stage.revert(server).await;
        assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {source}: nothing")]);
        stage.admin.act(server, live(None)).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&stage.host_of(server).await)).await;
    });
}

#[test]
fn a_move_that_healed_a_server_is_confirmed() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        assert_from_before(&stage, server).await;
        stage.cross(server).await;
        stage.confirm(server).await;
        expect(&stage, server, None, &settled(&stage.host_of(server).await)).await;
    });
}

#[test]
fn a_revert_binds_a_lost_port_to_the_provider_that_it_had() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let (source, before) = (stage.host_of(server).await, ports(&stage, server).await);
        stage.cross(server).await;
        let (target, migration) = (stage.host_of(server).await, stage.migrations("cell2", server).await.pop().expect("a migration").uuid);
        expect(&stage, server, Some(migration), &moved(&source, &target)).await;
        // An administrator removes the binding that the revert would use.
        stage.running.cloud.services.network.remove_binding(before[0].id, source.clone()).await.expect("no binding");
        stage.revert(server).await;
        expect(&stage, server, Some(migration), &settled(&source)).await;
        assert_eq!(ports(&stage, server).await[0].bindings[0].allocation(), before[0].bindings[0].allocation());
    });
}

#[test]
fn other_keys_of_a_profile_go_along() {
    play_default(|stage| async move {
        let server = server(&stage, FAST).await;
        let port = ports(&stage, server).await[0].clone();
        let profile = port.bindings[0].profile.clone();
        let mut with_own = profile.clone();
        with_own["trusted"] = json!(true);
        let change: Attributes = json!({"profile": with_own}).as_object().expect("an object").clone();
        let host = port.bindings[0].host.clone();
        stage.running.cloud.services.network.update_binding(port.id, host, change).await.expect("a binding");
        stage.cross(server).await;
        stage.confirm(server).await;
        let moved: Value = ports(&stage, server).await[0].bindings[0].profile.clone();
        assert_eq!(moved["trusted"], json!(true));
        assert_ne!(moved["allocation"], profile["allocation"]);
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        let shown = stage.admin.get(&format!("/network/v2.0/ports/{}", port.id)).await.expect(200).body;
        assert!(shown["port"]["binding:profile"].get("allocation").is_none(), "{shown:#}");
    });
}
