//! A caller over HTTP with a token, which knows no more than an OpenStack client.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::PATIENCE;

/// A caller. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: SocketAddr,
    token: String,
}

impl Client {
    /// Authenticates with the name and password of a cloud in `clouds.yaml`.
    pub async fn log_in(address: SocketAddr, clouds: &Path, cloud: &str) -> Client {
        let text = std::fs::read_to_string(clouds).expect("clouds.yaml");
        let clouds: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let auth = &clouds["clouds"][cloud]["auth"];
        let domain = json!({"id": "default"});
        let user = json!({"name": auth["username"], "domain": domain, "password": auth["password"]});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": auth["project_name"], "domain": domain}},
        }});
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = format!("http://{address}/identity/v3/auth/tokens");
        let answer = http.post(url).json(&body).send().await.expect("an answer");
        let token = answer.headers()["X-Subject-Token"].to_str().expect("a token").to_owned();
        Client { http, address, token }
    }

    /// Returns this caller for another address.
    pub fn at(&self, address: SocketAddr) -> Client {
        Client { address, ..self.clone() }
    }

    /// Makes a request for `path` below the root.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address)).header("X-Auth-Token", &self.token)
    }

    /// Sends a request for `path` below the root, which must succeed.
    pub async fn send(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> bytes::Bytes {
        let mut request = self.request(method, path).timeout(PATIENCE).header("OpenStack-API-Version", "compute 2.79");
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let body = answer.bytes().await.expect("a body");
        assert!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        body
    }

    pub async fn get(&self, path: &str) -> bytes::Bytes {
        self.send(reqwest::Method::GET, path, None).await
    }

    /// Returns the JSON body of a GET.
    pub async fn look(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path).await).expect("JSON")
    }

    /// Returns an endless answer.
    pub async fn follow(&self, path: &str) -> reqwest::Response {
        self.request(reqwest::Method::GET, path).send().await.expect("an answer").error_for_status().expect("a stream")
    }

    /// Sends `POST /servers`, and returns the new server's id.
    pub async fn ask_for_server(&self, request: &Value) -> Uuid {
        let answer = self.send(reqwest::Method::POST, "/compute/v2.1/servers", Some(request)).await;
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        answer["server"]["id"].as_str().and_then(|id| id.parse().ok()).expect("a server's id")
    }

    /// Sends `POST /servers/{id}/action`.
    pub async fn act(&self, server: Uuid, action: &Value) {
        self.send(reqwest::Method::POST, &format!("/compute/v2.1/servers/{server}/action"), Some(action)).await;
    }

    pub async fn delete(&self, server: Uuid) {
        self.send(reqwest::Method::DELETE, &format!("/compute/v2.1/servers/{server}"), None).await;
    }

    /// Returns the server's status. Panics on ERROR.
    pub async fn status(&self, server: Uuid) -> String {
        let body = self.look(&format!("/compute/v2.1/servers/{server}")).await;
        let status = body["server"]["status"].as_str().expect("a status").to_owned();
        assert_ne!(status, "ERROR", "{body}");
        status
    }
}
