//! Users who shelve their servers, have them leave their hosts, and take them out again.

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::users::{Reach, Users};
use crate::chaos::experiment::short;
use crate::env::random::Random;

/// The version since which an unshelve may name a host.
const NAMING_HOSTS: &str = "compute 2.91";

/// Shelves a server.
pub async fn puts_away(users: &Users, reach: &Reach, server: Uuid) {
    act(users, reach, server, json!({"shelve": null})).await;
}

/// Unshelves a server, sometimes onto a host with this name; or has it leave its host.
pub async fn takes_out(users: &Users, reach: &Reach, server: Uuid, random: &mut Random) {
    let action = match (random.below(100), random.pick(&reach.hosts)) {
        (0..20, _) => json!({"shelveOffload": null}),
        (20..50, Some((_, host))) => json!({"unshelve": {"host": host}}),
        _ => json!({"unshelve": null}),
    };
    act(users, reach, server, action).await;
}

async fn act(users: &Users, reach: &Reach, server: Uuid, action: Value) {
    let what = format!("{} of {}", action, short(server));
    let path = format!("/compute/v2.1/servers/{server}/action");
    reach.ask_in(NAMING_HOSTS, users, &what, Method::POST, &path, Some(action)).await;
}
