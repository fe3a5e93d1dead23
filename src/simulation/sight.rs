//! The sight that users have of the cloud beside the answers to their requests: from inside its process, or over its APIs.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api_client::ApiClient;
use crate::actors::root::Tree;
use crate::domain::host_trial::HostTrial;
use crate::domain::server::VmState;
use crate::saga::accept;
use crate::saga::refusal::Refusal;

/// The pause before another look at a journal that does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause between two looks over the APIs whether a server is at rest.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The maximum time for a guest to write.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
const VERSION: &str = "compute 2.79";
const TRIALS: &str = "/ops/v1/chaos/trials";

/// A way to see a cloud's servers.
#[derive(Clone)]
pub enum Sight {
    /// From inside the process of the controllers.
    Inside(Box<Tree>),
    /// Over the APIs, as an administrator.
    Outside(ApiClient),
}

/// The outcome of a look at a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// The server's record.
    Seen {
        /// The host, if it has one.
        host: Option<String>,
        /// True if the server is in ERROR.
        in_error: bool,
    },
    /// There is no such server.
    Missing,
    /// Nobody can tell now.
    Unknown,
}

impl Sight {
    /// Looks at a server.
    pub async fn look(&self, server: Uuid) -> Look {
        match self {
            Sight::Inside(tree) => match accept::find(&tree.world, server).await {
                Ok((_, instance)) => Look::Seen { in_error: instance.vm_state == VmState::Error, host: instance.host },
                Err(Refusal::NotFound(_)) => Look::Missing,
                Err(_) => Look::Unknown,
            },
            Sight::Outside(api) => match shown(api, server).await {
                (200, shown) => {
                    let host = shown["OS-EXT-SRV-ATTR:host"].as_str().map(str::to_owned);
                    Look::Seen { host, in_error: shown["status"] == "ERROR" }
                }
                (404, _) => Look::Missing,
                _ => Look::Unknown,
            },
        }
    }

    /// Returns the host of a server; none if it has none, or nobody can tell.
    pub async fn host_of(&self, server: Uuid) -> Option<String> {
        match self.look(server).await {
            Look::Seen { host, .. } => host,
            Look::Missing | Look::Unknown => None,
        }
    }

    /// Waits until no operation holds the server, even while its journal does not answer.
    pub async fn until_at_rest(&self, server: Uuid) {
        match self {
            Sight::Inside(tree) => {
                while tree.conductor.until_at_rest(server).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Sight::Outside(api) => {
                while !is_at_rest(api, server).await {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Lets the server's guest write to its disks, if it has an owner. Returns the host, and whether the guest has written: one that is off or out
    /// of reach has not.
    pub async fn write(&self, server: Uuid, bytes: impl FnOnce() -> Vec<u8>) -> Option<(String, bool)> {
        match self {
            Sight::Inside(tree) => {
                let (cell, host) = tree.world.operations.ownership(server).await.ok()??.owner?;
                let cell = tree.cell(&cell)?;
                let written = cell.hosts.trial(&host, HostTrial::GuestWrite { server, bytes: bytes() }, WRITE_PATIENCE).await;
                Some((host, matches!(written, Ok(Ok(_)))))
            }
            Sight::Outside(api) => {
                let host = self.host_of(server).await?;
                let trial = json!({"host": host, "trial": HostTrial::GuestWrite { server, bytes: bytes() }});
                let (status, _) = api.send(Method::POST, TRIALS, VERSION, Some(trial)).await;
                Some((host, status == 200))
            }
        }
    }
}

/// Returns the status of the answer, and the server in it.
async fn shown(api: &ApiClient, server: Uuid) -> (u16, Value) {
    let (status, body) = api.send(Method::GET, &format!("/compute/v2.1/servers/{server}"), VERSION, None).await;
    (status, body["server"].clone())
}

/// True if each operation of the server is over.
async fn is_at_rest(api: &ApiClient, server: Uuid) -> bool {
    let (status, body) = api.send(Method::GET, &format!("/ops/v1/migrations?server={server}"), VERSION, None).await;
    let is_over = |operation: &Value| ["done", "unwound"].contains(&operation["state"].as_str().unwrap_or_default());
    status == 200 && body["migrations"].as_array().is_some_and(|all| all.iter().all(is_over))
}
