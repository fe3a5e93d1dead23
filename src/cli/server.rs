//! `cellshift server NAME|ID`: all about a server. Each part is asked for by itself; one that is refused says why in its place.

mod report;

use std::process::ExitCode;

use clap::Args;
use futures::future::{join, join4};
use serde_json::{Value, json};
use uuid::Uuid;

use super::output::{Asked, on_service};
use super::progress::patiently;
use super::servers::Names;
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
    asked: Asked,
}

/// Shows the server.
pub(super) fn run(options: Server) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = options.asked.reach.client().await?;
        let id = names::server(&client, &options.server).await?;
        let answer = patiently("reading the server", read(&client, id)).await?;
        options.asked.output.show(&answer, |answer| report::whole(answer, Env::system().now()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads all parts at once. Without the server itself there is nothing to show.
async fn read(client: &Client, id: Uuid) -> Result<Value, Failure> {
    let server = client.get("compute", &format!("/servers/{id}")).await?["server"].clone();
    let (volumes, interfaces) = (format!("/servers/{id}/os-volume_attachments"), format!("/servers/{id}/os-interface"));
    let (record, operations) = (format!("/servers/{id}"), format!("/migrations?server={id}&limit={OPERATIONS}"));
    let destinations = format!("/servers/{id}/destinations");
    let of_compute = join(client.get("compute", &volumes), client.get("compute", &interfaces));
    let of_operators = join4(
        client.get(OPERATORS, &record),
        client.get(OPERATORS, &operations),
        client.get(OPERATORS, &destinations),
        image_name(client, &server),
    );
    let ((volumes, ports), (record, operations, destinations, image)) = join(of_compute, of_operators).await;
    let entry = Names::read(client).await?.entry(&server);
    Ok(json!({
        "entry": entry,
        "server": server,
        "image_name": image,
        "volumes": part(volumes, "volumeAttachments"),
        "ports": part(ports, "interfaceAttachments"),
        "record": whole(record),
        "operations": part(operations, "migrations"),
        "destinations": whole(destinations),
    }))
}

/// Returns the name of the server's image; none if it has no image, or the image is gone.
async fn image_name(client: &Client, server: &Value) -> Option<String> {
    let id = server["image"]["id"].as_str()?;
    let image = client.get("image", &format!("/v2/images/{id}")).await.ok()?;
    image["name"].as_str().map(str::to_owned)
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
