//! A server of the story: made over the API with a port and a volume, and checked.

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::stage::{LOOK_EVERY, PATIENCE, Stage, items, text};
use super::{DemoError, expect};
use crate::client::OPERATORS;
use crate::domain::host_trial::HostTrial;

/// A server with its port and volume.
pub struct Server {
    pub id: Uuid,
    pub name: String,
    pub port: String,
    pub volume: String,
}

/// The API's view of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    pub status: String,
    pub task: Option<String>,
    pub host: String,
    pub flavor: String,
    pub addresses: Vec<String>,
    /// The reason why it is in ERROR.
    pub fault: String,
}

impl Server {
    /// Makes a port, a volume and a server with both, and waits until it runs.
    pub async fn create(stage: &Stage, name: &str, flavor: &str) -> Result<Server, DemoError> {
        let (member, narrator) = (&stage.member, &stage.narrator);
        let networks = member.get("network", "/v2.0/networks?name=private").await?;
        let network = first(&networks["networks"], "network private")?;
        narrator.command(&format!("openstack port create --network private {name}-port"));
        let body = json!({"port": {"name": format!("{name}-port"), "network_id": network["id"]}});
        let port = member.post("network", "/v2.0/ports", body).await?;
        narrator.command(&format!("openstack volume create --size 1 {name}-volume"));
        let body = json!({"volume": {"name": format!("{name}-volume"), "size": 1}});
        let volume = member.post("block-storage", "/volumes", body).await?;
        let images = member.get("image", "/v2/images?name=tiny").await?;
        narrator.command(&format!("openstack server create --flavor {flavor} --image tiny --port {name}-port {name} --wait"));
        let body = json!({"server": {
            "name": name,
            "flavorRef": flavor_id(stage, flavor).await?,
            "imageRef": first(&images["images"], "image tiny")?["id"],
            "networks": [{"port": port["port"]["id"]}],
        }});
        let made = member.post("compute", "/servers", body).await?;
        let id = text(&made["server"], "id").parse().map_err(|_| DemoError::Wrong("a new server has no id".into()))?;
        let id_of = |value: &Value| text(value, "id").to_owned();
        let server = Server { id, name: name.to_owned(), port: id_of(&port["port"]), volume: id_of(&volume["volume"]) };
        server.until(stage, "ACTIVE", &["BUILD"]).await?;
        server.attach(stage).await?;
        Ok(server)
    }

    async fn attach(&self, stage: &Stage) -> Result<(), DemoError> {
        let name = &self.name;
        stage.narrator.command(&format!("openstack server add volume {name} {name}-volume"));
        let body = json!({"volumeAttachment": {"volumeId": self.volume}});
        stage.member.post("compute", &format!("/servers/{}/os-volume_attachments", self.id), body).await?;
        let deadline = Instant::now() + PATIENCE;
        while self.volume_status(stage).await? != "in-use" {
            if Instant::now() > deadline {
                return Err(DemoError::TooLong { what: format!("the volume of server {name} is in use"), patience: PATIENCE });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.at_rest(stage).await
    }

    async fn volume_status(&self, stage: &Stage) -> Result<String, DemoError> {
        let volume = stage.member.get("block-storage", &format!("/volumes/{}", self.volume)).await?;
        Ok(text(&volume["volume"], "status").to_owned())
    }

    /// Waits until no operation holds the server: an operation's last step may follow the state that users see.
    async fn at_rest(&self, stage: &Stage) -> Result<(), DemoError> {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen_by_operators(stage).await?["held_by"].is_null() {
            if Instant::now() > deadline {
                return Err(DemoError::TooLong { what: format!("server {} is at rest", self.name), patience: PATIENCE });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Returns what the audit compares for the server: its owner, and the guests and disks that hosts have.
    async fn seen_by_operators(&self, stage: &Stage) -> Result<Value, DemoError> {
        Ok(stage.admin.get(OPERATORS, &format!("/servers/{}", self.id)).await?)
    }

    /// Checks that the volume is attached to the guest on this host.
    pub async fn check_volume_at(&self, stage: &Stage, host: &str) -> Result<(), DemoError> {
        let seen = self.seen_by_operators(stage).await?;
        let guest = items(&seen["guests"]).iter().find(|guest| guest["host"] == host);
        match guest.is_some_and(|guest| guest["volumes"].to_string().contains(&self.volume)) {
            true => Ok(()),
            false => Err(DemoError::Wrong(format!("the volume of server {} is not attached at host {host}", self.name))),
        }
    }

    /// Returns the operator's view, which has the host.
    pub async fn look(&self, stage: &Stage) -> Result<Sight, DemoError> {
        let body = stage.admin.get("compute", &format!("/servers/{}", self.id)).await?;
        let server = &body["server"];
        let networks = server["addresses"].as_object().into_iter().flatten();
        let addresses = networks.flat_map(|(_, addresses)| items(addresses)).map(|address| text(address, "addr").to_owned());
        Ok(Sight {
            status: text(server, "status").to_owned(),
            task: server["OS-EXT-STS:task_state"].as_str().map(str::to_owned),
            host: text(server, "OS-EXT-SRV-ATTR:host").to_owned(),
            flavor: text(&server["flavor"], "original_name").to_owned(),
            addresses: addresses.collect(),
            fault: text(&server["fault"], "message").to_owned(),
        })
    }

    /// Requests an action as the server's owner.
    pub async fn act(&self, stage: &Stage, body: Value) -> Result<(), DemoError> {
        stage.member.post("compute", &format!("/servers/{}/action", self.id), body).await?;
        Ok(())
    }

    /// Waits for a status, and prints the tasks on the way. Fails on any other status.
    pub async fn until(&self, stage: &Stage, status: &str, on_the_way: &[&str]) -> Result<Sight, DemoError> {
        let deadline = Instant::now() + PATIENCE;
        let mut tasks: Vec<String> = Vec::new();
        loop {
            let sight = self.look(stage).await?;
            if sight.status == status && sight.task.is_none() {
                if !tasks.is_empty() {
                    stage.narrator.fact("tasks", &tasks.join(" → "));
                }
                self.show(stage, &sight).await?;
                return Ok(sight);
            }
            tasks.extend(sight.task.clone().filter(|task| tasks.last() != Some(task)));
            if sight.status != status && !on_the_way.contains(&&*sight.status) {
                let fault = if sight.fault.is_empty() { String::new() } else { format!(" ({})", sight.fault) };
                return Err(DemoError::Wrong(format!("server {} is {}{fault} and should become {status}", self.name, sight.status)));
            }
            if Instant::now() > deadline {
                return Err(DemoError::TooLong { what: format!("server {} is {status}", self.name), patience: PATIENCE });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn show(&self, stage: &Stage, sight: &Sight) -> Result<(), DemoError> {
        let cell = stage.cell_of(&sight.host).await?;
        let status = stage.narrator.paint("1", &sight.status);
        let place = format!("{status} on {} in {cell}, flavor {}, address {}", sight.host, sight.flavor, sight.addresses.join(", "));
        stage.narrator.fact(&self.name, &place);
        Ok(())
    }

    /// Lets the guest write a line to each of its disks.
    pub async fn write(&self, stage: &Stage, host: &str, line: &str) -> Result<(), DemoError> {
        let write = HostTrial::GuestWrite { server: self.id, bytes: format!("\n{line}\n").into_bytes() };
        stage.trial(host, write).await?;
        stage.narrator.fact("guest", &format!("writes to its disks: “{line}”"));
        Ok(())
    }

    /// Checks that port and volume are with the server: the port is bound to the host and active, and the volume is in use.
    pub async fn check_belongings(&self, stage: &Stage, host: &str) -> Result<(), DemoError> {
        let port = stage.admin.get("network", &format!("/v2.0/ports/{}", self.port)).await?;
        expect("the host of the port", text(&port["port"], "binding:host_id"), host)?;
        expect("the status of the port", text(&port["port"], "status"), "ACTIVE")?;
        expect("the status of the volume", &*self.volume_status(stage).await?, "in-use")
    }

    /// Checks that a host has no guest and no disk of this server.
    pub async fn check_gone_from(&self, stage: &Stage, host: &str) -> Result<(), DemoError> {
        let seen = self.seen_by_operators(stage).await?;
        let is_here = |entry: &Value| entry["host"] == host;
        if let Some(silent) = items(&seen["silent_hosts"]).iter().find(|entry| is_here(entry)) {
            return Err(DemoError::Wrong(text(silent, "reason").to_owned()));
        }
        match items(&seen["guests"]).iter().any(is_here) {
            true => Err(DemoError::Wrong(format!("host {host} still has something of server {}", self.name))),
            false => Ok(()),
        }
    }
}

/// Returns a flavor's id by its name.
pub async fn flavor_id(stage: &Stage, name: &str) -> Result<String, DemoError> {
    let flavors = stage.member.get("compute", "/flavors").await?;
    let flavor = items(&flavors["flavors"]).iter().find(|flavor| flavor["name"] == name);
    Ok(text(flavor.ok_or_else(|| DemoError::Wrong(format!("there is no flavor {name}")))?, "id").to_owned())
}

fn first<'a>(list: &'a Value, what: &str) -> Result<&'a Value, DemoError> {
    items(list).first().ok_or_else(|| DemoError::Wrong(format!("there is no {what}")))
}
