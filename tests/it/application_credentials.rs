//! Application credentials: what they give, what they do not, and what ends them.

use cellshift::env::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::client::{Answer, User};
use crate::stage::{Stage, play_default};

const TOKENS: &str = "/identity/v3/auth/tokens";

fn path_of(user: &User) -> String {
    format!("/identity/v3/users/{}/application_credentials", user.user_id)
}

/// Makes a credential for the user.
async fn make(user: &User, credential: Value) -> Value {
    user.post(&path_of(user), json!({"application_credential": credential})).await.expect(201).body["application_credential"].clone()
}

fn proof(credential: &Value) -> Value {
    json!({"id": credential["id"], "secret": credential["secret"]})
}

/// Asks for a token with a credential.
async fn ask(stage: &Stage, proof: Value) -> Answer {
    let identity = json!({"methods": ["application_credential"], "application_credential": proof});
    stage.member.post(TOKENS, json!({"auth": {"identity": identity}})).await
}

async fn sign_in(stage: &Stage, user: &User, credential: &Value) -> User {
    user.with_token_of(&ask(stage, proof(credential)).await.expect(201))
}

#[test]
fn a_credential_gives_its_roles_in_its_project() {
    play_default(|stage| async move {
        let made = make(&stage.member, json!({"name": "robot", "description": "builds", "roles": [{"name": "reader"}]})).await;
        let secret = made["secret"].as_str().expect("a secret");
        assert!(secret.len() > 80 && made["unrestricted"] == false && made["expires_at"].is_null(), "{made}");
        let names: Vec<&Value> = made["roles"].as_array().expect("roles").iter().map(|role| &role["name"]).collect();
        assert_eq!(names, ["reader"]);
        let one = format!("{}/{}", path_of(&stage.member), made["id"].as_str().expect("an id"));
        for reader in [&stage.member, &stage.admin] {
            let shown = reader.get(&one).await.expect(200);
            assert!(shown.body["application_credential"]["name"] == "robot" && !shown.text.contains("secret"), "{}", shown.text);
            let listed = reader.get(&format!("{}?name=robot", path_of(&stage.member))).await.expect(200);
            assert_eq!(listed.body["application_credentials"].as_array().map(Vec::len), Some(1));
        }
        let all = make(&stage.member, json!({"name": "all", "roles": [], "access_rules": []})).await;
        assert_eq!(all["roles"].as_array().map(Vec::len), Some(2), "clients name no role in this way");
        let other = stage.member.get(&format!("{}?name=other", path_of(&stage.member))).await.expect(200);
        assert_eq!(other.body["application_credentials"], json!([]));

        let token = ask(&stage, proof(&made)).await.expect(201);
        let body = &token.body["token"];
        assert_eq!(body["methods"], json!(["application_credential"]));
        assert_eq!(body["application_credential"], json!({"id": made["id"], "name": "robot", "restricted": true}));
        assert_eq!((&body["project"]["id"], body["roles"].as_array().map(Vec::len)), (&made["project_id"], Some(1)));
        let robot = stage.member.with_token_of(&token);
        robot.get("/servers").await.expect(200);
        robot.post("/servers", stage.server().body()).await.expect(403);
        let by_name = json!({"name": "robot", "user": {"name": "demo", "domain": {"id": "default"}}, "secret": secret});
        ask(&stage, by_name).await.expect(201);
        ask(&stage, json!({"name": "robot", "user": {"id": stage.member.user_id}, "secret": secret})).await.expect(201);
    });
}

#[test]
fn wrong_secrets_scopes_and_bodies_are_refused() {
    play_default(|stage| async move {
        let made = make(&stage.member, json!({"name": "robot", "secret": "chosen by its user"})).await;
        assert_eq!(made["secret"], "chosen by its user");
        for (proof, status) in [
            (json!({"id": made["id"], "secret": "wrong"}), 401),
            (json!({"id": "nothing", "secret": "chosen by its user"}), 401),
            (json!({"id": "a\u{0}b", "secret": "chosen by its user"}), 400),
            (json!({"name": "robot", "user": {"id": stage.admin.user_id}, "secret": "chosen by its user"}), 401),
            (json!({"name": "robot", "secret": "chosen by its user"}), 400),
            (json!({"id": made["id"]}), 400),
            (Value::Null, 400),
        ] {
            ask(&stage, proof.clone()).await.expect(status);
        }
        let project = json!({"project": {"id": made["project_id"]}});
        let identity = json!({"methods": ["application_credential"], "application_credential": proof(&made)});
        let scoped = stage.member.post(TOKENS, json!({"auth": {"identity": identity, "scope": project}})).await.expect(401);
        assert!(scoped.message().contains("cannot request a scope"), "{}", scoped.text);

        let path = path_of(&stage.member);
        for (credential, status) in [
            (json!({}), 400),
            (json!({"name": ""}), 400),
            (json!({"name": "x".repeat(256)}), 400),
            (json!({"name": "a", "description": "x".repeat(65_536)}), 400),
            (json!({"name": "robot"}), 409),
            (json!({"name": "a", "roles": [{"name": "admin"}]}), 400),
            (json!({"name": "a", "roles": [{}]}), 400),
            (json!({"name": "a", "secret": ""}), 400),
            (json!({"name": "a", "expires_at": "tomorrow"}), 400),
            (json!({"name": "a", "expires_at": "2001-01-01T00:00:00Z"}), 400),
            (json!({"name": "a", "access_rules": [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}]}), 400),
        ] {
            stage.member.post(&path, json!({"application_credential": credential})).await.expect(status);
        }
        let foreign = stage.admin.post(&path, json!({"application_credential": {"name": "a"}})).await.expect(403);
        assert!(foreign.message().contains("create_application_credential"), "{}", foreign.text);
        stage.member.get(&path_of(&stage.admin)).await.expect(403);
        stage.admin.get("/identity/v3/users/nobody/application_credentials").await.expect(404);
        let of_admin = make(&stage.admin, json!({"name": "own"})).await["id"].as_str().expect("an id").to_owned();
        stage.member.get(&format!("{path}/{of_admin}")).await.expect(404);
        stage.member.delete(&format!("{path}/{of_admin}")).await.expect(404);
    });
}

#[test]
fn a_restricted_token_makes_no_credential_and_keeps_its_scope() {
    play_default(|stage| async move {
        let restricted = make(&stage.admin, json!({"name": "restricted", "roles": [{"name": "member"}]})).await;
        let free = make(&stage.admin, json!({"name": "free", "unrestricted": true, "roles": [{"name": "member"}]})).await;
        let one = format!("{}/{}", path_of(&stage.admin), free["id"].as_str().expect("an id"));
        let robot = sign_in(&stage, &stage.admin, &restricted).await;
        let refused = robot.post(&path_of(&robot), json!({"application_credential": {"name": "more"}})).await.expect(403);
        assert!(refused.message().contains("not allowed for managing"), "{}", refused.text);
        robot.delete(&one).await.expect(403);

        let exchange = |scope: Value| {
            let identity = json!({"methods": ["token"], "token": {"id": robot.token()}});
            let mut auth = json!({"auth": {"identity": identity}});
            if !scope.is_null() {
                auth["auth"]["scope"] = scope;
            }
            robot.post(TOKENS, auth)
        };
        for scope in
            [json!({"system": {"all": true}}), json!({"project": {"name": "demo", "domain": {"id": "default"}}}), json!("unscoped")]
        {
            exchange(scope).await.expect(401);
        }
        for scope in [Value::Null, json!({"project": {"id": restricted["project_id"]}})] {
            let again = exchange(scope).await.expect(201);
            let token = &again.body["token"];
            assert_eq!(token["methods"], json!(["application_credential", "token"]));
            assert_eq!((&token["application_credential"]["restricted"], token["roles"].as_array().map(Vec::len)), (&json!(true), Some(2)));
            robot.with_token_of(&again).post(&path_of(&robot), json!({"application_credential": {"name": "more"}})).await.expect(403);
        }

        let free = sign_in(&stage, &stage.admin, &free).await;
        let greedy = json!({"application_credential": {"name": "greedy", "roles": [{"name": "admin"}]}});
        free.post(&path_of(&free), greedy).await.expect(400);
        let more = make(&free, json!({"name": "more"})).await;
        assert_eq!(more["roles"].as_array().map(Vec::len), Some(2), "the roles of the token that made it");
        free.delete(&one).await.expect(204);
        free.get(&path_of(&stage.admin)).await.expect(401);
        sign_in(&stage, &stage.admin, &more).await;
    });
}

#[test]
fn a_credential_ends_with_what_it_rests_on() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let user = stage.user("rhea", "elsewhere", "member").await;
        let identity = &stage.running.cloud.services.identity;
        let role = identity.ensure_role("member").await.expect("a role").id;
        let observer = identity.ensure_role("observer").await.expect("a role").id;
        let robot = make(&user, json!({"name": "first"})).await;
        let signed_in = sign_in(&stage, &user, &robot).await;
        let account = format!("/identity/v3/users/{}", user.user_id);
        let project = format!("/identity/v3/projects/{}", robot["project_id"].as_str().expect("a project"));

        // Disabling the user or project stops it, and enabling it again allows it.
        for (path, kind) in [(&account, "user"), (&project, "project")] {
            admin.patch(path, json!({kind: {"enabled": false}})).await.expect(200);
            ask(&stage, proof(&robot)).await.expect(401);
            signed_in.get("/servers").await.expect(401);
            admin.patch(path, json!({kind: {"enabled": true}})).await.expect(200);
            ask(&stage, proof(&robot)).await.expect(201);
        }
        // A lost assignment deletes all credentials of that user in the project.
        let held = format!("{project}/users/{}/roles", user.user_id);
        admin.put(&format!("{held}/{observer}"), Value::Null).await.expect(204);
        admin.delete(&format!("{held}/{observer}")).await.expect(204);
        ask(&stage, proof(&robot)).await.expect(401);
        let user = User::sign_in(&stage.running, "rhea", "a password", "elsewhere").await;
        assert_eq!(user.get(&path_of(&user)).await.expect(200).body["application_credentials"], json!([]));

        // So does the deletion of a role that it gives.
        admin.put(&format!("{held}/{observer}"), Value::Null).await.expect(204);
        let user = User::sign_in(&stage.running, "rhea", "a password", "elsewhere").await;
        let (both, plain) =
            (make(&user, json!({"name": "both"})).await, make(&user, json!({"name": "plain", "roles": [{"id": role}]})).await);
        admin.delete(&format!("/identity/v3/roles/{observer}")).await.expect(204);
        ask(&stage, proof(&both)).await.expect(401);
        ask(&stage, proof(&plain)).await.expect(201);

        // Its own deletion ends its tokens.
        let signed_in = sign_in(&stage, &user, &plain).await;
        signed_in.get("/servers").await.expect(200);
        let user = User::sign_in(&stage.running, "rhea", "a password", "elsewhere").await;
        let one = format!("{}/{}", path_of(&user), plain["id"].as_str().expect("an id"));
        user.delete(&one).await.expect(204);
        signed_in.get("/servers").await.expect(401);
        user.get(&one).await.expect(404);
        let last = make(&user, json!({"name": "last"})).await;
        admin.delete(&account).await.expect(204);
        ask(&stage, proof(&last)).await.expect(401);
    });
}

#[test]
fn a_credential_gives_tokens_until_it_expires() {
    play_default(|stage| async move {
        let soon = SystemClock.now() + chrono::TimeDelta::seconds(3);
        let text = soon.format("%Y-%m-%dT%H:%M:%S%.6f").to_string();
        let made = make(&stage.member, json!({"name": "brief", "expires_at": text})).await;
        assert_eq!(made["expires_at"], text);
        let token = ask(&stage, proof(&made)).await.expect(201);
        assert_eq!(token.body["token"]["expires_at"], format!("{text}Z"));
        let robot = stage.member.with_token_of(&token);
        stage.until("the token has expired", || async { robot.get("/servers").await.status == 401 }).await;
        ask(&stage, proof(&made)).await.expect(401);
    });
}

#[test]
fn a_user_has_only_so_many_credentials() {
    play_default(|stage| async move {
        for number in 0..100 {
            make(&stage.member, json!({"name": format!("robot {number}")})).await;
        }
        let refused = stage.member.post(&path_of(&stage.member), json!({"application_credential": {"name": "one more"}})).await.expect(403);
        assert!(refused.message().contains("maximum of 100"), "{}", refused.text);
        make(&stage.admin, json!({"name": "another user's"})).await;
    });
}
