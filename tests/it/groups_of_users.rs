//! Groups of users: their members have their roles, as long as they are members.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::stage::{Stage, play_default};

const V3: &str = "/identity/v3";

async fn make(stage: &Stage, collection: &str, kind: &str, record: Value) -> String {
    let made = stage.admin.post(&format!("{V3}/{collection}"), json!({ kind: record })).await.expect(201);
    made.body[kind]["id"].as_str().expect("an id").to_owned()
}

async fn role(stage: &Stage, name: &str) -> String {
    stage.running.cloud.services.identity.ensure_role(name).await.expect("a role").id
}

/// Asks for a token with a password for a project.
async fn sign_in(stage: &Stage, name: &str, project: &str) -> Answer {
    let user = json!({"name": name, "domain": {"id": "default"}, "password": "a password"});
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    let auth = json!({"auth": {"identity": identity, "scope": {"project": {"id": project}}}});
    stage.member.post(&format!("{V3}/auth/tokens"), auth).await
}

/// A new user without roles, in a new group, and a new project.
struct Furnished {
    user: String,
    group: String,
    project: String,
}

async fn furnished(stage: &Stage) -> Furnished {
    let user = make(stage, "users", "user", json!({"name": "rhea", "password": "a password"})).await;
    let group = make(stage, "groups", "group", json!({"name": "operators", "domain_id": "default"})).await;
    let project = make(stage, "projects", "project", json!({"name": "elsewhere"})).await;
    stage.admin.put(&format!("{V3}/groups/{group}/users/{user}"), Value::Null).await.expect(204);
    Furnished { user, group, project }
}

#[test]
fn a_group_is_made_changed_filled_and_deleted() {
    play_default(|stage| async move {
        let Furnished { user, group, .. } = furnished(&stage).await;
        let admin = &stage.admin;
        let one = format!("{V3}/groups/{group}");
        let shown = admin.get(&one).await.expect(200).body["group"].clone();
        assert_eq!((&shown["name"], &shown["description"], &shown["domain_id"]), (&json!("operators"), &json!(""), &json!("default")));
        let changed = admin.patch(&one, json!({"group": {"name": "crew", "description": "all of us"}})).await.expect(200);
        assert_eq!((&changed.body["group"]["name"], &changed.body["group"]["description"]), (&json!("crew"), &json!("all of us")));
        for (query, count) in [("", 1), ("?name=crew", 1), ("?name=operators", 0), ("?domain_id=default", 1), ("?domain_id=other", 0)] {
            let listed = admin.get(&format!("{V3}/groups{query}")).await.expect(200).body;
            assert_eq!(listed["groups"].as_array().map(Vec::len), Some(count), "{query}");
        }
        let (members, member) = (format!("{one}/users"), format!("{one}/users/{user}"));
        admin.put(&member, Value::Null).await.expect(204);
        admin.get(&member).await.expect(204);
        assert_eq!(admin.get(&members).await.expect(200).body["users"][0]["name"], "rhea");
        assert_eq!(admin.get(&format!("{members}?name=other")).await.expect(200).body["users"], json!([]));
        let of_user = admin.get(&format!("{V3}/users/{user}/groups")).await.expect(200).body;
        assert_eq!(of_user["groups"][0]["id"], json!(group));

        for (record, status) in [
            (json!({"name": "crew"}), 409),
            (json!({}), 400),
            (json!({"name": ""}), 400),
            (json!({"name": "x".repeat(256)}), 400),
            (json!({"name": "a\u{0}b"}), 400),
            (json!({"name": "another", "domain_id": "other"}), 404),
        ] {
            admin.post(&format!("{V3}/groups"), json!({"group": record})).await.expect(status);
        }
        admin.put(&format!("{one}/users/nobody"), Value::Null).await.expect(404);
        admin.put(&format!("{V3}/groups/none/users/{user}"), Value::Null).await.expect(404);
        admin.get(&format!("{V3}/groups/%00/users/{user}")).await.expect(404);
        admin.delete(&member).await.expect(204);
        admin.delete(&member).await.expect(404);
        admin.get(&member).await.expect(404);
        admin.put(&member, Value::Null).await.expect(204);
        admin.delete(&one).await.expect(204);
        admin.get(&one).await.expect(404);
        assert_eq!(admin.get(&format!("{V3}/users/{user}/groups")).await.expect(200).body["groups"], json!([]));
    });
}

#[test]
fn members_have_the_groups_roles_until_they_leave() {
    play_default(|stage| async move {
        let Furnished { user, group, project } = furnished(&stage).await;
        let (admin, member) = (&stage.admin, role(&stage, "member").await);
        let grant = format!("{V3}/projects/{project}/groups/{group}/roles/{member}");
        let membership = format!("{V3}/groups/{group}/users/{user}");
        sign_in(&stage, "rhea", &project).await.expect(401);
        admin.get(&grant).await.expect(404);
        admin.put(&grant, Value::Null).await.expect(204);
        admin.get(&grant).await.expect(204);
        let granted = admin.get(&format!("{V3}/projects/{project}/groups/{group}/roles")).await.expect(200).body;
        assert_eq!(granted["roles"][0]["name"], "member");

        let enter = async || {
            let answer = sign_in(&stage, "rhea", &project).await.expect(201);
            let names: Vec<&str> =
                answer.body["token"]["roles"].as_array().expect("roles").iter().filter_map(|r| r["name"].as_str()).collect();
            assert_eq!(names, ["member", "reader"]);
            stage.member.with_token_of(&answer)
        };
        let rhea = enter().await;
        rhea.get("/servers").await.expect(200);
        assert_eq!(rhea.get(&format!("{V3}/auth/projects")).await.expect(200).body["projects"][0]["id"], json!(project));
        let credential = json!({"application_credential": {"name": "robot"}});
        let path = format!("{V3}/users/{user}/application_credentials");
        let robot = rhea.post(&path, credential).await.expect(201).body["application_credential"].clone();
        let proof =
            json!({"methods": ["application_credential"], "application_credential": {"id": robot["id"], "secret": robot["secret"]}});
        let robot = async || stage.member.post(&format!("{V3}/auth/tokens"), json!({"auth": {"identity": proof}})).await;
        robot().await.expect(201);

        // A member who leaves loses the tokens for good, and the credential gives nothing meanwhile.
        admin.delete(&membership).await.expect(204);
        rhea.get("/servers").await.expect(401);
        sign_in(&stage, "rhea", &project).await.expect(401);
        robot().await.expect(401);
        admin.put(&membership, Value::Null).await.expect(204);
        rhea.get("/servers").await.expect(401);
        robot().await.expect(201);
        let rhea = enter().await;

        admin.delete(&grant).await.expect(204);
        admin.delete(&grant).await.expect(404);
        rhea.get("/servers").await.expect(401);
        admin.put(&grant, Value::Null).await.expect(204);
        rhea.get("/servers").await.expect(401);
        let rhea = enter().await;

        admin.delete(&format!("{V3}/groups/{group}")).await.expect(204);
        rhea.get("/servers").await.expect(401);
        sign_in(&stage, "rhea", &project).await.expect(401);
    });
}

#[test]
fn a_group_can_rule_the_system() {
    play_default(|stage| async move {
        let Furnished { group, .. } = furnished(&stage).await;
        let (admin, ruler) = (&stage.admin, role(&stage, "admin").await);
        let system = json!({"system": {"all": true}});
        let user = json!({"name": "rhea", "domain": {"id": "default"}, "password": "a password"});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let enter =
            async || stage.member.post(&format!("{V3}/auth/tokens"), json!({"auth": {"identity": identity, "scope": system}})).await;
        enter().await.expect(401);
        let grant = format!("{V3}/system/groups/{group}/roles/{ruler}");
        admin.put(&grant, Value::Null).await.expect(204);
        let rhea = stage.member.with_token_of(&enter().await.expect(201));
        rhea.get(&format!("{V3}/users")).await.expect(200);
        assert_eq!(rhea.get(&format!("{V3}/auth/system")).await.expect(200).body["system"], json!([{"all": true}]));
        admin.delete(&grant).await.expect(204);
        rhea.get(&format!("{V3}/users")).await.expect(401);
        let domain = format!("{V3}/domains/default/groups/{group}/roles/{ruler}");
        admin.put(&domain, Value::Null).await.expect(204);
        admin.get(&domain).await.expect(204);
        admin.put(&format!("{V3}/domains/other/groups/{group}/roles/{ruler}"), Value::Null).await.expect(404);
        admin.put(&format!("{V3}/system/groups/none/roles/{ruler}"), Value::Null).await.expect(404);
    });
}

#[test]
fn assignments_show_groups_and_what_their_members_have() {
    play_default(|stage| async move {
        let Furnished { user, group, project } = furnished(&stage).await;
        let (admin, member, reader) = (&stage.admin, role(&stage, "member").await, role(&stage, "reader").await);
        admin.put(&format!("{V3}/projects/{project}/groups/{group}/roles/{member}"), Value::Null).await.expect(204);
        admin.put(&format!("{V3}/projects/{project}/users/{user}/roles/{reader}"), Value::Null).await.expect(204);
        let list = async |query: String| {
            let listed = admin.get(&format!("{V3}/role_assignments?{query}")).await.expect(200).body;
            listed["role_assignments"].as_array().expect("a list").clone()
        };
        let direct = list(format!("scope.project.id={project}&include_names")).await;
        assert_eq!(direct.len(), 2, "{direct:?}");
        assert_eq!((&direct[0]["user"]["name"], &direct[1]["group"]["name"]), (&json!("rhea"), &json!("operators")));
        assert_eq!(direct[1]["group"]["domain"]["id"], "default");
        let link = direct[1]["links"]["assignment"].as_str().expect("a link");
        assert!(link.ends_with(&format!("/projects/{project}/groups/{group}/roles/{member}")), "{link}");
        assert_eq!(list(format!("group.id={group}&role.id={member}")).await.len(), 1);
        assert_eq!(list(format!("group.id={group}&role.id={reader}")).await.len(), 0);
        assert_eq!(list(format!("user.id={user}")).await.len(), 1);

        let effective = list(format!("effective&user.id={user}")).await;
        let seen: Vec<(&Value, bool)> = effective.iter().map(|one| (&one["role"]["id"], one["links"]["membership"].is_string())).collect();
        assert_eq!(seen, [(&json!(reader), false), (&json!(member), true)], "its own role is not ascribed to the group");
        assert!(effective.iter().all(|one| one.get("group").is_none() && one["scope"]["project"]["id"] == json!(project)));
        let membership = effective[1]["links"]["membership"].as_str().expect("a link");
        assert!(membership.ends_with(&format!("/groups/{group}/users/{user}")), "{membership}");
        for contradiction in [
            "user.id=a&group.id=b",
            "effective&group.id=b",
            "scope.project.id=a&scope.domain.id=default",
            "scope.project.id=a&scope.system=all",
            "scope.domain.id=default&scope.system=all",
        ] {
            admin.get(&format!("{V3}/role_assignments?{contradiction}")).await.expect(400);
        }
    });
}

#[test]
fn what_is_deleted_takes_the_groups_roles_along() {
    play_default(|stage| async move {
        let Furnished { user, group, project } = furnished(&stage).await;
        let (admin, observer) = (&stage.admin, role(&stage, "observer").await);
        let path = |target: &str, role: &str| format!("{V3}/{target}/groups/{group}/roles/{role}");
        admin.put(&path(&format!("projects/{project}"), &observer), Value::Null).await.expect(204);
        let rhea = stage.member.with_token_of(&sign_in(&stage, "rhea", &project).await.expect(201));
        rhea.get(&format!("{V3}/projects/{project}")).await.expect(200);
        admin.delete(&format!("{V3}/roles/{observer}")).await.expect(204);
        rhea.get(&format!("{V3}/projects/{project}")).await.expect(401);
        let member = role(&stage, "member").await;
        admin.put(&path(&format!("projects/{project}"), &member), Value::Null).await.expect(204);
        admin.delete(&format!("{V3}/projects/{project}")).await.expect(204);
        let left = admin.get(&format!("{V3}/role_assignments?group.id={group}")).await.expect(200).body;
        assert_eq!(left["role_assignments"], json!([]));
        admin.delete(&format!("{V3}/users/{user}")).await.expect(204);
        assert_eq!(admin.get(&format!("{V3}/groups/{group}/users")).await.expect(200).body["users"], json!([]));
    });
}
