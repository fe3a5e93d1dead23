//! Users' credentials for other programs: who may do what with them, and the access keys of EC2.

use serde_json::{Value, json};

use crate::client::{Answer, User};
use crate::stage::play_default;

const CREDENTIALS: &str = "/identity/v3/credentials";

async fn ask(user: &User, credential: Value) -> Answer {
    user.post(CREDENTIALS, json!({"credential": credential})).await
}

async fn change(user: &User, id: &str, changes: Value) -> Answer {
    user.patch(&format!("{CREDENTIALS}/{id}"), json!({"credential": changes})).await
}

fn id_in(made: &Answer) -> String {
    made.body["credential"]["id"].as_str().expect("an id").to_owned()
}

fn count(listed: &Answer) -> usize {
    listed.body["credentials"].as_array().expect("a list").len()
}

/// Returns the id of the user's project.
async fn project_of(user: &User) -> String {
    let projects = user.get("/identity/v3/auth/projects").await.expect(200).body["projects"].clone();
    projects[0]["id"].as_str().expect("an id").to_owned()
}

fn totp(user: &User) -> Value {
    json!({"user_id": user.user_id, "type": "totp", "blob": "GEZDGNBVGY3TQOJQ"})
}

#[test]
fn a_credential_is_its_users_and_the_administrators() {
    play_default(|stage| async move {
        let (member, admin) = (&stage.member, &stage.admin);
        let made = ask(member, totp(member)).await.expect(201);
        let id = id_in(&made);
        let shown = json!({"id": id, "user_id": member.user_id, "project_id": null, "type": "totp", "blob": "GEZDGNBVGY3TQOJQ"});
        for (key, value) in shown.as_object().expect("an object") {
            assert_eq!(&made.body["credential"][key], value, "{key}");
        }
        assert!(made.body["credential"]["links"]["self"].as_str().expect("a link").ends_with(&format!("{CREDENTIALS}/{id}")));
        let of_admin = id_in(&ask(admin, totp(admin)).await.expect(201));
        assert_eq!(count(&member.get(CREDENTIALS).await.expect(200)), 1);
        assert_eq!(count(&admin.get(CREDENTIALS).await.expect(200)), 2);
        assert_eq!(count(&admin.get(&format!("{CREDENTIALS}?user_id={}", member.user_id)).await.expect(200)), 1);
        assert_eq!(count(&admin.get(&format!("{CREDENTIALS}?type=ec2")).await.expect(200)), 0);
        assert_eq!(count(&member.get(&format!("{CREDENTIALS}?user_id={}", admin.user_id)).await.expect(200)), 0);
        for unknown in [of_admin.as_str(), "nothing"] {
            member.get(&format!("{CREDENTIALS}/{unknown}")).await.expect(403);
            change(member, unknown, json!({"blob": "x"})).await.expect(403);
            member.delete(&format!("{CREDENTIALS}/{unknown}")).await.expect(403);
        }
        ask(member, totp(admin)).await.expect(403);
        change(member, &id, json!({"user_id": admin.user_id})).await.expect(403);
        let project = project_of(member).await;
        let changed = change(member, &id, json!({"blob": "NEW", "type": "cert", "project_id": project})).await.expect(200);
        assert_eq!(changed.body["credential"]["project_id"], json!(project));
        let seen = admin.get(&format!("{CREDENTIALS}/{id}")).await.expect(200).body["credential"].clone();
        assert_eq!((&seen["blob"], &seen["type"]), (&json!("NEW"), &json!("cert")));
        member.delete(&format!("{CREDENTIALS}/{id}")).await.expect(204);
        let gone = admin.get(&format!("{CREDENTIALS}/{id}")).await.expect(404);
        assert_eq!(gone.message(), format!("Could not find credential: {id}."));
    });
}

#[test]
fn wrong_credentials_are_refused_and_none_is_left() {
    play_default(|stage| async move {
        let (member, admin) = (&stage.member, &stage.admin);
        let home = project_of(member).await;
        let ec2 = |blob: &str| json!({"user_id": member.user_id, "project_id": home, "type": "ec2", "blob": blob});
        for (credential, status) in [
            (json!({"user_id": member.user_id, "type": "totp"}), 400),
            (json!({"user_id": member.user_id, "blob": "x"}), 400),
            (json!({"type": "totp", "blob": "x"}), 400),
            (json!({"user_id": member.user_id, "type": "", "blob": "x"}), 400),
            (json!({"user_id": member.user_id, "type": "totp", "blob": {"a": 1}}), 400),
            (json!({"user_id": member.user_id, "type": "totp", "blob": "a\u{0}b"}), 400),
            (json!({"user_id": member.user_id, "type": "totp", "blob": "x".repeat(70_000)}), 400),
            (json!({"user_id": member.user_id, "type": "totp", "blob": "x", "project_id": "nothing"}), 404),
            (json!({"user_id": "nothing", "type": "totp", "blob": "x"}), 404),
            (ec2("no json"), 400),
            (ec2("{}"), 400),
            (json!({"user_id": member.user_id, "type": "ec2", "blob": "{\"access\": \"a\"}"}), 400),
        ] {
            let answer = ask(admin, credential.clone()).await;
            assert_eq!(answer.status, status, "{credential}: {}", answer.text);
        }
        assert_eq!(count(&admin.get(CREDENTIALS).await.expect(200)), 0);
        let made = id_in(&ask(member, ec2("{\"access\": \"a\", \"secret\": \"b\"}")).await.expect(201));
        assert_eq!(made, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "the SHA-256 of the access key");
        ask(member, ec2("{\"access\": \"a\", \"secret\": \"c\"}")).await.expect(409);
        for changes in [json!({}), json!({"project_id": null}), json!({"blob": "no json"}), json!({"type": null})] {
            change(member, &made, changes).await.expect(400);
        }
        change(admin, &made, json!({"user_id": "nothing"})).await.expect(404);
        for _ in 1..100 {
            ask(member, totp(member)).await.expect(201);
        }
        let refused = ask(member, totp(member)).await.expect(403);
        assert!(refused.message().contains("maximum of 100"), "{}", refused.text);
    });
}

#[test]
fn access_keys_of_ec2_come_and_go_with_user_and_project() {
    play_default(|stage| async move {
        let (member, admin) = (&stage.member, &stage.admin);
        let of = |user: &str| format!("/identity/v3/users/{user}/credentials/OS-EC2");
        let (keys, home) = (of(&member.user_id), project_of(member).await);
        let made = member.post(&keys, json!({"tenant_id": home})).await.expect(201).body["credential"].clone();
        let one = format!("{keys}/{}", made["access"].as_str().expect("an access key"));
        assert_eq!((&made["user_id"], &made["tenant_id"], &made["trust_id"]), (&json!(member.user_id), &json!(home), &Value::Null));
        assert!(made["links"]["self"].as_str().expect("a link").ends_with(&one));
        assert_eq!(admin.get(&one).await.expect(200).body["credential"]["secret"], made["secret"]);
        assert_eq!(count(&member.get(&keys).await.expect(200)), 1);
        assert_eq!(count(&member.get(&format!("{CREDENTIALS}?type=ec2")).await.expect(200)), 1, "the same credential");
        member.get(&format!("{}/x", of(&admin.user_id))).await.expect(403);
        member.post(&of(&admin.user_id), json!({"tenant_id": home})).await.expect(403);
        admin.post(&keys, json!({"tenant_id": "nothing"})).await.expect(404);
        admin.get(&of("nothing")).await.expect(404);
        let others = format!("{}/{}", of(&admin.user_id), made["access"].as_str().expect("an access key"));
        admin.get(&others).await.expect(404);
        admin.delete(&others).await.expect(404);
        member.delete(&one).await.expect(204);
        member.get(&one).await.expect(404);

        let project =
            admin.post("/identity/v3/projects", json!({"project": {"name": "lab"}})).await.expect(201).body["project"]["id"].clone();
        admin.post(&keys, json!({"tenant_id": project})).await.expect(201);
        admin.delete(&format!("/identity/v3/projects/{}", project.as_str().expect("an id"))).await.expect(204);
        assert_eq!(count(&admin.get(&keys).await.expect(200)), 0, "they end with their project");
        admin.post(&keys, json!({"tenant_id": home})).await.expect(201);
        admin.delete(&format!("/identity/v3/users/{}", member.user_id)).await.expect(204);
        assert_eq!(count(&admin.get(CREDENTIALS).await.expect(200)), 0, "and with their user");
    });
}

#[test]
fn a_restricted_application_credential_makes_no_credential() {
    play_default(|stage| async move {
        let path = format!("/identity/v3/users/{}/application_credentials", stage.member.user_id);
        for (unrestricted, status) in [(false, 403), (true, 201)] {
            let new = json!({"application_credential": {"name": format!("robot {unrestricted}"), "unrestricted": unrestricted}});
            let made = stage.member.post(&path, new).await.expect(201).body["application_credential"].clone();
            let proof = json!({"id": made["id"], "secret": made["secret"]});
            let identity = json!({"methods": ["application_credential"], "application_credential": proof});
            let token = stage.member.post("/identity/v3/auth/tokens", json!({"auth": {"identity": identity}})).await.expect(201);
            ask(&stage.member.with_token_of(&token), totp(&stage.member)).await.expect(status);
        }
    });
}
