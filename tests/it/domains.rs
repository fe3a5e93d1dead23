//! Domains: each has its own users, groups and projects, a manager of its own, and an end.

use serde_json::{Value, json};

use crate::client::{Answer, User};
use crate::stage::{Stage, play_default};

const V3: &str = "/identity/v3";
const PASSWORD: &str = "a password";

async fn make(by: &User, collection: &str, kind: &str, record: Value) -> String {
    let made = by.post(&format!("{V3}/{collection}"), json!({ kind: record })).await.expect(201);
    made.body[kind]["id"].as_str().expect("an id").to_owned()
}

async fn role(stage: &Stage, name: &str) -> String {
    stage.running.cloud.services.identity.ensure_role(name).await.expect("a role").id
}

/// Asks for a token with a password.
async fn sign_in(stage: &Stage, user: Value, scope: Value) -> Answer {
    let mut user = user;
    user["password"] = json!(PASSWORD);
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    stage.member.post(&format!("{V3}/auth/tokens"), json!({"auth": {"identity": identity, "scope": scope}})).await
}

/// A domain with a user who has this role in it and in its project.
struct Furnished {
    domain: String,
    user: String,
    project: String,
}

async fn furnished(stage: &Stage, name: &str, held: &str) -> Furnished {
    let (admin, held) = (&stage.admin, role(stage, held).await);
    let domain = make(admin, "domains", "domain", json!({"name": name})).await;
    let user = make(admin, "users", "user", json!({"name": "rhea", "password": PASSWORD, "domain_id": domain})).await;
    let project = make(admin, "projects", "project", json!({"name": "lab", "domain_id": domain})).await;
    for target in [format!("domains/{domain}"), format!("projects/{project}")] {
        admin.put(&format!("{V3}/{target}/users/{user}/roles/{held}"), Value::Null).await.expect(204);
    }
    Furnished { domain, user, project }
}

#[test]
fn names_are_unique_within_their_domain_alone() {
    play_default(|stage| async move {
        let (one, other) = (furnished(&stage, "one", "member").await, furnished(&stage, "other", "member").await);
        let admin = &stage.admin;
        for (collection, kind, record) in [
            ("users", "user", json!({"name": "rhea", "domain_id": one.domain})),
            ("projects", "project", json!({"name": "lab", "domain_id": one.domain})),
            ("domains", "domain", json!({"name": "one"})),
        ] {
            admin.post(&format!("{V3}/{collection}"), json!({ kind: record })).await.expect(409);
        }
        make(admin, "groups", "group", json!({"name": "crew", "domain_id": one.domain})).await;
        make(admin, "groups", "group", json!({"name": "crew", "domain_id": other.domain})).await;
        let listed = admin.get(&format!("{V3}/users?name=rhea&domain_id={}", other.domain)).await.expect(200).body;
        assert_eq!((listed["users"][0]["id"].as_str(), listed["users"].as_array().map(Vec::len)), (Some(other.user.as_str()), Some(1)));
        let moved = json!({"user": {"domain_id": other.domain}});
        admin.patch(&format!("{V3}/users/{}", one.user), moved).await.expect(400);
        let nowhere = json!({"project": {"name": "lab", "domain_id": "nowhere"}});
        admin.post(&format!("{V3}/projects"), nowhere).await.expect(404);

        // Two accounts of one name in two domains are told apart, whether the domain is named by name or by id.
        let by_name = sign_in(&stage, json!({"name": "rhea", "domain": {"name": "one"}}), json!({"domain": {"name": "one"}})).await;
        let token = by_name.expect(201).body["token"].clone();
        assert_eq!(
            token["user"],
            json!({"id": one.user, "name": "rhea", "domain": {"id": one.domain, "name": "one"}, "password_expires_at": null})
        );
        assert_eq!(token["domain"], json!({"id": one.domain, "name": "one"}));
        let lab = json!({"project": {"name": "lab", "domain": {"id": other.domain}}});
        let user = |domain: &str| json!({"name": "rhea", "domain": {"id": domain}});
        let by_id = sign_in(&stage, user(&other.domain), lab.clone()).await.expect(201).body["token"].clone();
        assert_eq!(by_id["project"], json!({"id": other.project, "name": "lab", "domain": {"id": other.domain, "name": "other"}}));
        sign_in(&stage, user(&one.domain), lab).await.expect(401);
        sign_in(&stage, user("one"), json!({"domain": {"name": "one"}})).await.expect(401);
        sign_in(&stage, user("nowhere"), Value::Null).await.expect(401);
    });
}

#[test]
fn projects_are_tagged_and_found_by_tags() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let lab = make(admin, "projects", "project", json!({"name": "lab", "tags": ["red", "green"]})).await;
        let hall = make(admin, "projects", "project", json!({"name": "hall"})).await;
        let tags = format!("{V3}/projects/{hall}/tags");
        assert_eq!(admin.put(&tags, json!({"tags": ["green", "blue"]})).await.expect(200).body["tags"], json!(["green", "blue"]));
        admin.put(&format!("{tags}/white"), Value::Null).await.expect(201);
        admin.put(&format!("{tags}/white"), Value::Null).await.expect(201);
        admin.delete(&format!("{tags}/blue")).await.expect(204);
        admin.delete(&format!("{tags}/blue")).await.expect(404);
        admin.get(&format!("{tags}/blue")).await.expect(404);
        assert_eq!(admin.get(&tags).await.expect(200).body["tags"], json!(["green", "white"]));
        for (query, expected) in [
            ("tags=green", vec!["hall", "lab"]),
            ("tags=green,red", vec!["lab"]),
            ("tags-any=white,red", vec!["hall", "lab"]),
            ("tags=green&not-tags=green,red", vec!["hall"]),
            ("tags=green&not-tags-any=white", vec!["lab"]),
        ] {
            let listed = admin.get(&format!("{V3}/projects?{query}")).await.expect(200).body;
            let names: Vec<&str> = listed["projects"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
            assert_eq!(names, expected, "{query}");
        }
        for wrong in
            [json!(["a", "a"]), json!(["a/b"]), json!(["a,b"]), json!([""]), json!(["x".repeat(256)]), json!(vec!["x"; 81]), json!("a")]
        {
            admin.put(&tags, json!({"tags": wrong})).await.expect(400);
        }
        admin.delete(&tags).await.expect(204);
        assert_eq!(admin.get(&format!("{V3}/projects/{hall}")).await.expect(200).body["project"]["tags"], json!([]));
        assert_eq!(admin.get(&format!("{V3}/projects/{lab}")).await.expect(200).body["project"]["tags"], json!(["red", "green"]));
    });
}

#[test]
fn a_user_of_a_domain_has_servers_in_its_project() {
    play_default(|stage| async move {
        let Furnished { domain, project, .. } = furnished(&stage, "one", "member").await;
        let scope = json!({"project": {"id": project}});
        let entered = sign_in(&stage, json!({"name": "rhea", "domain": {"id": domain}}), scope).await.expect(201);
        let rhea = stage.member.with_token_of(&entered);
        rhea.get("/compute/v2.1/servers").await.expect(200);
        rhea.get(&format!("{V3}/domains/{domain}")).await.expect(200);
        rhea.get(&format!("{V3}/domains/default")).await.expect(403);
        let of_domain =
            sign_in(&stage, json!({"name": "rhea", "domain": {"id": domain}}), json!({"domain": {"id": domain}})).await.expect(201);
        let own = stage.member.with_token_of(&of_domain);
        own.get("/compute/v2.1/servers").await.expect(403);
        assert_eq!(own.get(&format!("{V3}/auth/domains")).await.expect(200).body["domains"][0]["id"], json!(domain));
    });
}

#[test]
fn a_disabled_domain_admits_nobody_and_can_be_deleted() {
    play_default(|stage| async move {
        let Furnished { domain, user, project } = furnished(&stage, "one", "member").await;
        let (admin, path) = (&stage.admin, format!("{V3}/domains/{domain}"));
        let named = json!({"name": "rhea", "domain": {"id": domain}});
        let scopes = [json!({"project": {"id": project}}), json!({"domain": {"id": domain}}), json!("unscoped")];
        let mut tokens = Vec::new();
        for scope in &scopes {
            tokens.push(stage.member.with_token_of(&sign_in(&stage, named.clone(), scope.clone()).await.expect(201)));
        }
        // A user of another domain who works in the project.
        let guest = make(admin, "users", "user", json!({"name": "guest", "password": PASSWORD})).await;
        admin.put(&format!("{V3}/projects/{project}/users/{guest}/roles/{}", role(&stage, "member").await), Value::Null).await.expect(204);
        let guest = json!({"id": guest});
        tokens.push(stage.member.with_token_of(&sign_in(&stage, guest.clone(), scopes[0].clone()).await.expect(201)));

        admin.delete(&path).await.expect(403);
        admin.patch(&path, json!({"domain": {"enabled": false, "description": "closed"}})).await.expect(200);
        for scope in &scopes {
            sign_in(&stage, named.clone(), scope.clone()).await.expect(401);
        }
        sign_in(&stage, guest, scopes[0].clone()).await.expect(401);
        let shown = admin.patch(&path, json!({"domain": {"enabled": true}})).await.expect(200).body["domain"].clone();
        assert_eq!((&shown["name"], &shown["description"], &shown["enabled"]), (&json!("one"), &json!("closed"), &json!(true)));
        for token in &tokens {
            token.get(&format!("{V3}/auth/projects")).await.expect(401);
        }
        sign_in(&stage, named, scopes[0].clone()).await.expect(201);

        admin.patch(&path, json!({"domain": {"enabled": false}})).await.expect(200);
        admin.delete(&path).await.expect(204);
        for gone in [path.clone(), format!("{V3}/users/{user}"), format!("{V3}/projects/{project}")] {
            admin.get(&gone).await.expect(404);
        }
        let left = admin.get(&format!("{V3}/role_assignments?scope.domain.id={domain}")).await.expect(200).body;
        assert_eq!(left["role_assignments"], json!([]));
        let of_default = format!("{V3}/domains/default");
        admin.delete(&of_default).await.expect(403);
        admin.patch(&of_default, json!({"domain": {"enabled": false}})).await.expect(403);
        admin.patch(&of_default, json!({"domain": {"description": "all of us"}})).await.expect(200);
    });
}

#[test]
fn a_manager_rules_the_own_domain_and_no_other() {
    play_default(|stage| async move {
        let (own, other) = (furnished(&stage, "own", "manager").await, furnished(&stage, "other", "member").await);
        let scope = json!({"domain": {"id": own.domain}});
        let entered = sign_in(&stage, json!({"name": "rhea", "domain": {"id": own.domain}}), scope).await.expect(201);
        let manager = stage.member.with_token_of(&entered);

        // Without a domain_id, the account is in the manager's domain.
        let user = make(&manager, "users", "user", json!({"name": "hebe", "password": PASSWORD})).await;
        let project = make(&manager, "projects", "project", json!({"name": "garden"})).await;
        let group = make(&manager, "groups", "group", json!({"name": "crew"})).await;
        assert_eq!(manager.get(&format!("{V3}/users/{user}")).await.expect(200).body["user"]["domain_id"], json!(own.domain));
        manager.put(&format!("{V3}/groups/{group}/users/{user}"), Value::Null).await.expect(204);
        let (member, admin_role) = (role(&stage, "member").await, role(&stage, "admin").await);
        manager.put(&format!("{V3}/projects/{project}/users/{user}/roles/{member}"), Value::Null).await.expect(204);
        manager.put(&format!("{V3}/projects/{project}/users/{user}/roles/{admin_role}"), Value::Null).await.expect(403);
        manager.put(&format!("{V3}/system/users/{user}/roles/{member}"), Value::Null).await.expect(403);
        manager.put(&format!("{V3}/projects/{}/users/{user}/roles/{member}", other.project), Value::Null).await.expect(403);
        manager.put(&format!("{V3}/projects/{project}/users/{}/roles/{member}", other.user), Value::Null).await.expect(403);
        manager.put(&format!("{V3}/groups/{group}/users/{}", other.user), Value::Null).await.expect(403);

        for (collection, foreign) in [("users", &other.user), ("projects", &other.project)] {
            let kind = collection.trim_end_matches('s');
            manager.get(&format!("{V3}/{collection}/{foreign}")).await.expect(403);
            manager.get(&format!("{V3}/{collection}/unknown")).await.expect(403);
            manager.patch(&format!("{V3}/{collection}/{foreign}"), json!({kind: {"description": "mine"}})).await.expect(403);
            manager.delete(&format!("{V3}/{collection}/{foreign}")).await.expect(403);
            manager.post(&format!("{V3}/{collection}"), json!({kind: {"name": "more", "domain_id": other.domain}})).await.expect(403);
            let listed = manager.get(&format!("{V3}/{collection}")).await.expect(200).body;
            let domains: Vec<&Value> = listed[collection].as_array().expect("a list").iter().map(|one| &one["domain_id"]).collect();
            assert_eq!(domains, [&json!(own.domain); 2], "{collection}");
        }
        let seen = manager.get(&format!("{V3}/role_assignments")).await.expect(200).body;
        assert_eq!(seen["role_assignments"].as_array().map(Vec::len), Some(3), "{seen}");
        assert_eq!(manager.get(&format!("{V3}/domains")).await.expect(200).body["domains"].as_array().map(Vec::len), Some(1));
        manager.patch(&format!("{V3}/domains/{}", own.domain), json!({"domain": {"name": "mine"}})).await.expect(403);

        // An administrator among the domain's users is not the manager's to take over, also when a group makes the user one.
        stage.admin.put(&format!("{V3}/system/groups/{group}/roles/{admin_role}"), Value::Null).await.expect(204);
        let password = json!({"user": {"password": "another password"}});
        manager.patch(&format!("{V3}/users/{user}"), password.clone()).await.expect(403);
        manager.put(&format!("{V3}/groups/{group}/users/{}", own.user), Value::Null).await.expect(403);
        stage.admin.delete(&format!("{V3}/system/groups/{group}/roles/{admin_role}")).await.expect(204);
        manager.patch(&format!("{V3}/users/{user}"), password).await.expect(200);
        manager.delete(&format!("{V3}/groups/{group}")).await.expect(204);
        manager.delete(&format!("{V3}/projects/{project}")).await.expect(204);
        manager.delete(&format!("{V3}/users/{user}")).await.expect(204);
    });
}
