//! Refused requests change nothing.

use serde_json::{Value, json};

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

const GONE: &str = "11111111-2222-3333-4444-555555555555";

async fn groups_of(stage: &Stage, project: &str) -> Vec<Value> {
    let path = format!("/network/v2.0/security-groups?project_id={project}");
    stage.admin.get(&path).await.expect(200).body["security_groups"].as_array().expect("groups").clone()
}

/// Requests of a project without resources; each is refused.
async fn refused(stage: &Stage, user: &User) {
    let network = stage.admin.post("/network/v2.0/networks", json!({"network": {"name": "theirs"}})).await.expect(201).body;
    let theirs = network["network"]["id"].clone();
    let new = || stage.server().with("security_groups", json!([{"name": "default"}]));
    for (path, body) in [
        ("/network/v2.0/ports", json!({"port": {"network_id": GONE}})),
        ("/network/v2.0/ports", json!({"port": {"network_id": theirs}})),
        ("/network/v2.0/ports", json!({"port": {"name": 7}})),
        ("/network/v2.0/security-groups", json!({"security_group": {"name": "default"}})),
        ("/network/v2.0/security-groups", json!({"security_group": {"name": "web", "stateful": "maybe"}})),
        ("/servers", new().with("key_name", json!("none")).body()),
        ("/servers", new().with("imageRef", json!(GONE)).body()),
        ("/servers", new().with("availability_zone", json!("nowhere")).body()),
        ("/servers", stage.server().with("security_groups", json!([{"name": "web"}])).body()),
    ] {
        let answer = user.post(path, body.clone()).await;
        assert!((400..500).contains(&answer.status), "{path} {body}: {}", answer.text);
    }
}

#[test]
fn a_refused_request_leaves_no_default_group() {
    play_default(|stage| async move {
        let user = stage.user("fresh", "fresh", "member").await;
        let project = stage.running.cloud.services.identity.ensure_project("fresh").await.expect("a project").id;
        refused(&stage, &user).await;
        assert_eq!(groups_of(&stage, &project).await, Vec::<Value>::new());
        // With its first server the project has the group that the request named.
        let server = stage.create_by(&user, stage.server().with("security_groups", json!([{"name": "default"}]))).await;
        let groups = groups_of(&stage, &project).await;
        assert_eq!((groups.len(), &groups[0]["name"]), (1, &json!("default")));
        let shown = user.get(&format!("/servers/{server}/os-security-groups")).await.expect(200).body;
        assert_eq!(shown["security_groups"][0]["id"], json!(id_of(&groups[0])));
        user.delete(&format!("/servers/{server}")).await.expect(204);
        stage.until("it is gone", || async { user.get(&format!("/servers/{server}")).await.status == 404 }).await;
    });
}

#[test]
fn no_quota_is_stored_for_a_project_that_is_not() {
    play_default(|stage| async move {
        let path = "/network/v2.0/quotas/no-such-project";
        stage.admin.put(path, json!({"quota": {"network": 1}})).await.expect(400);
        for below in ["", "/default", "/details"] {
            stage.admin.get(&format!("{path}{below}")).await.expect(400);
        }
        let stored = stage.admin.get("/network/v2.0/quotas").await.expect(200).body;
        assert_eq!(stored["quotas"], json!([]));
        stage.admin.get("/volume/v3/os-quota-sets/no-such-project/defaults").await.expect(400);
    });
}
