//! The identity API as clients and set-up tools use it.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::http::fixture::{self, app, login, request, send};

#[actix_web::test]
async fn discovery_answers_anybody_with_and_without_a_slash() {
    let world = fixture::world().await;
    let app = app!(world);
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
    let world = fixture::world().await;
    let app = app!(world);
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

    // The token opens doors, is worth another of the same scope, and can be thrown away.
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
async fn a_wrong_password_is_told_in_the_form_that_clients_read() {
    let world = fixture::world().await;
    let app = app!(world);
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
    let world = fixture::world().await;
    let app = app!(world);
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

    let listed = call(Method::GET, &format!("/role_assignments?user.id={user}&include_names=True"), Value::Null).await.json();
    assert_eq!(listed["role_assignments"][0]["scope"]["project"]["name"], "lab");
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
