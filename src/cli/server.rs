//! `cellshift server NAME|ID`: all about a server. Each part is asked for by itself; one that is refused says why in its place.

mod report;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use futures::future::{join, join_all, join3};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::output::{ServiceOptions, on_service};
use super::progress::patiently;
use super::servers::Names;
use super::watch::{Screen, Watch};
use super::{Failure, names};
use crate::client::{Client, ClientError, OPERATORS};
use crate::env::Env;

/// The newest operations that are shown.
const OPERATIONS: u32 = 10;

/// The server to show.
#[derive(Args)]
pub(super) struct Server {
    /// The server: its name, its id, or the beginning of its id.
    #[arg(value_name = "NAME|ID")]
    server: String,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    watch: Watch,
}

/// Shows the server.
pub(super) fn run(Server { server, service, watch }: Server) -> Result<ExitCode, Failure> {
    on_service(watch.screens(service, async |client| {
        let id = names::server(client, &server).await?;
        let answer = patiently("reading the server", read(client, id)).await?;
        Ok(Screen { text: report::whole(&answer, Env::system().now()), answer, remarks: Vec::new() })
    }))
}

/// Reads all parts at once. Without the server itself there is nothing to show.
async fn read(client: &Client, id: Uuid) -> Result<Value, Failure> {
    let server = client.get("compute", &format!("/servers/{id}")).await?["server"].clone();
    let (volumes, interfaces) = (format!("/servers/{id}/os-volume_attachments"), format!("/servers/{id}/os-interface"));
    let (record, operations) = (format!("/servers/{id}"), format!("/migrations?server={id}&limit={OPERATIONS}"));
    let destinations = format!("/servers/{id}/destinations");
    let of_compute = join(client.get("compute", &volumes), client.get("compute", &interfaces));
    let of_operators = join3(client.get(OPERATORS, &record), client.get(OPERATORS, &operations), client.get(OPERATORS, &destinations));
    let ((volumes, ports), (record, operations, destinations)) = join(of_compute, of_operators).await;
    let (volumes, ports) = (part(volumes, "volumeAttachments"), part(ports, "interfaceAttachments"));
    let names = names_of_parts(client, &server, &volumes, &ports).await;
    let entry = Names::read(client).await?.entry(&server);
    Ok(json!({
        "entry": entry,
        "server": server,
        "names": names,
        "volumes": volumes,
        "ports": ports,
        "record": whole(record),
        "operations": part(operations, "migrations"),
        "destinations": whole(destinations),
    }))
}

/// Returns the names of the server's image, user, volumes and networks by their ids, as far as the caller may read them.
async fn names_of_parts(client: &Client, server: &Value, volumes: &Value, ports: &Value) -> Map<String, Value> {
    let ids = |part: &Value, key: &str| -> BTreeSet<String> {
        part.as_array().into_iter().flatten().filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect()
    };
    let id_of = |value: &Value| value.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let kinds = [
        (id_of(&server["image"]["id"]).into_iter().collect(), "image", "/v2/images", None),
        (id_of(&server["user_id"]).into_iter().collect(), "identity", "/v3/users", Some("user")),
        (ids(volumes, "volumeId"), "volumev3", "/volumes", Some("volume")),
        (ids(ports, "net_id"), "network", "/v2.0/networks", Some("network")),
    ];
    let requests = kinds.into_iter().flat_map(|(ids, service, path, key)| ids.into_iter().map(move |id| (id, service, path, key)));
    let read = requests.map(|(id, service, path, key)| async move {
        let answer = client.get(service, &format!("{path}/{}", utf8_percent_encode(&id, NON_ALPHANUMERIC))).await.ok()?;
        let name = key.map_or(&answer["name"], |key| &answer[key]["name"]);
        Some((id, Value::from(name.as_str().filter(|name| !name.is_empty())?)))
    });
    join_all(read).await.into_iter().flatten().collect()
}

/// Returns a part of the answer, or the reason why there is none.
fn part(answer: Result<Value, ClientError>, key: &str) -> Value {
    whole(answer.map(|answer| answer[key].clone()))
}

fn whole(answer: Result<Value, ClientError>) -> Value {
    answer.unwrap_or_else(|error| match error {
        ClientError::Refused { message, .. } => json!({ "refused": message }),
        other => json!({ "refused": other.to_string() }),
    })
}
