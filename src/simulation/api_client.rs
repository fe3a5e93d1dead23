//! The users' way to the APIs: on the caller's thread, or over HTTP.

use actix_web::http::Method;
use serde_json::Value;

use crate::http::in_process::InProcess;

/// A way to the APIs. Cheap to clone.
#[derive(Clone)]
pub enum ApiClient {
    /// Without a socket.
    InProcess(InProcess),
    /// At this address; without a token if the cloud takes everybody for its administrator.
    Http { client: reqwest::Client, root: String, token: Option<String> },
}

impl ApiClient {
    /// Returns the way to the service at an address.
    pub fn at(address: std::net::SocketAddr, token: Option<String>) -> ApiClient {
        ApiClient::Http { client: reqwest::Client::new(), root: format!("http://{address}"), token }
    }

    /// Sends a request. Returns the status (0 without an answer) and the JSON body, which is null if there is none.
    pub async fn send(&self, method: Method, path: &str, version: &str, body: Option<Value>) -> (u16, Value) {
        match self {
            ApiClient::InProcess(api) => api.send(method, path, version, body).await,
            ApiClient::Http { client, root, token } => {
                let method = reqwest::Method::from_bytes(method.as_str().as_bytes()).unwrap_or_default();
                let mut request = client.request(method, format!("{root}{path}")).header("OpenStack-API-Version", version);
                if let Some(token) = token {
                    request = request.header("X-Auth-Token", token);
                }
                if let Some(body) = body {
                    request = request.json(&body);
                }
                let Ok(answer) = request.send().await else { return (0, Value::Null) };
                let status = answer.status().as_u16();
                // A service that died during its answer has not answered.
                match answer.bytes().await {
                    Ok(bytes) => (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
                    Err(_) => (0, Value::Null),
                }
            }
        }
    }
}
