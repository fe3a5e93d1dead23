//! Operators who force a host down, evacuate its servers and force it up again. The host has lost its power, or lives on all the same.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::users::{Reach, Users};
use crate::actors::root::Tree;
use crate::chaos::experiment::short;
use crate::env::random::Random;
use crate::saga::accept;

/// The last version in which a host may be forced, the one in use, and the first after which an evacuated server stays off.
const FORCING: &str = "compute 2.67";
const PRESENT: &str = "compute 2.79";
const STAYING_OFF: &str = "compute 2.95";
/// The number of requests to force a host up: it is refused until the host has been cleaned up.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(2);
/// The drains of the operators' API.
const DRAINS: &str = "/ops/v1/drains";

/// Evacuates a random host. It is forced down first, with or without its power, and comes back at a random moment.
pub async fn empties_a_host(users: &Users, reach: &Reach, tree: &Tree, random: &mut Random) {
    let Some((cell, host)) = random.pick(&reach.hosts).cloned() else { return };
    let dies = random.percent(60);
    if dies && let Some(cell) = tree.cell(&cell) {
        reach.trace.note(format!("operator cuts the power of {host}"));
        // The end may take long, and no request reaches the host meanwhile.
        tokio::spawn(cell.hosts_here.power_off(&host, random.percent(70)));
    }
    force_down(users, reach, &host, true).await;
    let servers = servers_on(users, tree, &host).await;
    let away = Duration::from_millis(random.below(20_000));
    let evacuations = servers.into_iter().map(|server| {
        let mut random = Random::new(random.number(), "evacuation");
        async move { evacuate(users, reach, server, &mut random).await }
    });
    let returns = async {
        tokio::time::sleep(away).await;
        if dies && let Some(cell) = tree.cell(&cell) {
            reach.trace.note(format!("operator gives {host} its power again"));
            // Fails only if the cell is away: then the end of all faults gives the power back.
            drop(cell.hosts_here.power_on(&host).await);
        }
    };
    futures::future::join(futures::future::join_all(evacuations), returns).await;
    force_up(users, reach, &host).await;
}

async fn evacuate(users: &Users, reach: &Reach, server: Uuid, random: &mut Random) {
    tokio::time::sleep(Duration::from_millis(random.below(3_000))).await;
    let host = random.pick(&reach.hosts).map(|(_, host)| host.clone()).filter(|_| random.percent(25));
    let (version, body) = match (host, random.below(100)) {
        (Some(host), 0..50) => (FORCING, json!({"host": host, "force": true})),
        (Some(host), _) => (PRESENT, json!({"host": host})),
        (None, 0..15) => (STAYING_OFF, json!({})),
        (None, _) => (PRESENT, json!({})),
    };
    ask(users, reach, server, version, body).await;
}

/// Requests the evacuation of a server.
pub async fn ask(users: &Users, reach: &Reach, server: Uuid, version: &str, body: Value) -> (u16, Value) {
    let what = format!("evacuate {} {body}", short(server));
    let path = format!("/compute/v2.1/servers/{server}/action");
    reach.ask_in(version, users, &what, Method::POST, &path, Some(json!({"evacuate": body}))).await
}

/// Returns the users' servers whose records name this host.
async fn servers_on(users: &Users, tree: &Tree, host: &str) -> Vec<Uuid> {
    let mut servers = Vec::new();
    for server in users.all_servers() {
        let answer = tokio::time::timeout(Duration::from_secs(5), accept::find(&tree.world, server)).await;
        if matches!(answer, Ok(Ok((_, instance))) if instance.host.as_deref() == Some(host)) {
            servers.push(server);
        }
    }
    servers
}

/// Forces a host down, or up again. Returns the answer's status.
pub async fn force_down(users: &Users, reach: &Reach, host: &str, down: bool) -> u16 {
    let what = format!("force {host} {}", if down { "down" } else { "up" });
    // By the name of the host, as clients below 2.53 do.
    let body = json!({"host": host, "binary": "nova-compute", "forced_down": down});
    reach.ask_in("compute 2.52", users, &what, Method::PUT, "/compute/v2.1/os-services/force-down", Some(body)).await.0
}

/// Forces a host up, as soon as it has been cleaned up.
pub async fn force_up(users: &Users, reach: &Reach, host: &str) {
    for _ in 0..TRIES {
        if force_down(users, reach, host, false).await == 200 || users.stopped.get() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Drains a host, and waits until that is done. A drain that is at work there already is waited for, too: the answer to the request may be lost.
pub async fn drain(users: &Users, reach: &Reach, host: &str) {
    for _ in 0..TRIES {
        let body = json!({"host": host, "confirm": true});
        let (status, _) = reach.ask(users, &format!("drain {host}"), Method::POST, DRAINS, Some(body)).await;
        if (1..500).contains(&status) || users.stopped.get() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    while !users.stopped.get() && is_draining(reach, host).await {
        tokio::time::sleep(PAUSE).await;
    }
}

/// False if the newest drain of the host is over. An answer that does not come says nothing.
async fn is_draining(reach: &Reach, host: &str) -> bool {
    let (status, body) = reach.api.send(Method::GET, DRAINS, PRESENT, None).await;
    let mut drains = body["drains"].as_array().into_iter().flatten();
    let of_host = drains.find(|drain| drain["hosts"].as_array().is_some_and(|hosts| hosts.iter().any(|one| one == host)));
    status != 200 || of_host.is_some_and(|drain| drain["state"] == "running")
}
