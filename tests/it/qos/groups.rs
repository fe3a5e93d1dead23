//! Affinity groups whose members have guaranteed bandwidth: the room for all of it is reserved at the target before one goes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, give_bridges, policy, port_of, settled};
use crate::group_rules::make_group;
use crate::stage::{Stage, play_default};

const HOME: &str = "cell1-host1";
const THERE: &str = "cell1-host2";

/// Makes two members on cell1-host1, each with a port that asks for this much.
async fn pair(stage: &Stage, egress: i64) -> (Uuid, [Uuid; 2]) {
    give_bridges(stage).await;
    let policy = policy(stage, Minimum { egress, ..Minimum::default() }).await;
    let group = make_group(&stage.admin, "affinity", None).await;
    let mut two = [Uuid::nil(); 2];
    for member in &mut two {
        let port = port_of(&stage.admin, json!({"qos_policy_id": policy})).await;
        let new = stage.server().flavor("m1.tiny").with("networks", json!([{"port": port}])).in_group(group).on_host(HOME);
        *member = stage.create_by(&stage.admin, new).await;
    }
    (group, two)
}

async fn moves_to(stage: &Stage, group: Uuid, host: &str) -> Value {
    let path = format!("/ops/v1/server-groups/{group}/moves");
    stage.admin.post(&path, json!({"host": host})).await.expect(202);
    let latest = async || stage.admin.get(&path).await.expect(200).body["moves"][0].clone();
    stage.until("the group's move ends", async || latest().await["open"] == false).await;
    latest().await
}

#[test]
fn a_group_takes_the_bandwidth_of_all_members_along() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage, 4_000_000).await;
        let report = moves_to(&stage, group, THERE).await;
        assert_eq!(report["state"], "done", "{report:#}");
        for server in two {
            stage.at_rest(server, "ACTIVE").await;
            stage.paid(server).await;
            let ports = super::networks::ports(&stage, server).await;
            assert_eq!(ports[0].bindings.iter().map(|binding| binding.host.as_str()).collect::<Vec<_>>(), [THERE]);
        }
        // The member that stays is charged alone once the other is gone.
        stage.admin.delete(&format!("/servers/{}", two[1])).await.expect(204);
        stage.gone(two[1]).await;
        expect(&stage, two[0], None, &settled(THERE)).await;
    });
}

#[test]
fn a_group_stays_if_the_target_lacks_bandwidth_for_all() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage, 4_000_000).await;
        // A stranger takes what one of them would need.
        let policy = policy(&stage, Minimum { egress: 4_000_000, ..Minimum::default() }).await;
        let port = port_of(&stage.admin, json!({"qos_policy_id": policy})).await;
        let new = stage.server().flavor("m1.tiny").with("networks", json!([{"port": port}])).on_host(THERE);
        stage.create_by(&stage.admin, new).await;
        let report = moves_to(&stage, group, THERE).await;
        assert_eq!(report["state"], "refused", "{report:#}");
        assert!(report["reason"].as_str().is_some_and(|why| why.contains("cannot give what all ports ask for")), "{report:#}");
        for server in two {
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.runs_on(server).await.pop_first().as_deref(), Some(HOME));
        }
    });
}
