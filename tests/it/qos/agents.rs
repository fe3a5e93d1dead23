//! The agents of hosts' networks: administrators see what each offers, and whether its host lives.

use serde_json::{Value, json};

use crate::stage::{Stage, play_default};

async fn agents(stage: &Stage, query: &str) -> Vec<Value> {
    let listed = stage.admin.get(&format!("/network/v2.0/agents{query}")).await.expect(200).body;
    listed["agents"].as_array().expect("agents").clone()
}

#[test]
fn each_host_has_an_agent_per_kind_of_network() {
    play_default(|stage| async move {
        let all = agents(&stage, "").await;
        assert_eq!(all.len(), 8, "{all:#?}");
        let list = agents(&stage, "?host=cell1-host1&agent_type=NIC%20Switch%20agent").await;
        assert_eq!(list.len(), 1, "{list:#?}");
        let configurations = &list[0]["configurations"];
        assert_eq!(configurations["device_mappings"], json!({"physnet0": ["ens1", "ens2"]}));
        assert_eq!(configurations["resource_provider_bandwidths"]["ens2"], json!({"egress": 10_000_000, "ingress": 10_000_000}));
        assert_eq!((&list[0]["binary"], &list[0]["alive"]), (&json!("neutron-sriov-nic-agent"), &json!(true)));
        let path = format!("/network/v2.0/agents/{}", list[0]["id"].as_str().expect("an id"));
        assert_eq!(stage.admin.get(&path).await.expect(200).body["agent"], list[0]);
        // As in Neutron, others learn of no agent.
        assert_eq!(stage.member.get("/network/v2.0/agents").await.expect(200).body, json!({"agents": []}));
        stage.member.get(&path).await.expect(404);
        stage.force_down("cell1-host1", true).await;
        assert_eq!(agents(&stage, "?alive=false").await.len(), 2);
        stage.force_down("cell1-host1", false).await;
    });
}
