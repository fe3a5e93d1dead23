//! A small OpenStack client, for the commands that speak to a service and for the demo. It authenticates as a cloud of `clouds.yaml` and
//! finds each service in the catalog.

pub mod audit;
pub mod credentials;
pub mod enrolment;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;

use self::credentials::Credentials;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of clouds cannot be used.
    #[error("{} cannot be read ({reason}): name the running service's directory with --data-dir, or a cloud with --os-cloud", path.display())]
    NoClouds { path: PathBuf, reason: String },
    /// The credentials are incomplete, or of a kind that is not supported.
    #[error("{origin} cannot be used to authenticate: {reason}")]
    Credentials { origin: String, reason: String },
    /// The client has no TLS.
    #[error("{0:?} is no URL that this command can use: it must begin with http:// and name the service, not a TLS proxy before it")]
    Url(String),
    /// No service answers at the URL.
    #[error("{request}: no service answers at {url}: start it with `cellshift serve` ({source})")]
    Unanswered { request: String, url: String, source: reqwest::Error },
    /// The service refused the request.
    #[error("{message} ({request} was answered with {status})")]
    Refused { request: String, status: u16, message: String },
    /// A stream of events has stopped without an end.
    #[error("{request}: nothing has come for {} s", patience.as_secs())]
    Silent { request: String, patience: Duration },
    /// The catalog does not have the service.
    #[error("the catalog has no service {0}")]
    NoService(String),
}

/// The compute microversion of all requests.
const COMPUTE_VERSION: &str = "compute 2.79";
/// The operators' API, which is not in the catalog.
pub const OPERATORS: &str = "cellshift-operators";

/// The name of the file of clouds in a data directory.
pub const CLOUDS_FILE: &str = "clouds.yaml";
/// The administrator's cloud in this file.
pub const ADMIN: &str = "cellshift-admin";

/// An event of a stream. A field that the event does not have is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub data: &'a str,
}

/// A client with a token.
pub struct Client {
    http: reqwest::Client,
    token: Option<String>,
    /// URLs by service type.
    endpoints: BTreeMap<String, String>,
}

impl Client {
    /// Authenticates as a cloud of the file.
    pub async fn log_in(clouds_file: &Path, cloud: &str) -> Result<Client, ClientError> {
        Client::authenticate(&Credentials::of_cloud(clouds_file, cloud)?).await
    }

    /// Requests a token from the identity service, and finds the services in its catalog.
    pub async fn authenticate(credentials: &Credentials) -> Result<Client, ClientError> {
        let Credentials { origin, auth_url, body } = credentials;
        let http = http_to(auth_url)?;
        let request = format!("authentication as {origin}");
        let answer = http.post(format!("{auth_url}/v3/auth/tokens")).json(body).send().await;
        let unanswered = |source| ClientError::Unanswered { request: request.clone(), url: auth_url.clone(), source };
        let answer = answer.map_err(unanswered)?;
        let token = answer.headers().get("X-Subject-Token").and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned();
        let body = read(&request, answer).await?;
        let mut endpoints = public_endpoints(&body["token"]["catalog"]);
        endpoints.insert(OPERATORS.to_owned(), format!("{}/ops/v1", auth_url.trim_end_matches("/identity")));
        Ok(Client { http, token: Some(token), endpoints })
    }

    /// Makes a client for the service at this URL with a present token, or without one for a service that needs none.
    pub fn at(url: &str, token: Option<String>) -> Result<Client, ClientError> {
        let root = url.trim_end_matches('/').trim_end_matches("/ops/v1");
        let endpoints = [(OPERATORS, format!("{root}/ops/v1")), ("compute", format!("{root}/compute/v2.1"))];
        let endpoints = endpoints.into_iter().map(|(name, url)| (name.to_owned(), url)).collect();
        Ok(Client { http: http_to(root)?, token, endpoints })
    }

    /// Sends a GET of a path (and query) below a service's endpoint.
    pub async fn get(&self, service: &str, path: &str) -> Result<Value, ClientError> {
        self.send(reqwest::Method::GET, service, path, None).await
    }

    /// Sends a POST of a JSON body. Null if the answer has no body.
    pub async fn post(&self, service: &str, path: &str, body: Value) -> Result<Value, ClientError> {
        self.send(reqwest::Method::POST, service, path, Some(body)).await
    }

    /// Sends a PUT.
    pub async fn put(&self, service: &str, path: &str, body: Value) -> Result<Value, ClientError> {
        self.send(reqwest::Method::PUT, service, path, Some(body)).await
    }

    /// Sends a GET that is answered with server-sent events, and passes each to `observer` until the answer ends or `observer` breaks off.
    /// With `after`, the service begins behind the event with this id. Fails if a service that keeps the stream open is silent for a minute.
    pub async fn events(
        &self,
        service: &str,
        path: &str,
        after: Option<&str>,
        mut observer: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let endpoint = self.endpoints.get(service).ok_or_else(|| ClientError::NoService(service.to_owned()))?;
        let name = format!("GET {path}");
        let mut request = self.request(reqwest::Method::GET, &format!("{endpoint}{path}")).header("Accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        let unanswered = |source| ClientError::Unanswered { request: name.clone(), url: endpoint.clone(), source };
        let mut answer = request.send().await.map_err(unanswered)?;
        if !answer.status().is_success() {
            return read(&name, answer).await.map(drop);
        }
        let silent = || ClientError::Silent { request: name.clone(), patience: STREAM_PATIENCE };
        let mut waiting = Vec::new();
        while let Some(chunk) = tokio::time::timeout(STREAM_PATIENCE, answer.chunk()).await.map_err(|_| silent())?.map_err(unanswered)? {
            waiting.extend_from_slice(&chunk);
            while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = waiting.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&event);
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default();
                if observer(Event { id: field("id"), name: field("event"), data: field("data") }).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the client's token; none for a service that needs none.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the URL of a service.
    pub fn endpoint(&self, service: &str) -> Option<&str> {
        self.endpoints.get(service).map(String::as_str)
    }

    /// Sends a POST of a text with this content type.
    pub async fn post_text(&self, service: &str, path: &str, kind: &str, text: String) -> Result<Value, ClientError> {
        self.exchange(reqwest::Method::POST, service, path, |request| request.header("Content-Type", kind).body(text)).await
    }

    /// Sends a DELETE. Null if the answer has no body.
    pub async fn delete(&self, service: &str, path: &str) -> Result<Value, ClientError> {
        self.send(reqwest::Method::DELETE, service, path, None).await
    }

    async fn send(&self, method: reqwest::Method, service: &str, path: &str, body: Option<Value>) -> Result<Value, ClientError> {
        self.exchange(method, service, path, |request| match &body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn exchange(
        &self,
        method: reqwest::Method,
        service: &str,
        path: &str,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value, ClientError> {
        let endpoint = self.endpoints.get(service).ok_or_else(|| ClientError::NoService(service.to_owned()))?;
        let name = format!("{method} {path}");
        let request = self.request(method, &format!("{endpoint}{path}")).header("OpenStack-API-Version", COMPUTE_VERSION);
        let unanswered = |source| ClientError::Unanswered { request: name.clone(), url: endpoint.clone(), source };
        let answer = fill(request).send().await.map_err(unanswered)?;
        read(&name, answer).await
    }

    fn request(&self, method: reqwest::Method, url: &str) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header("X-Auth-Token", token),
            None => request,
        }
    }
}

/// The maximum silence of a stream: the service says something every quarter of a minute.
const STREAM_PATIENCE: Duration = Duration::from_secs(60);

/// The maximum time to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

fn http_to(url: &str) -> Result<reqwest::Client, ClientError> {
    match reqwest::Url::parse(url).is_ok_and(|url| url.scheme() == "http" && url.has_host()) {
        true => Ok(reqwest::Client::builder().connect_timeout(CONNECT_PATIENCE).build().unwrap_or_default()),
        false => Err(ClientError::Url(url.to_owned())),
    }
}

fn public_endpoints(catalog: &Value) -> BTreeMap<String, String> {
    let services = catalog.as_array().into_iter().flatten();
    let endpoints = services.filter_map(|service| {
        let public = service["endpoints"].as_array()?.iter().find(|endpoint| endpoint["interface"] == "public")?;
        Some((service["type"].as_str()?.to_owned(), public["url"].as_str()?.to_owned()))
    });
    endpoints.collect()
}

async fn read(request: &str, answer: reqwest::Response) -> Result<Value, ClientError> {
    let status = answer.status();
    let url = answer.url().to_string();
    let text = answer.text().await.map_err(|source| ClientError::Unanswered { request: request.to_owned(), url, source })?;
    match status.is_success() {
        true => Ok(serde_json::from_str(&text).unwrap_or(Value::Null)),
        false => Err(ClientError::Refused { request: request.to_owned(), status: status.as_u16(), message: message_in(text) }),
    }
}

/// Returns the message in the body of an error, or the body itself.
pub fn message_in(body: String) -> String {
    // Each service wraps its error in an object with one key.
    let error: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    let message = error.as_object().and_then(|object| object.values().next()).and_then(|error| error["message"].as_str());
    message.map(str::to_owned).unwrap_or(body)
}
