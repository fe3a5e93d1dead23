//! The hosts of an aggregate are members of the aggregate with the same uuid in Placement.

use serde_json::{Value, json};

use crate::client::User;
use crate::stage::{Stage, play_default};

/// An aggregate that an operator has set in Placement alone.
const OWN: &str = "0f0f0f0f-1111-2222-3333-444444444444";
const HOST: &str = "cell1-host1";

fn operator(stage: &Stage) -> User {
    stage.admin.speaking("2.90, placement 1.39")
}

/// Returns the names of the aggregate's members by Placement's list of providers.
async fn members(stage: &Stage, aggregate: &str) -> Vec<String> {
    let path = format!("/placement/resource_providers?member_of={aggregate}");
    let list = operator(stage).get(&path).await.expect(200).body;
    list["resource_providers"].as_array().expect("providers").iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

/// Returns the number of Placement's candidates among the aggregate's members.
async fn candidates(stage: &Stage, aggregate: &str) -> usize {
    let path = format!("/placement/allocation_candidates?resources=VCPU:1&member_of={aggregate}");
    operator(stage).get(&path).await.expect(200).body["allocation_requests"].as_array().expect("candidates").len()
}

/// Returns the path and the body of Placement's list of the host's aggregates.
async fn listed(stage: &Stage) -> (String, Value) {
    let list = operator(stage).get(&format!("/placement/resource_providers?name={HOST}")).await.expect(200).body;
    let path = format!("/placement/resource_providers/{}/aggregates", list["resource_providers"][0]["uuid"].as_str().expect("a uuid"));
    let body = operator(stage).get(&path).await.expect(200).body;
    (path, body)
}

/// Makes an aggregate. Returns its number and uuid.
async fn make(stage: &Stage, name: &str) -> (i64, String) {
    let made = stage.admin.post("/os-aggregates", json!({"aggregate": {"name": name}})).await.expect(200).body;
    let made = &made["aggregate"];
    (made["id"].as_i64().expect("an id"), made["uuid"].as_str().expect("a uuid").to_owned())
}

async fn act(stage: &Stage, (id, _): &(i64, String), action: &str, status: u16) {
    stage.admin.post(&format!("/os-aggregates/{id}/action"), json!({action: {"host": HOST}})).await.expect(status);
}

#[test]
fn a_host_of_an_aggregate_is_its_member_in_placement() {
    play_default(|stage| async move {
        let (path, mut before) = listed(&stage).await;
        // Placement keeps the spelling of an operator's own aggregate.
        before["aggregates"] = json!([OWN]);
        operator(&stage).put(&path, before).await.expect(200);
        let (first, second) = (make(&stage, "first").await, make(&stage, "second").await);
        assert_eq!((members(&stage, &first.1).await, candidates(&stage, &first.1).await), (vec![], 0));
        act(&stage, &first, "add_host", 200).await;
        act(&stage, &second, "add_host", 200).await;
        let (_, added) = listed(&stage).await;
        for aggregate in [OWN, &first.1, &second.1] {
            assert_eq!((members(&stage, aggregate).await, candidates(&stage, aggregate).await), (vec![HOST.to_owned()], 1), "{aggregate}");
        }
        // A refused request changes nothing, and a new name keeps the uuid.
        act(&stage, &first, "add_host", 409).await;
        stage.admin.put(&format!("/os-aggregates/{}", first.0), json!({"aggregate": {"name": "renamed"}})).await.expect(200);
        stage.admin.delete(&format!("/os-aggregates/{}", first.0)).await.expect(400);
        assert_eq!(listed(&stage).await.1, added);
        act(&stage, &first, "remove_host", 200).await;
        assert_eq!((members(&stage, &first.1).await, candidates(&stage, &first.1).await), (vec![], 0));
        assert_eq!((members(&stage, OWN).await.len(), members(&stage, &second.1).await.len()), (1, 1), "the others stay");
        let (_, removed) = listed(&stage).await;
        let generation = |body: &Value| body["resource_provider_generation"].as_i64().expect("a generation");
        assert!(generation(&removed) > generation(&added), "a writer that has read the former list is refused");
        act(&stage, &first, "remove_host", 404).await;
        stage.admin.delete(&format!("/os-aggregates/{}", first.0)).await.expect(200);
        assert_eq!(listed(&stage).await.1, removed);
    });
}

#[test]
fn a_host_leaves_an_aggregate_that_its_provider_has_lost() {
    play_default(|stage| async move {
        let aggregate = make(&stage, "lost").await;
        act(&stage, &aggregate, "add_host", 200).await;
        let (path, mut body) = listed(&stage).await;
        body["aggregates"] = json!([]);
        operator(&stage).put(&path, body).await.expect(200);
        act(&stage, &aggregate, "remove_host", 200).await;
        act(&stage, &aggregate, "add_host", 200).await;
        assert_eq!(members(&stage, &aggregate.1).await, [HOST]);
        // The service of a host that is gone for good takes the host out of its aggregates.
        let services = stage.admin.get(&format!("/os-services?host={HOST}&binary=nova-compute")).await.expect(200).body;
        let service = services["services"][0]["id"].as_str().expect("an id").to_owned();
        stage.admin.delete(&format!("/os-services/{service}")).await.expect(204);
        assert_eq!(members(&stage, &aggregate.1).await, Vec::<String>::new());
    });
}
