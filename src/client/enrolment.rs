//! The request that enrols a host, for the commands that make an agent's configuration.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Client, ClientError, OPERATORS};

/// The parts of an agent's configuration that the service knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolled {
    /// The id of the deployment.
    pub deployment: Uuid,
    /// The addresses of the cell's NATS servers, as the controllers reach them.
    pub nats_servers: Vec<String>,
}

/// Enrols a host in a cell with the public half of its agent's key. Can be repeated.
pub async fn enrol(client: &Client, host: &str, cell: &str, public_key: &str) -> Result<Enrolled, ClientError> {
    let answer = client.put(OPERATORS, &path_of(host), json!({"cell": cell, "public_key": public_key})).await?;
    Ok(enrolled(&answer["enrolment"]["agent"]))
}

/// Returns the path of a host's enrolment below the operators' API.
pub fn path_of(host: &str) -> String {
    format!("/enrolments/{}", utf8_percent_encode(host, NON_ALPHANUMERIC))
}

fn enrolled(agent: &Value) -> Enrolled {
    let deployment = agent["deployment"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    let servers = agent["nats_servers"].as_array().into_iter().flatten();
    Enrolled { deployment, nats_servers: servers.filter_map(Value::as_str).map(str::to_owned).collect() }
}
