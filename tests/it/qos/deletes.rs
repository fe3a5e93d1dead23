//! Deletes of servers with guaranteed bandwidth in each state: nothing of any network stays held, bound or claimed.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, functions, policy, port_of};
use crate::client::id_of;
use crate::live_migration::live;
use crate::stage::{Stage, play};

const FAST: Minimum = Minimum { egress: 1000, ingress: 2000, packets: 0 };

fn stays_shelved(config: &mut Config) {
    config.compute.shelved_offload_time = -1;
}

async fn networks(stage: &Stage) -> Value {
    let policy = policy(stage, FAST).await;
    let mut networks = Vec::new();
    for kind in ["direct", "normal"] {
        networks.push(json!({"port": port_of(&stage.admin, json!({"qos_policy_id": policy, "binding:vnic_type": kind})).await}));
    }
    json!(networks)
}

async fn server(stage: &Stage) -> Uuid {
    let new = stage.server().flavor("m1.tiny").with("networks", networks(stage).await).on_host("cell1-host1");
    stage.create_by(&stage.admin, new).await
}

async fn act(stage: &Stage, server: Uuid, action: Value, status: &str) {
    stage.admin.speaking("2.93").act(server, action).await.expect(202);
    stage.at_rest(server, status).await;
}

/// Deletes the server, and checks that nothing of any network is left.
async fn goes(stage: &Stage, server: Uuid, what: &str) {
    stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
    stage.gone(server).await;
    expect(stage, server, None, &[]).await;
    assert!(functions(stage, server).await.is_empty(), "{what}");
    let report = cellshift::chaos::audit::audit(stage.world()).await.expect("an audit");
    assert!(report.violations.is_empty(), "{what}: {report:#?}");
}

#[test]
fn a_server_at_rest_is_deleted_with_all_that_its_ports_had() {
    play(stays_shelved, |stage| async move {
        let ways: [(&str, Vec<(Value, &str)>); 7] = [
            ("active", vec![]),
            ("stopped", vec![(json!({"os-stop": null}), "SHUTOFF")]),
            ("paused", vec![(json!({"pause": null}), "PAUSED")]),
            ("suspended", vec![(json!({"suspend": null}), "SUSPENDED")]),
            ("shelved", vec![(json!({"shelve": null}), "SHELVED")]),
            ("offloaded", vec![(json!({"shelve": null}), "SHELVED"), (json!({"shelveOffload": null}), "SHELVED_OFFLOADED")]),
            ("resized", vec![(json!({"migrate": {"host": "cell2-host1"}}), "VERIFY_RESIZE")]),
        ];
        for (what, actions) in ways {
            let server = server(&stage).await;
            for (action, status) in actions {
                act(&stage, server, action, status).await;
            }
            goes(&stage, server, what).await;
        }
        let new = stage.server().flavor("m1.tiny").with("networks", networks(&stage).await).on_host("cell1-host1");
        stage.refuse("prepare_guest");
        let failed = id_of(&new.ask(&stage.admin).await.expect(202).body["server"]);
        stage.at_rest(failed, "ERROR").await;
        stage.disarm();
        goes(&stage, failed, "failed at its boot").await;
    });
}

#[test]
fn an_evacuated_server_is_deleted_while_its_source_is_down() {
    play(stays_shelved, |stage| async move {
        let server = server(&stage).await;
        stage.force_down("cell1-host1", true).await;
        stage.admin.speaking("2.93").act(server, json!({"evacuate": {}})).await.expect(200);
        stage.at_rest(server, "ACTIVE").await;
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        stage.force_down("cell1-host1", false).await;
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        expect(&stage, server, None, &[]).await;
        assert!(functions(&stage, server).await.is_empty());
    });
}

#[test]
fn a_delete_directly_after_a_request_leaves_nothing() {
    play(stays_shelved, |stage| async move {
        for action in [
            json!({"migrate": {"host": "cell1-host2"}}),
            json!({"migrate": {"host": "cell2-host1"}}),
            live(Some("cell1-host2")),
            json!({"shelve": null}),
            json!({"reboot": {"type": "HARD"}}),
        ] {
            let server = server(&stage).await;
            stage.admin.speaking("2.93").act(server, action.clone()).await.expect(202);
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
            stage.paid(server).await;
            expect(&stage, server, None, &[]).await;
            assert!(functions(&stage, server).await.is_empty(), "{action}");
        }
    });
}
