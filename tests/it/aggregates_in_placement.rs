//! The hosts of an aggregate are members of the aggregate with the same uuid in Placement.

use cellshift::domain::aggregate::Aggregate;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::User;
use crate::cloud::Cloud;
use crate::command_reach::run_with;
use crate::service::Service;
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

/// Returns the sample aggregate with this name.
async fn sample(stage: &Stage, name: &str) -> Aggregate {
    let aggregates = stage.world().api.aggregates().await.expect("aggregates");
    aggregates.into_iter().find(|aggregate| aggregate.name == name).expect("the sample")
}

/// Takes the host's provider out of all aggregates.
async fn forget_all(stage: &Stage) {
    let (path, mut body) = listed(stage).await;
    body["aggregates"] = json!([]);
    operator(stage).put(&path, body).await.expect(200);
}

#[test]
fn new_hosts_are_in_their_sample_aggregates() {
    play_default(|stage| async move {
        for (name, hosts) in [("cell1", ["cell1-host1", "cell1-host2"]), ("gen2", ["cell2-host1", "cell2-host2"])] {
            assert_eq!(members(&stage, &sample(&stage, name).await.uuid.to_string()).await, hosts);
        }
    });
}

#[test]
fn an_operator_adds_aggregates_that_placement_lacks() {
    play_default(|stage| async move {
        let sync = async |body: Value| stage.admin.post("/ops/v1/aggregates/sync", body).await.expect(200).body;
        let nothing = |is_tried: bool| json!({"dry_run": is_tried, "added": [], "unmapped": [], "without_provider": []});
        assert_eq!(sync(json!({"dry_run": true})).await, nothing(true));
        let (_, before) = listed(&stage).await;
        forget_all(&stage).await;
        // Only the operator's own aggregate, which stays, and a host of another that is nowhere.
        let (path, mut body) = listed(&stage).await;
        body["aggregates"] = json!([OWN]);
        operator(&stage).put(&path, body).await.expect(200);
        stage.world().api.add_aggregate_host(sample(&stage, "gen2").await.id, "nowhere").await.expect("a member");

        let tried = sync(json!({"dry_run": true})).await;
        let (cell1, gen1) = (sample(&stage, "cell1").await, sample(&stage, "gen1").await);
        let missing = [&cell1, &gen1].map(|one| json!({"aggregate": one.uuid, "name": one.name, "host": HOST}));
        assert_eq!(tried["added"].as_array().map(Vec::len), Some(2), "{tried:#}");
        assert!(missing.iter().all(|one| tried["added"].as_array().is_some_and(|added| added.contains(one))), "{tried:#}");
        assert_eq!(listed(&stage).await.1["aggregates"], json!([OWN]), "a dry run changes nothing");
        let synced = sync(json!({})).await;
        assert_eq!((&synced["added"], &synced["unmapped"]), (&tried["added"], &json!(["nowhere"])));
        for aggregate in [OWN.to_owned(), cell1.uuid.to_string(), gen1.uuid.to_string()] {
            assert!(members(&stage, &aggregate).await.contains(&HOST.to_owned()), "{aggregate}");
        }
        let (_, after) = listed(&stage).await;
        let generation = |body: &Value| body["resource_provider_generation"].as_i64().expect("a generation");
        assert!(generation(&after) > generation(&before), "a writer that has read the former list is refused");
        assert_eq!(sync(json!({})).await["added"], json!([]));
        stage.world().api.remove_aggregate_host(sample(&stage, "gen2").await.id, "nowhere").await.expect("no member");
        stage.member.post("/ops/v1/aggregates/sync", json!({})).await.expect(403);
        stage.admin.post("/ops/v1/aggregates/sync", json!({"dry": true})).await.expect(400);
    });
}

#[actix_rt::test]
async fn a_start_adds_what_placement_lacks() {
    let mut cloud = Cloud::start().await;
    let members = async |cloud: &Cloud, aggregate: Uuid| {
        let providers = cloud.world().placement.providers().await.expect("providers");
        providers.iter().filter(|provider| provider.aggregates.iter().any(|member_of| member_of.id() == aggregate)).count()
    };
    let aggregates = cloud.world().api.aggregates().await.expect("aggregates");
    let cell1 = aggregates.iter().find(|aggregate| aggregate.name == "cell1").expect("the sample").uuid;
    assert_eq!(members(&cloud, cell1).await, 2);
    cloud.world().placement.set_member(HOST, cell1, false).await.expect("no member");
    assert_eq!(members(&cloud, cell1).await, 1);
    cloud.restart();
    assert_eq!(members(&cloud, cell1).await, 2);
    assert_eq!(cloud.audit().await, Vec::<String>::new());
}

#[test]
fn aggregates_are_synchronised_on_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    let service = Service::start(dir.path(), &[]);
    let run = |arguments: &[&str]| run_with(&[], &[&["sync-aggregates"], arguments, &["--data-dir", data]].concat());
    let synced = run(&["--dry-run"]);
    assert_eq!((synced.code, synced.stdout.as_str()), (Some(0), "Placement has every host in its aggregates.\n"), "{}", synced.stderr);
    let json: Value = serde_json::from_str(&run(&["-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["added"], json!([]));
    service.stop();
}
