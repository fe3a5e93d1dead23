//! Ports whose policies change while servers have them: what they ask for now counts from the next choice of a host on.

use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, ledger, policy, ports, server_with, settled};
use crate::stage::{Stage, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 0 };
const FASTER: Minimum = Minimum { egress: 3000, ingress: 1000, packets: 5 };

async fn server(stage: &Stage) -> (Uuid, String) {
    server_with(stage, FAST).await
}

/// Gives the server's port another policy, or none.
async fn set_policy(stage: &Stage, server: Uuid, policy: Value) {
    let port = ports(stage, server).await[0].id;
    stage.member.put(&format!("/network/v2.0/ports/{port}"), json!({"port": {"qos_policy_id": policy}})).await.expect(200);
}

async fn host_of(stage: &Stage, server: Uuid) -> String {
    stage.runs_on(server).await.pop_first().expect("a host")
}

#[test]
fn a_policy_that_is_gone_leaves_nothing_after_a_move() {
    play_default(|stage| async move {
        let (server, _) = server(&stage).await;
        set_policy(&stage, server, Value::Null).await;
        stage.cross(server).await;
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        let target = host_of(&stage, server).await;
        assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {target}: nothing")]);
    });
}

#[test]
fn a_larger_policy_is_charged_by_the_next_move() {
    play_default(|stage| async move {
        let (server, _) = server(&stage).await;
        let faster = policy(&stage, FASTER).await;
        set_policy(&stage, server, json!(faster)).await;
        stage.cross(server).await;
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&host_of(&stage, server).await)).await;
    });
}

#[test]
fn a_revert_after_a_larger_policy_can_be_healed() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        stage.cross(server).await;
        let faster = policy(&stage, FASTER).await;
        set_policy(&stage, server, json!(faster)).await;
        stage.member.revert(server).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(host_of(&stage, server).await, source);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
    });
}

#[test]
fn what_a_deleted_port_leaves_is_healed_or_gone_with_a_move() {
    play_default(|stage| async move {
        let (server, source) = server(&stage).await;
        let port = ports(&stage, server).await[0].id;
        stage.admin.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled(&source)).await;
        assert_eq!(ledger(&stage, server, None).await, Vec::<String>::new());
    });
}
