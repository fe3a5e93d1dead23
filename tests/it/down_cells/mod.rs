//! A cell is down: what is listed, shown and done meanwhile, and that all of it is whole again when the cell is back
//! (DOWN-CELLS ).

mod bodies;
mod consumers;
mod health;
mod lists;
mod real_databases;
mod shows;

use cellshift::config::{Config, Seconds};
use cellshift::db::Outage;
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::stage::Stage;

/// A cell that is down is asked again at once, and no request waits long for one.
fn quick(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
    config.cells.timeout = Seconds::whole(2);
}

/// The cell's database is in this state from now on, and the controller knows when this returns.
async fn set(stage: &Stage, cell: &str, outage: Outage) {
    stage.cell(cell).db().set_outage(outage);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    if outage == Outage::None {
        stage.until("the cell answers again", || async { health.is_up() }).await;
    } else {
        // The first failure sends the probes.
        stage.admin.get("/os-services").await.expect(200);
        stage.until("the cell is known to be down", || async { !health.is_up() }).await;
    }
}

/// The names of an object's keys, in their order.
fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().map(String::as_str).collect()
}

/// The ids of a list's servers with their status, in the list's order.
fn entries(list: &Value) -> Vec<(Uuid, String)> {
    let servers = list["servers"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    servers.iter().map(|server| (id_of(server), server["status"].as_str().unwrap_or_default().to_owned())).collect()
}

/// The ids of a list that must be answered.
async fn listed(user: &User, path: &str) -> Vec<Uuid> {
    entries(&user.get(path).await.expect(200).body).into_iter().map(|(id, _)| id).collect()
}

/// An answer that says: not now, and which cell it is due to since when.
#[track_caller]
fn not_now(answer: Answer, cell: &str) {
    let answer = answer.expect(503);
    assert!(answer.headers.contains_key("Retry-After"), "{}", answer.text);
    let message = answer.message();
    assert!(message.contains(&format!("cell {cell} is down since 20")), "{message}");
}
