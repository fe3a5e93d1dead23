//! Tests of the identity API as clients and set-up tools use it.

use actix_web::http::Method;
use cellshift_embedded::identity::{DomainRef, ProjectRef, ScopeRequest, Target, UserRef};
use cellshift_embedded::testkit::{self, ApiFixture, login, request, send};
use serde_json::{Value, json};

use crate::door::{served, with_member};

#[actix_web::test]
async fn discovery_answers_anybody_with_and_without_a_slash() {
    let world = testkit::world().await;
    let app = served(&world).await;
    for (path, status) in [("/identity", 300), ("/identity/", 300), ("/identity/v3", 200), ("/identity/v3/", 200)] {
        let answer = send(&app, request(Method::GET, "", path, Value::Null).to_request()).await;
        assert_eq!(answer.status, status, "{path}");
        let body = answer.json();
        let version = if status == 300 { &body["versions"]["values"][0] } else { &body["version"] };
        assert_eq!(version["id"], "v3.14");
        assert_eq!(version["links"][0]["href"], "http://cloud:8774/identity/v3/");
    }
}

#[actix_web::test]
async fn a_password_by_names_gives_a_scoped_token_with_a_catalog() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let answer = send(&app, request(Method::POST, "", "/identity/v3/auth/tokens", login("demo", "secret")).to_request()).await;
    assert_eq!(answer.status, 201);
    let token = answer.json()["token"].clone();
    assert_eq!(token["user"]["name"], "demo");
    assert_eq!(token["project"]["domain"], json!({"id": "default", "name": "Default"}));
    assert_eq!(token["methods"], json!(["password"]));
    assert!(token["expires_at"].as_str().unwrap().ends_with('Z'));
    let names: Vec<&str> = token["roles"].as_array().unwrap().iter().map(|role| role["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["member", "reader"]);
    let catalog = token["catalog"].as_array().unwrap();
    assert_eq!(catalog.len(), 7);
    let compute = catalog.iter().find(|service| service["type"] == "compute").unwrap();
    assert_eq!(compute["endpoints"].as_array().unwrap().len(), 3);
    assert_eq!(compute["endpoints"][0]["url"], "http://cloud:8774/compute/v2.1");

    // The token is valid, can be exchanged for another with the same scope, and can be revoked.
    let id = answer.header("X-Subject-Token").to_owned();
    let rescope = json!({"auth": {
        "identity": {"methods": ["token"], "token": {"id": id}},
        "scope": {"project": {"id": token["project"]["id"]}},
    }});
    let second = send(&app, request(Method::POST, "", "/identity/v3/auth/tokens", rescope).to_request()).await;
    assert_eq!(second.status, 201);
    assert_eq!(second.json()["token"]["expires_at"], token["expires_at"]);
    let own = format!("/identity/v3/projects/{}", token["project"]["id"].as_str().unwrap());
    assert_eq!(send(&app, request(Method::GET, &id, &own, Value::Null).to_request()).await.status, 200);
    let revoke = request(Method::DELETE, &id, "/identity/v3/auth/tokens", Value::Null).insert_header(("X-Subject-Token", id.as_str()));
    assert_eq!(send(&app, revoke.to_request()).await.status, 204);
    assert_eq!(send(&app, request(Method::GET, &id, &own, Value::Null).to_request()).await.status, 401);
}

#[actix_web::test]
async fn a_wrong_password_has_the_answer_that_clients_read() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let answer = send(&app, request(Method::POST, "", "/identity/v3/auth/tokens", login("demo", "wrong")).to_request()).await;
    assert_eq!(answer.status, 401);
    let error = answer.json()["error"].clone();
    assert_eq!((&error["code"], &error["title"]), (&json!(401), &json!("Unauthorized")));
    let answer = send(&app, request(Method::POST, "", "/identity/v3/auth/tokens", json!({"auth": {}})).to_request()).await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("identity"), "says what is missing");
}

#[actix_web::test]
async fn an_administrator_sets_up_a_project_with_a_user() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let admin = world.token("admin").await;
    let call =
        |method: Method, path: &str, body: Value| send(&app, request(method, &admin, &format!("/identity/v3{path}"), body).to_request());
    let project = call(Method::POST, "/projects", json!({"project": {"name": "lab", "domain_id": "default"}})).await;
    assert_eq!(project.status, 201);
    let project = project.json()["project"]["id"].as_str().unwrap().to_owned();
    let user = call(Method::POST, "/users", json!({"user": {"name": "lab", "password": "secret", "domain_id": "default"}})).await;
    let user = user.json()["user"]["id"].as_str().unwrap().to_owned();
    let roles = call(Method::GET, "/roles?name=member", Value::Null).await.json();
    let role = format!("/projects/{project}/users/{user}/roles/{}", roles["roles"][0]["id"].as_str().unwrap());
    assert_eq!(call(Method::HEAD, &role, Value::Null).await.status, 404);
    assert_eq!(call(Method::PUT, &role, Value::Null).await.status, 204);
    assert_eq!(call(Method::HEAD, &role, Value::Null).await.status, 204);
    let lab = world.token("lab").await;

    let assignments = call(Method::GET, &format!("/role_assignments?user.id={user}&include_names=True"), Value::Null).await.json();
    assert_eq!(assignments["role_assignments"][0]["scope"]["project"]["name"], "lab");
    assert_eq!(call(Method::GET, "/projects/lab", Value::Null).await.status, 404, "a name is no id");
    assert_eq!(call(Method::GET, "/projects?name=lab", Value::Null).await.json()["projects"][0]["id"], project.as_str());
    assert_eq!(call(Method::POST, "/projects", json!({"project": {"name": "lab"}})).await.status, 409);
    let forbidden = send(&app, request(Method::GET, &lab, "/identity/v3/users", Value::Null).to_request()).await;
    assert_eq!(forbidden.status, 403);

    assert_eq!(call(Method::DELETE, &format!("/users/{user}"), Value::Null).await.status, 204);
    assert_eq!(call(Method::DELETE, &format!("/projects/{project}"), Value::Null).await.status, 204);
    let gone = send(&app, request(Method::GET, &lab, &format!("/identity/v3/users/{user}"), Value::Null).to_request()).await;
    assert_eq!(gone.status, 401);
}

/// Returns a token of the user with this name in this scope.
async fn token_for(world: &ApiFixture, name: &str, scope: ScopeRequest) -> String {
    let user = UserRef::Name { name: name.into(), domain: DomainRef::default() };
    world.identity.authenticate_password(&user, "secret", scope).await.unwrap().id
}

/// Returns a token of a new user who has only this role in this scope.
async fn holder(world: &ApiFixture, name: &str, role: &str, target: Target) -> String {
    let user = world.identity.ensure_user(name, "secret", None).await.unwrap();
    world.identity.ensure_assignment(&user, target.clone(), role).await.unwrap();
    let scope = match target {
        Target::Project(id) => ScopeRequest::Project(ProjectRef::Id(id)),
        Target::Domain(id) => ScopeRequest::Domain(DomainRef::Id(id)),
        Target::System => ScopeRequest::System,
    };
    token_for(world, name, scope).await
}

#[actix_web::test]
async fn all_methods_that_are_named_must_succeed() {
    let (world, app, token) = with_member(testkit::world().await).await;
    let foreign = world.token("admin").await;
    let with = |methods: Value, token: Value| {
        let mut body = login("demo", "secret");
        body["auth"]["identity"]["methods"] = methods;
        body["auth"]["identity"]["token"] = token;
        body
    };
    for (body, status) in [
        (with(json!(["password", "token"]), json!({"id": token})), 201),
        (with(json!(["password", "token"]), json!({"id": "garbage"})), 401),
        (with(json!(["token", "password"]), json!({"id": foreign})), 401),
        (with(json!(["password", "token"]), Value::Null), 400),
        (with(json!(["password", "totp"]), Value::Null), 401),
        (with(json!(["password", "password"]), Value::Null), 201),
        (with(json!([]), Value::Null), 401),
    ] {
        let answer = send(&app, request(Method::POST, "", "/identity/v3/auth/tokens", body.clone()).to_request()).await;
        assert_eq!(answer.status, status, "{body}");
        if status == 401 {
            assert!(!answer.headers.contains_key("X-Subject-Token"));
        }
    }
}

#[actix_web::test]
async fn a_wrong_original_password_is_401() {
    let (world, app, token) = with_member(testkit::world().await).await;
    let own = world.identity.user_named("demo").await.unwrap().unwrap().id;
    let path = format!("/identity/v3/users/{own}/password");
    let change = |original: &str, new: &str| json!({"user": {"original_password": original, "password": new}});
    for (body, status) in
        [(change("wrong", "newer"), 401), (change("secret", ""), 400), (change("secret", "newer"), 204), (change("newer", "x"), 401)]
    {
        let answer = send(&app, request(Method::POST, &token, &path, body).to_request()).await;
        assert_eq!(answer.status, status, "the last one, because the token has ended with the password");
    }
}

#[actix_web::test]
async fn a_token_without_a_project_reaches_identity_alone() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let unscoped = token_for(&world, "demo", ScopeRequest::Unscoped).await;
    let domain = holder(&world, "of-domain", "member", Target::Domain("default".into())).await;
    let reader = holder(&world, "of-system", "reader", Target::System).await;
    let admin = holder(&world, "root", "admin", Target::System).await;
    let paths = [
        "/image/v2/images",
        "/volume/v3/volumes",
        "/compute/v2.1/servers",
        "/network/v2.0/networks",
        "/placement/resource_providers",
        "/ops/v1/migrations",
    ];
    for path in paths {
        for token in [&unscoped, &domain, &reader] {
            let answer = send(&app, request(Method::GET, token, path, Value::Null).to_request()).await;
            assert_eq!(answer.status, 403, "{path}");
        }
        assert_ne!(
            send(&app, request(Method::GET, &admin, path, Value::Null).to_request()).await.status,
            403,
            "{path}: the system's administrator"
        );
    }
    for (path, status) in [("/auth/projects", 200), ("/auth/domains", 200), ("/auth/system", 200), ("/auth/catalog", 403), ("/users", 403)]
    {
        let answer = send(&app, request(Method::GET, &unscoped, &format!("/identity/v3{path}"), Value::Null).to_request()).await;
        assert_eq!(answer.status, status, "{path}");
        if path == "/auth/projects" {
            assert_eq!(answer.json()["projects"][0]["id"], project.as_str());
        }
    }
}

#[actix_web::test]
async fn accounts_are_read_by_whom_keystone_lets_read_them() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let (demo, foreign) =
        (world.identity.ensure_project("demo").await.unwrap().id, world.identity.ensure_project("admin").await.unwrap().id);
    let own = world.identity.user_named("demo").await.unwrap().unwrap().id;
    let other = world.identity.user_named("admin").await.unwrap().unwrap().id;
    let member_role = world.identity.ensure_role("member").await.unwrap().id;
    let admin_role = world.identity.ensure_role("admin").await.unwrap().id;
    let callers = [
        world.token("demo").await,
        token_for(&world, "demo", ScopeRequest::Unscoped).await,
        holder(&world, "service", "service", Target::Project(demo.clone())).await,
        holder(&world, "manager", "manager", Target::Project(demo.clone())).await,
        holder(&world, "domain-reader", "reader", Target::Domain("default".into())).await,
        holder(&world, "system-reader", "reader", Target::System).await,
        world.token("admin").await,
    ];
    // A member, the same member unscoped, a service, a manager, a reader of the domain, a reader of the system, an administrator.
    let everybody = [200; 7];
    let of_domain = [403, 403, 403, 403, 200, 200, 200];
    let of_system = [403, 403, 403, 403, 403, 200, 200];
    let table = [
        ("/users".to_owned(), of_domain),
        (format!("/users/{own}"), [200, 200, 403, 403, 200, 200, 200]),
        (format!("/users/{own}/projects"), [200, 200, 403, 403, 200, 200, 200]),
        (format!("/users/{other}"), of_domain),
        ("/users/nobody".to_owned(), [403, 403, 403, 403, 403, 404, 404]),
        ("/projects".to_owned(), of_domain),
        (format!("/projects/{demo}"), [200, 403, 200, 200, 200, 200, 200]),
        (format!("/projects/{foreign}"), of_domain),
        ("/domains".to_owned(), of_domain),
        ("/domains/default".to_owned(), [200, 403, 200, 200, 200, 200, 200]),
        ("/roles".to_owned(), of_system),
        (format!("/roles/{member_role}"), [403, 403, 403, 200, 403, 200, 200]),
        (format!("/roles/{admin_role}"), of_system),
        ("/role_assignments".to_owned(), of_domain),
        (format!("/projects/{demo}/users/{own}/roles"), of_domain),
        (format!("/system/users/{own}/roles"), of_system),
        ("/services".to_owned(), of_system),
        ("/endpoints".to_owned(), of_system),
        ("/regions".to_owned(), everybody),
        ("/auth/projects".to_owned(), everybody),
    ];
    for (path, expected) in table {
        for (token, expected) in callers.iter().zip(expected) {
            let answer = send(&app, request(Method::GET, token, &format!("/identity/v3{path}"), Value::Null).to_request()).await;
            let who = callers.iter().position(|caller| caller == token).unwrap();
            assert_eq!(answer.status, expected, "{path} by caller {who}");
        }
    }
    let seen = async |token: &str| {
        let answer = send(&app, request(Method::GET, token, "/identity/v3/role_assignments", Value::Null).to_request()).await.json();
        answer["role_assignments"].as_array().unwrap().iter().filter(|one| one["scope"].get("system").is_some()).count()
    };
    assert_eq!((seen(&callers[4]).await, seen(&callers[5]).await), (0, 1), "who reads the domain does not see who rules the system");
}

#[actix_web::test]
async fn others_tokens_are_judged_by_services_revoked_by_admins() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let project = Target::Project(world.identity.ensure_project("admin").await.unwrap().id);
    let service = holder(&world, "service", "service", project.clone()).await;
    let stranger = holder(&world, "stranger", "member", project).await;
    let subject = world.token("demo").await;
    let callers = [
        (&service, [200, 403, 403]),
        (&stranger, [403, 403, 403]),
        (&subject, [200, 200, 0]),
        (&world.token("admin").await, [200, 200, 204]),
    ];
    for (who, (token, expected)) in callers.into_iter().enumerate() {
        for (method, expected) in [Method::GET, Method::HEAD, Method::DELETE].into_iter().zip(expected) {
            if expected == 0 {
                continue;
            }
            let request_of_token = request(method.clone(), token, "/identity/v3/auth/tokens", Value::Null)
                .insert_header(("X-Subject-Token", subject.as_str()));
            assert_eq!(send(&app, request_of_token.to_request()).await.status, expected, "{method} by caller {who}");
        }
    }
}

#[actix_web::test]
async fn roles_are_guarded_and_bodies_are_checked() {
    let world = testkit::world().await;
    let app = served(&world).await;
    let admin = world.token("admin").await;
    let call =
        |method: Method, path: &str, body: Value| send(&app, request(method, &admin, &format!("/identity/v3{path}"), body).to_request());
    let member = world.identity.ensure_role("member").await.unwrap().id;
    let user = world.identity.user_named("demo").await.unwrap().unwrap().id;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let role = |name: &str| json!({"role": {"name": name}});
    let custom = call(Method::POST, "/roles", role("custom")).await.json()["role"]["id"].as_str().unwrap().to_owned();
    let shown = call(Method::GET, &format!("/roles/{member}"), Value::Null).await.json();
    assert_eq!(shown["role"]["options"], json!({"immutable": true}));
    for (method, path, body, status) in [
        (Method::DELETE, format!("/roles/{member}"), Value::Null, 403),
        (Method::PATCH, format!("/roles/{member}"), role("other"), 403),
        (Method::POST, "/roles".into(), role("ADMIN"), 409),
        (Method::POST, "/roles".into(), role(" Admin "), 409),
        (Method::POST, "/roles".into(), role("a\u{0}b"), 400),
        (Method::PATCH, format!("/roles/{custom}"), role("Member"), 409),
        (Method::PATCH, format!("/roles/{custom}"), role(""), 400),
        (Method::PATCH, format!("/roles/{custom}"), role("better"), 200),
        (Method::DELETE, format!("/roles/{custom}"), Value::Null, 204),
        (Method::DELETE, format!("/roles/{custom}"), Value::Null, 404),
        (Method::PATCH, format!("/users/{user}"), json!({"user": {"name": ""}}), 400),
        (Method::PATCH, format!("/users/{user}"), json!({"user": {"name": null}}), 400),
        (Method::PATCH, format!("/users/{user}"), json!({"user": {"name": "x".repeat(256)}}), 400),
        (Method::PATCH, format!("/users/{user}"), json!({"user": {"password": ""}}), 400),
        (Method::PATCH, format!("/users/{user}"), json!({"user": {"enabled": "yes"}}), 400),
        (Method::PATCH, format!("/projects/{project}"), json!({"project": {"name": "a\u{0}b"}}), 400),
        (Method::PATCH, format!("/projects/{project}"), json!({"project": {"name": "admin"}}), 409),
        (Method::PATCH, format!("/projects/{project}"), json!({"project": {"enabled": null}}), 400),
        (Method::GET, "/users/%00".into(), Value::Null, 404),
        (Method::GET, "/projects/%00".into(), Value::Null, 404),
        (Method::GET, "/roles/%00".into(), Value::Null, 404),
        (Method::PUT, format!("/projects/%00/users/{user}/roles/{member}"), Value::Null, 404),
        (Method::DELETE, format!("/projects/%00/users/{user}/roles/{member}"), Value::Null, 404),
    ] {
        let answer = call(method.clone(), &path, body.clone()).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {:?}", answer.bytes);
    }
}
