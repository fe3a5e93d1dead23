//! Users who move running servers: to a host that they name or to any, with an abort or a forced end at a random moment of the copy.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::users::{Reach, Users};
use crate::chaos::experiment::short;
use crate::env::random::Random;

/// The last version in which a host may be forced.
const FORCING: &str = "compute 2.67";
const PRESENT: &str = "compute 2.79";
/// The number of looks for a live migration that is in progress, and the pause between two.
const LOOKS: u32 = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The ways to steer a live migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steer {
    Abort,
    ForceComplete,
}

/// Requests a live migration. Half of them are steered at a random moment.
pub async fn moves(users: &Users, reach: &Reach, server: Uuid, random: &mut Random) {
    let host = random.pick(&reach.hosts).map(|(_, host)| host.clone()).filter(|_| random.percent(40));
    let forced = host.is_some() && random.percent(30);
    let steered = random.percent(50);
    let (status, _) = ask(users, reach, server, host.as_deref(), forced).await;
    if status == 202 && steered {
        steers(users, reach, server, random).await;
    }
}

/// Sends the request. Below 2.68 a host may be forced.
pub async fn ask(users: &Users, reach: &Reach, server: Uuid, host: Option<&str>, forced: bool) -> (u16, Value) {
    let mut body = json!({"host": host, "block_migration": "auto"});
    if forced {
        body["force"] = json!(true);
    }
    let what = format!("os-migrateLive {} {body}", short(server));
    let version = if forced { FORCING } else { PRESENT };
    let path = format!("/compute/v2.1/servers/{server}/action");
    reach.ask_in(version, users, &what, Method::POST, &path, Some(json!({"os-migrateLive": body}))).await
}

/// Aborts or hastens the server's live migration a random time after it is seen; a tenth of a second decides whether it meets the end.
pub async fn steers(users: &Users, reach: &Reach, server: Uuid, random: &mut Random) {
    let after = Duration::from_millis(if random.percent(50) { random.below(300) } else { random.below(3_000) });
    let steer = if random.percent(60) { Steer::Abort } else { Steer::ForceComplete };
    steer_after(users, reach, server, steer, after).await;
}

/// Steers the server's live migration this long after it is seen. Nothing is asked if none is seen in time. Returns the answer's status.
pub async fn steer_after(users: &Users, reach: &Reach, server: Uuid, steer: Steer, after: Duration) -> Option<u16> {
    let number = in_progress(reach, server).await?;
    tokio::time::sleep(after).await;
    let path = format!("/compute/v2.1/servers/{server}/migrations/{number}");
    let (status, _) = match steer {
        Steer::Abort => reach.ask(users, &format!("abort the live migration of {}", short(server)), Method::DELETE, &path, None).await,
        Steer::ForceComplete => {
            let what = format!("force the live migration of {}", short(server));
            reach.ask(users, &what, Method::POST, &format!("{path}/action"), Some(json!({"force_complete": null}))).await
        }
    };
    Some(status)
}

/// Waits for a live migration in progress, and returns its number.
async fn in_progress(reach: &Reach, server: Uuid) -> Option<i64> {
    let path = format!("/compute/v2.1/servers/{server}/migrations");
    for _ in 0..LOOKS {
        let answer = tokio::time::timeout(Duration::from_secs(30), reach.api.send(Method::GET, &path, PRESENT, None)).await;
        match answer {
            Ok((404, _)) => return None,
            Ok((200, body)) => {
                if let Some(number) = body["migrations"][0]["id"].as_i64() {
                    return Some(number);
                }
            }
            _ => {}
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    None
}
