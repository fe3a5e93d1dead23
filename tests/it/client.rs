//! The API as users use it: one HTTP client per user, builders of servers, and waits for a state.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use cellshift::launch::Running;

use crate::bodies;

/// The default microversion of the tests.
const MICROVERSION: &str = "2.90";
/// The maximum time of any wait: a run that takes longer is stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A user with a token for a project.
#[derive(Clone)]
pub struct User {
    http: reqwest::Client,
    root: String,
    token: String,
    pub user_id: String,
    microversion: String,
    takes_last_known: bool,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    /// Null if the answer is not JSON.
    pub body: Value,
    pub text: String,
    pub took: Duration,
}

impl Answer {
    /// Returns the answer, and panics unless it has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Returns the message of an error body.
    pub fn message(&self) -> &str {
        let first = self.body.as_object().and_then(|body| body.values().next());
        first.and_then(|error| error["message"].as_str()).unwrap_or_default()
    }
}

/// Sends the request. The answer of the compute API is judged.
async fn answered(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let began = Instant::now();
    let (status, headers, text) = bodies::send(request).await?;
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, headers, body, text, took: began.elapsed() })
}

impl User {
    /// Signs in with a password.
    pub async fn sign_in(running: &Running, name: &str, password: &str, project: &str) -> User {
        User::sign_in_at(running.address, name, password, project).await
    }

    /// Signs in to the service at an address.
    pub async fn sign_in_at(address: std::net::SocketAddr, name: &str, password: &str, project: &str) -> User {
        let (http, root) = (reqwest::Client::new(), format!("http://{address}"));
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": name, "domain": domain, "password": password}}},
            "scope": {"project": {"name": project, "domain": domain}},
        }});
        let answer = http.post(format!("{root}/identity/v3/auth/tokens")).json(&body).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 201, "{name} signs in");
        let token = answer.headers()["X-Subject-Token"].to_str().expect("a token").to_owned();
        let body: Value = answer.json().await.expect("a token's body");
        let text = |value: &Value| value.as_str().expect("an id").to_owned();
        let user_id = text(&body["token"]["user"]["id"]);
        User { http, root, token, user_id, microversion: MICROVERSION.to_owned(), takes_last_known: false }
    }

    /// Returns this user with another microversion, of the compute API unless it names another service.
    pub fn speaking(&self, microversion: &str) -> User {
        User { microversion: microversion.to_owned(), ..self.clone() }
    }

    /// Returns this user with the token of an answer to `POST /auth/tokens`.
    pub fn with_token_of(&self, answer: &Answer) -> User {
        let token = answer.headers["X-Subject-Token"].to_str().expect("a token").to_owned();
        User { token, ..self.clone() }
    }

    /// Returns this user, who also accepts last known servers.
    pub fn taking_last_known(&self) -> User {
        User { takes_last_known: true, ..self.clone() }
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Option<String>) -> Answer {
        self.try_send(method, path, body).await.expect("an answer")
    }

    async fn try_send(&self, method: reqwest::Method, path: &str, body: Option<String>) -> reqwest::Result<Answer> {
        let service =
            if path.starts_with("/servers") || path.starts_with("/os-") || path.starts_with("/flavors") { "/compute/v2.1" } else { "" };
        let version = if self.microversion.contains(' ') { self.microversion.clone() } else { format!("compute {}", self.microversion) };
        let mut request = self
            .http
            .request(method, format!("{}{service}{path}", self.root))
            .header("X-Auth-Token", &self.token)
            .header("OpenStack-API-Version", version)
            .timeout(PATIENCE);
        if self.takes_last_known {
            request = request.header("X-Cellshift-Last-Known", "true");
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        answered(request).await
    }

    /// Sends `GET`. Paths of the compute API have no root.
    /// Sends a GET for which an answer of the last second is good enough.
    pub async fn recent(&self, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.root)).header("X-Auth-Token", &self.token).timeout(PATIENCE);
        answered(request.header("Cache-Control", "max-age=1")).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(reqwest::Method::GET, path, None).await
    }

    /// Sends `GET` as [`User::get`] does, to a service that may die: none without an answer.
    pub async fn try_get(&self, path: &str) -> Option<Answer> {
        self.try_send(reqwest::Method::GET, path, None).await.ok()
    }

    /// Sends `POST` as [`User::post`] does, to a service that may die.
    pub async fn try_post(&self, path: &str, body: Value) -> Option<Answer> {
        self.try_send(reqwest::Method::POST, path, Some(body.to_string())).await.ok()
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(reqwest::Method::POST, path, Some(body.to_string())).await
    }

    /// Opens a stream of server-sent events.
    pub async fn stream(&self, path: &str) -> reqwest::Response {
        let answer = self.http.get(format!("{}{path}", self.root)).header("X-Auth-Token", &self.token).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
        answer
    }

    /// Reads `count` server-sent events after this id, and returns their ids and data.
    pub async fn events(&self, path: &str, after: u64, count: usize) -> Vec<(u64, Value)> {
        let request = self.http.get(format!("{}{path}", self.root)).header("X-Auth-Token", &self.token);
        let mut answer = request.header("Last-Event-ID", after.to_string()).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
        let mut text = String::new();
        while text.matches("\n\n").count() < count {
            let chunk = tokio::time::timeout(PATIENCE, answer.chunk()).await.expect("an event in time").expect("a chunk");
            text.push_str(std::str::from_utf8(&chunk.expect("more events")).expect("text"));
        }
        let events = text.split("\n\n").filter_map(|event| {
            let (id, data) = event.strip_prefix("id: ")?.split_once("\ndata: ")?;
            Some((id.parse().ok()?, serde_json::from_str(data).ok()?))
        });
        events.take(count).collect()
    }

    /// Waits, as an administrator, for a notification of this type about a server (or about anything), which may have come already.
    pub async fn notification(&self, event_type: &str, server: Option<Uuid>) {
        let mut last = 0;
        let wait = async {
            loop {
                let (sequence, event) = self.events("/ops/v1/notifications", last, 1).await.remove(0);
                let is_about = server.is_none_or(|server| event["payload"]["uuid"] == json!(server));
                if event["event_type"] == event_type && is_about {
                    return;
                }
                last = sequence;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("nobody told of {event_type} for {server:?}"));
    }

    /// Waits, as an administrator, until the server has no operation and no debt left. Asks again after each answer.
    pub async fn settled(&self, server: Uuid) {
        let path = format!("/ops/v1/migrations?server={server}");
        let settled = async { while !nothing_is_left(&self.get(&path).await.expect(200)) {} };
        tokio::time::timeout(PATIENCE, settled).await.unwrap_or_else(|_| panic!("the operations on {server} do not end"));
    }

    /// Sends `POST` with a body that need not be JSON.
    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.send(reqwest::Method::POST, path, Some(body.to_owned())).await
    }

    /// Sends `POST` with a file of this type.
    pub async fn post_file(&self, path: &str, kind: &'static str, text: &str) -> Answer {
        let request = self.http.post(format!("{}{path}", self.root)).header("X-Auth-Token", &self.token).timeout(PATIENCE);
        answered(request.header("Content-Type", kind).body(text.to_owned())).await.expect("an answer")
    }

    /// Returns the token, for requests without this client.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Sends an image's bytes.
    pub async fn upload(&self, image: Uuid, bytes: Vec<u8>) -> Answer {
        let request = self.http.put(format!("{}/image/v2/images/{image}/file", self.root)).header("X-Auth-Token", &self.token);
        let request = request.header("Content-Type", "application/octet-stream").timeout(PATIENCE);
        answered(request.body(bytes)).await.expect("an answer")
    }

    /// Sends a body of this media type.
    pub async fn send_typed(&self, method: reqwest::Method, path: &str, kind: &'static str, body: Vec<u8>) -> Answer {
        let request = self.http.request(method, format!("{}{path}", self.root)).header("X-Auth-Token", &self.token).timeout(PATIENCE);
        answered(request.header("Content-Type", kind).body(body)).await.expect("an answer")
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(reqwest::Method::PUT, path, Some(body.to_string())).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(reqwest::Method::PATCH, path, Some(body.to_string())).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(reqwest::Method::DELETE, path, None).await
    }

    /// Sends `POST /servers/{id}/action`.
    pub async fn act(&self, server: Uuid, action: Value) -> Answer {
        self.post(&format!("/servers/{server}/action"), action).await
    }

    /// Returns the server as this user sees it.
    pub async fn show(&self, server: Uuid) -> Value {
        self.get(&format!("/servers/{server}")).await.expect(200).body["server"].clone()
    }

    pub async fn status(&self, server: Uuid) -> String {
        self.show(server).await["status"].as_str().unwrap_or_default().to_owned()
    }

    pub async fn resize(&self, server: Uuid, flavor: &str) -> Answer {
        self.act(server, json!({"resize": {"flavorRef": flavor}})).await
    }

    pub async fn confirm(&self, server: Uuid) -> Answer {
        self.act(server, json!({"confirmResize": null})).await
    }

    pub async fn revert(&self, server: Uuid) -> Answer {
        self.act(server, json!({"revertResize": null})).await
    }

    pub async fn migrate(&self, server: Uuid, host: Option<&str>) -> Answer {
        let body = host.map_or(Value::Null, |host| json!({"host": host}));
        self.act(server, json!({"migrate": body})).await
    }

    pub async fn attach(&self, server: Uuid, volume: Uuid) -> Answer {
        self.post(&format!("/servers/{server}/os-volume_attachments"), json!({"volumeAttachment": {"volumeId": volume}})).await
    }

    pub async fn detach(&self, server: Uuid, volume: Uuid) -> Answer {
        self.delete(&format!("/servers/{server}/os-volume_attachments/{volume}")).await
    }

    /// Makes a volume of one GiB, and waits until it is available.
    pub async fn make_volume(&self) -> Uuid {
        self.make_volume_with(json!({"size": 1, "name": "data"})).await
    }

    /// Makes the requested volume, and waits until it is available.
    pub async fn make_volume_with(&self, volume: Value) -> Uuid {
        let body = self.post("/volume/v3/volumes", json!({"volume": volume})).await.expect(202).body;
        let id = id_of(&body["volume"]);
        let available = async {
            // The volume service has no notifications, so its clients must ask.
            while self.get(&format!("/volume/v3/volumes/{id}")).await.expect(200).body["volume"]["status"] != "available" {}
        };
        tokio::time::timeout(PATIENCE, available).await.expect("the volume is made");
        id
    }

    /// Returns the server's actions, newest first.
    pub async fn actions(&self, server: Uuid) -> Vec<Value> {
        let answer = self.get(&format!("/servers/{server}/os-instance-actions")).await.expect(200);
        answer.body["instanceActions"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the newest action with this name, with its events.
    pub async fn action(&self, server: Uuid, name: &str) -> Value {
        let actions = self.actions(server).await;
        let action = actions.iter().find(|action| action["action"] == name).unwrap_or_else(|| panic!("no action {name} in {actions:?}"));
        let request = action["request_id"].as_str().expect("a request id");
        self.get(&format!("/servers/{server}/os-instance-actions/{request}")).await.expect(200).body["instanceAction"].clone()
    }
}

/// True if all operations in a list of migrations have ended and have no debts.
pub fn nothing_is_left(answer: &Answer) -> bool {
    let is_over = |one: &Value| ["done", "unwound"].contains(&one["state"].as_str().unwrap_or_default()) && one["debts"] == json!([]);
    answer.body["migrations"].as_array().is_some_and(|all| all.iter().all(is_over))
}

/// Returns the id in a resource's body.
#[track_caller]
pub fn id_of(resource: &Value) -> Uuid {
    let id = resource["id"].as_str().unwrap_or_else(|| panic!("no id in {resource}"));
    Uuid::parse_str(id).expect("a uuid")
}

/// A server to create.
#[derive(Clone)]
pub struct NewServer {
    body: Value,
    hints: Value,
}

impl NewServer {
    /// With flavor `gen1.small`, the image `tiny` and one port.
    pub fn of_image(image: Uuid) -> NewServer {
        let body = json!({"name": "one", "flavorRef": "gen1.small", "imageRef": image, "networks": "auto"});
        NewServer { body, hints: Value::Null }
    }

    /// With its root disk on a new volume that is deleted with the server.
    pub fn of_volume(image: Uuid) -> NewServer {
        let root = json!({
            "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume",
            "volume_size": 1, "delete_on_termination": true,
        });
        let mut new = NewServer::of_image(image).with("block_device_mapping_v2", json!([root]));
        new.body.as_object_mut().expect("an object").remove("imageRef");
        new
    }

    pub fn with(mut self, key: &str, value: Value) -> NewServer {
        self.body[key] = value;
        self
    }

    pub fn named(self, name: &str) -> NewServer {
        self.with("name", json!(name))
    }

    pub fn flavor(self, flavor: &str) -> NewServer {
        self.with("flavorRef", json!(flavor))
    }

    /// On this host only (administrators only).
    pub fn on_host(self, host: &str) -> NewServer {
        self.with("host", json!(host))
    }

    pub fn in_group(mut self, group: Uuid) -> NewServer {
        self.hints = json!({"group": group});
        self
    }

    /// With these scheduler hints.
    pub fn hinting(mut self, hints: Value) -> NewServer {
        self.hints = hints;
        self
    }

    /// Returns the request's body.
    pub fn body(self) -> Value {
        let mut body = json!({"server": self.body});
        if !self.hints.is_null() {
            body["os:scheduler_hints"] = self.hints;
        }
        body
    }

    /// Sends the request. The server may not exist yet.
    pub async fn ask(self, user: &User) -> Answer {
        user.post("/servers", self.body()).await
    }
}
