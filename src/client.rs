//! An OpenStack client in small, for the commands that speak to a service and for the demo: authenticates as a cloud of
//! `clouds.yaml` and finds each service in the catalog.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of clouds cannot be used.
    #[error("{} cannot be read ({reason}): name the running service's directory with --data-dir", path.display())]
    NoClouds { path: PathBuf, reason: String },
    /// Nothing answers there.
    #[error("{request}: no service answers at {url}: start it with `cellshift serve` ({source})")]
    Unanswered { request: String, url: String, source: reqwest::Error },
    /// The service says no.
    #[error("{request} was answered with {status}: {message}")]
    Refused { request: String, status: u16, message: String },
    /// The catalog does not have what is asked for.
    #[error("the catalog has no service {0}")]
    NoService(String),
}

/// The microversion that is spoken.
const COMPUTE_VERSION: &str = "compute 2.79";
/// The operators' API, which no OpenStack catalog knows.
pub const OPERATORS: &str = "cellshift-operators";

/// The file of clouds below a data directory.
pub const CLOUDS_FILE: &str = "clouds.yaml";
/// The administrator's cloud in it.
pub const ADMIN: &str = "cellshift-admin";

#[derive(Deserialize)]
struct CloudsFile {
    clouds: BTreeMap<String, CloudEntry>,
}

#[derive(Deserialize)]
struct CloudEntry {
    auth: Auth,
}

#[derive(Deserialize)]
struct Auth {
    auth_url: String,
    username: String,
    password: String,
    project_name: String,
    user_domain_name: String,
    project_domain_name: String,
}

/// A caller with a token.
pub struct Client {
    http: reqwest::Client,
    token: String,
    /// URLs by service type.
    endpoints: BTreeMap<String, String>,
}

impl Client {
    /// Authenticates with name and password as a cloud of the file.
    pub async fn log_in(clouds_file: &Path, cloud: &str) -> Result<Client, ClientError> {
        let auth = read_auth(clouds_file, cloud)?;
        let user = json!({"name": auth.username, "password": auth.password, "domain": {"name": auth.user_domain_name}});
        let project = json!({"name": auth.project_name, "domain": {"name": auth.project_domain_name}});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": project},
        }});
        let http = reqwest::Client::new();
        let request = format!("authentication as {cloud}");
        let answer = http.post(format!("{}/v3/auth/tokens", auth.auth_url)).json(&body).send().await;
        let unanswered = |source| ClientError::Unanswered { request: request.clone(), url: auth.auth_url.clone(), source };
        let answer = answer.map_err(unanswered)?;
        let token = answer.headers().get("X-Subject-Token").and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned();
        let body = read(&request, answer).await?;
        let mut endpoints = public_endpoints(&body["token"]["catalog"]);
        endpoints.insert(OPERATORS.to_owned(), format!("{}/ops/v1", auth.auth_url.trim_end_matches("/identity")));
        Ok(Client { http, token, endpoints })
    }

    /// GET of a path (and query) below a service's endpoint.
    pub async fn get(&self, service: &str, path: &str) -> Result<Value, ClientError> {
        self.send(reqwest::Method::GET, service, path, None).await
    }

    /// POST of a body to it; null when the answer has no body.
    pub async fn post(&self, service: &str, path: &str, body: Value) -> Result<Value, ClientError> {
        self.send(reqwest::Method::POST, service, path, Some(body)).await
    }

    /// GET of what is answered with server-sent events: gives the name and the data of each to `told` until the answer ends.
    pub async fn events(&self, service: &str, path: &str, mut told: impl FnMut(&str, &str)) -> Result<(), ClientError> {
        let endpoint = self.endpoints.get(service).ok_or_else(|| ClientError::NoService(service.to_owned()))?;
        let named = format!("GET {path}");
        let request = self.http.get(format!("{endpoint}{path}")).header("X-Auth-Token", &self.token).header("Accept", "text/event-stream");
        let unanswered = |source| ClientError::Unanswered { request: named.clone(), url: endpoint.clone(), source };
        let mut answer = request.send().await.map_err(unanswered)?;
        if !answer.status().is_success() {
            return read(&named, answer).await.map(drop);
        }
        let mut waiting = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unanswered)? {
            waiting.extend_from_slice(&chunk);
            while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = waiting.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&event);
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default();
                told(field("event"), field("data"));
            }
        }
        Ok(())
    }

    async fn send(&self, method: reqwest::Method, service: &str, path: &str, body: Option<Value>) -> Result<Value, ClientError> {
        let endpoint = self.endpoints.get(service).ok_or_else(|| ClientError::NoService(service.to_owned()))?;
        let named = format!("{method} {path}");
        let mut request = self.http.request(method, format!("{endpoint}{path}")).header("X-Auth-Token", &self.token);
        request = request.header("OpenStack-API-Version", COMPUTE_VERSION);
        if let Some(body) = &body {
            request = request.json(body);
        }
        let unanswered = |source| ClientError::Unanswered { request: named.clone(), url: endpoint.clone(), source };
        let answer = request.send().await.map_err(unanswered)?;
        read(&named, answer).await
    }
}

fn read_auth(clouds_file: &Path, cloud: &str) -> Result<Auth, ClientError> {
    let failed = |reason: String| ClientError::NoClouds { path: clouds_file.to_owned(), reason };
    let text = std::fs::read_to_string(clouds_file).map_err(|error| failed(error.to_string()))?;
    let mut file: CloudsFile = serde_yaml_ng::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let entry = file.clouds.remove(cloud);
    Ok(entry.ok_or_else(|| failed(format!("it has no cloud {cloud}")))?.auth)
}

fn public_endpoints(catalog: &Value) -> BTreeMap<String, String> {
    let services = catalog.as_array().into_iter().flatten();
    let found = services.filter_map(|service| {
        let public = service["endpoints"].as_array()?.iter().find(|endpoint| endpoint["interface"] == "public")?;
        Some((service["type"].as_str()?.to_owned(), public["url"].as_str()?.to_owned()))
    });
    found.collect()
}

async fn read(request: &str, answer: reqwest::Response) -> Result<Value, ClientError> {
    let status = answer.status();
    let url = answer.url().to_string();
    let text = answer.text().await.map_err(|source| ClientError::Unanswered { request: request.to_owned(), url, source })?;
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(body);
    }
    // Every service wraps its error in an object of one key.
    let said = body.as_object().and_then(|object| object.values().next()).and_then(|error| error["message"].as_str());
    let message = said.map_or(text.clone(), str::to_owned);
    Err(ClientError::Refused { request: request.to_owned(), status: status.as_u16(), message })
}
