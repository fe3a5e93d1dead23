//! Ports that are deleted at the network service while servers have them: each server gives up the interface, its virtual function and its
//! share of its host's network, and another server can have both.

use cellshift::chaos::point::Moment;
use cellshift::config::{Config, Seconds};
use serde_json::json;
use uuid::Uuid;

use super::networks::{Minimum, expect, functions, policy, port_of, ports, settled};
use crate::held::Held;
use crate::live_migration::live;
use crate::stage::{Stage, play, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 2000, packets: 0 };

fn looked_for(config: &mut Config) {
    config.compute.port_poll_interval = Seconds::whole(1);
}

/// Makes a server with a port of a physical function and one of a bridge.
async fn server(stage: &Stage) -> Uuid {
    let policy = policy(stage, FAST).await;
    let mut networks = Vec::new();
    for kind in ["direct", "normal"] {
        networks.push(json!({"port": port_of(&stage.admin, json!({"qos_policy_id": policy, "binding:vnic_type": kind})).await}));
    }
    let new = stage.server().flavor("m1.tiny").with("networks", json!(networks)).on_host("cell1-host1");
    let server = stage.create_by(&stage.admin, new).await;
    expect(stage, server, None, &settled("cell1-host1")).await;
    server
}

async fn delete_port(stage: &Stage, server: Uuid, kind: &str) {
    let rows = ports(stage, server).await;
    let port = rows.iter().find(|port| port.vnic_type == kind).expect("a port").id;
    stage.admin.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
}

/// Waits until the server has this many interfaces, and no operation.
async fn has_interfaces(stage: &Stage, server: Uuid, number: usize) {
    let count = || async {
        let Some(host) = stage.runs_on(server).await.pop_first() else { return false };
        stage.guest(&host, server).await.is_some_and(|guest| guest.ports.len() == number)
    };
    stage.until("the interface leaves the guest", count).await;
    stage.ended(server).await;
}

async fn audit_is_clean(stage: &Stage) {
    let report = cellshift::chaos::audit::audit(stage.world()).await.expect("an audit");
    assert!(report.violations.is_empty(), "{report:#?}");
}

#[test]
fn a_deleted_port_leaves_with_all_that_it_had() {
    play(looked_for, |stage| async move {
        let server = server(&stage).await;
        delete_port(&stage, server, "direct").await;
        has_interfaces(&stage, server, 1).await;
        assert!(functions(&stage, server).await.is_empty());
        expect(&stage, server, None, &settled("cell1-host1")).await;
        audit_is_clean(&stage).await;
        delete_port(&stage, server, "normal").await;
        has_interfaces(&stage, server, 0).await;
        expect(&stage, server, None, &settled("cell1-host1")).await;
        let left: Vec<String> = stage.allocations(server).await.into_keys().collect();
        assert_eq!(left, ["cell1-host1"], "it holds its host's own resources alone");
        audit_is_clean(&stage).await;
    });
}

#[test]
fn a_port_that_is_deleted_during_a_move_is_free_after_each_end() {
    play(looked_for, |stage| async move {
        for (end, kind) in [("revertResize", "direct"), ("revertResize", "normal"), ("confirmResize", "direct")] {
            let server = server(&stage).await;
            stage.admin.migrate(server, Some("cell2-host1")).await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            delete_port(&stage, server, kind).await;
            stage.admin.post(&format!("/servers/{server}/action"), json!({end: null})).await;
            stage.ended(server).await;
            has_interfaces(&stage, server, 1).await;
            let host = if end == "revertResize" { "cell1-host1" } else { "cell2-host1" };
            expect(&stage, server, None, &settled(host)).await;
            audit_is_clean(&stage).await;
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn a_port_that_is_deleted_under_way_is_free_at_both_hosts() {
    play(looked_for, |stage| async move {
        for step in ["bind_ports_at_target", "activate_target_ports", "release_source_ports"] {
            let server = server(&stage).await;
            let held = Held::at(&stage, step, Moment::BeforeEffect);
            stage.admin.act(server, live(Some("cell1-host2"))).await.expect(202);
            held.met().await;
            delete_port(&stage, server, "direct").await;
            held.release();
            stage.at_rest(server, "ACTIVE").await;
            stage.disarm();
            has_interfaces(&stage, server, 1).await;
            expect(&stage, server, None, &settled(&stage.host_of(server).await)).await;
            audit_is_clean(&stage).await;
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

/// The network service's own word comes before the next look.
#[test]
fn an_event_frees_what_a_deleted_port_had() {
    play_default(|stage| async move {
        let server = server(&stage).await;
        let port = ports(&stage, server).await.into_iter().find(|port| port.vnic_type == "direct").expect("a port").id;
        delete_port(&stage, server, "direct").await;
        let event = json!({"events": [{"name": "network-vif-deleted", "server_uuid": server, "tag": port}]});
        stage.admin.post("/os-server-external-events", event).await.expect(200);
        has_interfaces(&stage, server, 1).await;
        expect(&stage, server, None, &settled("cell1-host1")).await;
        audit_is_clean(&stage).await;
    });
}

/// A host that is down is not asked, and its server is looked at again when it is back.
#[test]
fn a_host_that_is_down_frees_the_function_when_it_is_back() {
    play(looked_for, |stage| async move {
        let server = server(&stage).await;
        stage.power("cell1-host1", false).await;
        delete_port(&stage, server, "direct").await;
        stage.power("cell1-host1", true).await;
        has_interfaces(&stage, server, 1).await;
        expect(&stage, server, None, &settled("cell1-host1")).await;
        audit_is_clean(&stage).await;
    });
}

/// An administrator may take a port's binding away. The next move binds the port again, and nothing stays behind.
#[test]
fn the_next_move_binds_and_charges_an_unbound_port() {
    play_default(|stage| async move {
        let server = server(&stage).await;
        for port in ports(&stage, server).await {
            let change = json!({"port": {"binding:host_id": "", "binding:profile": {}}});
            stage.admin.put(&format!("/network/v2.0/ports/{}", port.id), change).await.expect(200);
        }
        stage.admin.migrate(server, Some("cell1-host2")).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled("cell1-host2")).await;
        audit_is_clean(&stage).await;
    });
}
