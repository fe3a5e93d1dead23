//! The operators' API of a running service, as the subcommands ask it: with the administrator of its `clouds.yaml`.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Failure;
use crate::config::Config;

/// Why the service did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{} cannot be read ({reason}): name the running service's directory with --data-dir", path.display())]
    NoClouds { path: PathBuf, reason: String },
    #[error("no service answers at {url}: start it with `cellshift serve` ({source})")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the service refused: {0}")]
    Refused(String),
}

#[derive(Deserialize)]
struct Clouds {
    clouds: std::collections::BTreeMap<String, Cloud>,
}

#[derive(Deserialize)]
struct Cloud {
    auth: Auth,
}

#[derive(Deserialize)]
struct Auth {
    auth_url: String,
    username: String,
    password: String,
    project_name: String,
}

/// A service, and a token for it.
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    /// Authenticates as the administrator.
    pub async fn connect(config: &Config) -> Result<Client, Failure> {
        let path = config.data_dir.join("clouds.yaml");
        let unreadable = |reason: String| ClientError::NoClouds { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
        let mut clouds: Clouds = serde_yaml_ng::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        let auth = clouds.clouds.remove("cellshift-admin").ok_or_else(|| unreadable("it has no cloud cellshift-admin".into()))?.auth;
        let base = auth.auth_url.trim_end_matches("/identity").to_owned();
        let http = reqwest::Client::new();
        let domain = json!({"name": "Default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": auth.username, "password": auth.password, "domain": domain}}},
            "scope": {"project": {"name": auth.project_name, "domain": domain}},
        }});
        let answer = http.post(format!("{}/v3/auth/tokens", auth.auth_url)).json(&body).send().await;
        let answer = answer.map_err(|source| ClientError::Unreachable { url: base.clone(), source })?;
        let token = answer.headers().get("X-Subject-Token").and_then(|token| token.to_str().ok()).map(str::to_owned);
        match token {
            Some(token) => Ok(Client { http, base, token }),
            None => Err(ClientError::Refused(said(&answer.json().await?)).into()),
        }
    }

    /// Asks for a resource of the operators' API.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.base);
        let request = self.http.get(&url).query(query).header("X-Auth-Token", &self.token);
        let answer = request.send().await.map_err(|source| ClientError::Unreachable { url: self.base.clone(), source })?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        if status.is_success() { Ok(body) } else { Err(ClientError::Refused(said(&body)).into()) }
    }
}

/// The message of an error body of any API.
fn said(body: &Value) -> String {
    let message = body.as_object().and_then(|object| object.values().next()).and_then(|error| error["message"].as_str());
    message.map_or_else(|| body.to_string(), str::to_owned)
}
