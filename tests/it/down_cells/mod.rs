//! Lists, views and changes while a cell is down, and the return to normal when it is back (DOWN-CELLS ).

mod bodies;
mod consumers;
mod health;
mod lists;
mod real_databases;
mod shows;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::{Config, Seconds};
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::stage::Stage;

/// Probes a cell that is down frequently, and limits requests' wait for it.
fn quick(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
    config.cells.timeout = Seconds::whole(2);
}

/// Puts the cell's database in this state, and returns once the controller knows it.
async fn set(stage: &Stage, cell: &str, outage: Outage) {
    stage.cell(cell).db().set_outage(outage);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    if outage == Outage::None {
        stage.until("the cell answers again", || async { health.is_up() }).await;
    } else {
        // The first failure starts the probes.
        stage.admin.get("/os-services").await.expect(200);
        stage.until("the cell is known to be down", || async { !health.is_up() }).await;
    }
}

/// Returns the names of an object's keys, in order.
fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().map(String::as_str).collect()
}

/// Returns the ids of a list's servers with their status, in order.
fn entries(list: &Value) -> Vec<(Uuid, String)> {
    let servers = list["servers"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    servers.iter().map(|server| (id_of(server), server["status"].as_str().unwrap_or_default().to_owned())).collect()
}

/// Returns the ids of a list that must be answered.
async fn listed(user: &User, path: &str) -> Vec<Uuid> {
    entries(&user.get(path).await.expect(200).body).into_iter().map(|(id, _)| id).collect()
}

/// Checks for a 503 that names the cell, and since when it is down.
#[track_caller]
fn not_now(answer: Answer, cell: &str) {
    let answer = answer.expect(503);
    assert!(answer.headers.contains_key("Retry-After"), "{}", answer.text);
    let message = answer.message();
    assert!(message.contains(&format!("cell {cell} is down since 20")), "{message}");
}
