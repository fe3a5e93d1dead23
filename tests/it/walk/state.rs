//! The states of a server, and how a server with a volume and a port comes into each.

use std::fmt;

use serde_json::{Value, json};

use crate::access::house::{Answer, House};
use crate::access::row::Body;

/// The newest microversion that the walk speaks where a row has no other.
const VERSION: &str = "compute 2.90";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Active,
    Stopped,
    Paused,
    Suspended,
    Rescued,
    Shelved,
    Offloaded,
    Moved,
    Failed,
    /// Deleted in a cloud that keeps deleted servers for a while.
    SoftDeleted,
}

impl State {
    pub const ALL: [State; 10] = [
        State::Active,
        State::Stopped,
        State::Paused,
        State::Suspended,
        State::Rescued,
        State::Shelved,
        State::Offloaded,
        State::Moved,
        State::Failed,
        State::SoftDeleted,
    ];

    /// Returns the status that users see.
    pub fn status(self) -> &'static str {
        match self {
            State::Active => "ACTIVE",
            State::Stopped => "SHUTOFF",
            State::Paused => "PAUSED",
            State::Suspended => "SUSPENDED",
            State::Rescued => "RESCUE",
            State::Shelved => "SHELVED",
            State::Offloaded => "SHELVED_OFFLOADED",
            State::Moved => "VERIFY_RESIZE",
            State::Failed => "ERROR",
            State::SoftDeleted => "SOFT_DELETED",
        }
    }

    /// True if the cloud keeps deleted servers.
    pub fn is_kept(self) -> bool {
        self == State::SoftDeleted
    }

    /// Returns the actions that lead an ACTIVE server into the state, or before the delete that does.
    fn way(self) -> Vec<Value> {
        match self {
            State::Active | State::SoftDeleted => vec![],
            State::Stopped => vec![json!({"os-stop": null})],
            State::Paused => vec![json!({"pause": null})],
            State::Suspended => vec![json!({"suspend": null})],
            State::Rescued => vec![json!({"rescue": null})],
            State::Shelved => vec![json!({"shelve": null})],
            State::Offloaded => vec![json!({"shelve": null}), json!({"shelveOffload": null})],
            State::Moved => vec![json!({"resize": {"flavorRef": "m1.small"}})],
            State::Failed => vec![json!({"os-resetState": {"state": "error"}})],
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.status())
    }
}

/// A server with a volume and a port.
pub struct Subject {
    pub server: String,
    pub volume: String,
    pub port: String,
    /// None for a server without a host.
    pub host: Option<String>,
}

impl Subject {
    /// Makes a server in the state.
    pub async fn make(house: &House, state: State) -> Result<Subject, String> {
        let server = house.another("server").await;
        let volume = house.another("volume").await;
        let port = house.look(&format!("/network/v2.0/ports?device_id={server}"), "/ports/0/id").await;
        let mut subject = Subject { server, volume, port, host: None };
        let attach = json!({"volumeAttachment": {"volumeId": subject.volume}});
        subject.lead(house, "os-volume_attachments", attach).await?;
        for action in state.way() {
            subject.lead(house, "action", action).await?;
        }
        if state.is_kept() {
            let deleted = subject.delete(house).await;
            house.rest().await;
            if deleted.status != 204 {
                return Err(format!("on the way to the state: {} {}", deleted.status, deleted.text));
            }
        }
        let shown = subject.show(house).await.json();
        if shown["server"]["status"] != state.status() {
            return Err(format!("the server did not come into its state: {}", shown["server"]["status"]));
        }
        subject.host = shown["server"]["OS-EXT-SRV-ATTR:host"].as_str().map(str::to_owned);
        Ok(subject)
    }

    /// Sends a request that must succeed, and waits for its end.
    async fn lead(&self, house: &House, part: &str, body: Value) -> Result<(), String> {
        let path = format!("/compute/v2.1/servers/{}/{part}", self.server);
        let answer = house.send_as("admin", "POST", &path, VERSION, &Body::Json(body)).await;
        house.rest().await;
        if answer.status < 300 { Ok(()) } else { Err(format!("on the way to the state: {} {}", answer.status, answer.text)) }
    }

    pub async fn show(&self, house: &House) -> Answer {
        house.send_as("admin", "GET", &format!("/compute/v2.1/servers/{}", self.server), VERSION, &Body::None).await
    }

    /// Deletes the server for good, also if the cloud keeps deleted servers.
    pub async fn remove(&self, house: &House, state: State) -> Answer {
        if !state.is_kept() {
            return self.delete(house).await;
        }
        let path = format!("/compute/v2.1/servers/{}/action", self.server);
        house.send_as("admin", "POST", &path, VERSION, &Body::Json(json!({"forceDelete": null}))).await
    }

    async fn delete(&self, house: &House) -> Answer {
        house.send_as("admin", "DELETE", &format!("/compute/v2.1/servers/{}", self.server), VERSION, &Body::None).await
    }
}
