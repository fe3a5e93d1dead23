//! A client that moves its server to and fro, writes to its metadata in between, and goes on when the service comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::history::{Answered, Event, History};
use crate::client::{Answer, NewServer, User, id_of, nothing_is_left};

/// The address of the service while it lives.
#[derive(Clone)]
pub struct RunningService {
    pub member: User,
    pub admin: User,
}

/// The life that a client gives its server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Moves it to the other generation of hardware, and confirms or reverts.
    Moves,
    /// Shelves it, offloads it, and unshelves it in its cell or in the other.
    Shelves,
}

/// Tells clients to bring their servers to rest and to end.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn now(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The progress of all clients together.
#[derive(Default)]
pub struct Progress {
    /// The number of servers that were made and seen at rest.
    pub made: usize,
    /// The number of accepted creates and actions.
    pub accepted: usize,
    /// The number of answered looks at servers.
    pub answers: usize,
}

/// The statuses in which a server may be at rest.
const RESTING: [&str; 5] = ["ACTIVE", "VERIFY_RESIZE", "SHELVED", "SHELVED_OFFLOADED", "ERROR"];

/// The state that a look showed.
struct Seen {
    status: String,
    flavor: String,
    zone: String,
    rests: bool,
}

struct Client {
    kind: Life,
    life: watch::Receiver<Option<RunningService>>,
    server: Uuid,
    history: History,
    written: u64,
    /// The zone in which the server ran last.
    zone: String,
    progress: watch::Sender<Progress>,
}

/// Runs from the server's creation until the client is told to stop and has seen the server at rest.
pub async fn live(
    kind: Life,
    number: usize,
    seed: u64,
    mut life: watch::Receiver<Option<RunningService>>,
    progress: watch::Sender<Progress>,
    stop: Stop,
) -> History {
    let server = create(kind, number, &mut life).await;
    progress.send_modify(|so_far| so_far.accepted += 1);
    let mut client = Client {
        kind,
        life,
        server,
        history: History { number, events: Vec::new(), outages: false },
        written: 0,
        zone: String::new(),
        progress,
    };
    let mut random = StdRng::seed_from_u64(seed);
    while !client.look().await.rests {}
    client.progress.send_modify(|so_far| so_far.made += 1);
    loop {
        let (stopping, seen) = (stop.is_set(), client.look().await);
        if stopping && seen.rests && client.nothing_runs().await {
            // A debt may have been paid since the look, so this second look counts.
            client.look().await;
            return client.history;
        }
        match (seen.rests && !stopping, random.random_range(0..3)) {
            (true, 1..) => client.act(&seen, &mut random).await,
            (_, 0) if !stopping => client.write().await,
            // A user who only looks.
            _ => {}
        }
    }
}

/// Asks until a create is acknowledged. A server whose acknowledgement was lost may exist beside it; the audit checks it, too.
async fn create(kind: Life, number: usize, life: &mut watch::Receiver<Option<RunningService>>) -> Uuid {
    loop {
        let member = reach(life).await.member;
        let images = member.try_get("/image/v2/images?name=tiny").await;
        let Some(image) = images.filter(|answer| answer.status == 200).map(|answer| id_of(&answer.body["images"][0])) else { continue };
        let server = NewServer::of_image(image).named(&format!("killed-{number}"));
        // Hosts of both cells take this flavor.
        let server = if kind == Life::Shelves { server.flavor("m1.tiny") } else { server };
        match member.try_post("/servers", server.body()).await {
            Some(answer) if answer.status == 202 => return id_of(&answer.body["server"]),
            Some(answer) => assert!(answer.status >= 500, "a create is refused: {}", answer.text),
            None => {}
        }
    }
}

/// Returns the present life, or waits for the next.
async fn reach(life: &mut watch::Receiver<Option<RunningService>>) -> RunningService {
    let alive = life.wait_for(Option::is_some).await.expect("a service comes back");
    alive.clone().expect("it is some")
}

/// Moves the server to the other generation if it is at home, and to an end of the move if it is resized.
fn next_move(seen: &Seen, random: &mut StdRng) -> (&'static str, Value) {
    match (seen.status.as_str(), random.random_range(0..2)) {
        ("ACTIVE", _) => {
            let flavor = if seen.flavor == "gen1.small" { "gen2.small" } else { "gen1.small" };
            ("resize", json!({"resize": {"flavorRef": flavor}}))
        }
        (_, 0) => ("confirmResize", json!({"confirmResize": null})),
        _ => ("revertResize", json!({"revertResize": null})),
    }
}

fn judge(answer: Option<&Answer>) -> Answered {
    match answer.map(|answer| answer.status) {
        Some(200..300) => Answered::Accepted,
        Some(status @ 400..500) => Answered::Refused(status),
        _ => Answered::Indeterminate,
    }
}

impl Client {
    fn path(&self) -> String {
        format!("/servers/{}", self.server)
    }

    /// Looks until there is an answer.
    async fn look(&mut self) -> Seen {
        loop {
            let member = reach(&mut self.life).await.member;
            let answer = member.try_get(&self.path()).await;
            self.progress.send_modify(|so_far| so_far.answers += usize::from(answer.is_some()));
            match answer {
                // The server's cell does not answer: only its existence is shown.
                Some(answer) if answer.status == 200 && answer.body["server"]["status"] == "UNKNOWN" => {}
                Some(answer) if answer.status == 200 => {
                    let server = &answer.body["server"];
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let (status, flavor) = (text(&server["status"]), text(&server["flavor"]["original_name"]));
                    let number = server["metadata"]["number"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
                    let zone = text(&server["OS-EXT-AZ:availability_zone"]);
                    let rests = server["OS-EXT-STS:task_state"].is_null() && RESTING.contains(&status.as_str());
                    self.history.events.push(Event::Saw { status: status.clone(), flavor: flavor.clone(), number });
                    return Seen { status, flavor, zone, rests };
                }
                Some(answer) if answer.status == 404 => self.history.events.push(Event::Missing),
                _ => {}
            }
        }
    }

    async fn write(&mut self) {
        let member = reach(&mut self.life).await.member;
        self.written += 1;
        let body = json!({"metadata": {"number": self.written.to_string()}});
        let answer = member.try_post(&format!("{}/metadata", self.path()), body).await;
        self.history.events.push(Event::Wrote { number: self.written, answered: judge(answer.as_ref()) });
    }

    /// Requests the next act of the server's life.
    async fn act(&mut self, seen: &Seen, random: &mut StdRng) {
        let (what, action) = match self.kind {
            Life::Moves => next_move(seen, random),
            Life::Shelves => self.next_shelve(seen, random),
        };
        let member = reach(&mut self.life).await.member.speaking("2.96");
        let answer = member.try_post(&format!("{}/action", self.path()), action).await;
        let answered = judge(answer.as_ref());
        if answered == Answered::Accepted {
            self.progress.send_modify(|so_far| so_far.accepted += 1);
        }
        self.history.events.push(Event::Request { what, answered });
    }

    /// Shelves a server that runs, and brings back one that is on no host. The zone that it ran in last decides between the cells.
    fn next_shelve(&mut self, seen: &Seen, random: &mut StdRng) -> (&'static str, Value) {
        match (seen.status.as_str(), random.random_range(0..3)) {
            ("ACTIVE", _) => {
                self.zone.clone_from(&seen.zone);
                ("shelve", json!({"shelve": null}))
            }
            ("SHELVED", 1..) => ("shelveOffload", json!({"shelveOffload": null})),
            ("SHELVED_OFFLOADED", 1..) => {
                let other = if self.zone == "cell1" { "cell2" } else { "cell1" };
                ("unshelve", json!({"unshelve": {"availability_zone": other}}))
            }
            _ => ("unshelve", json!({"unshelve": null})),
        }
    }

    /// True if no operation and no debt of this server is left.
    async fn nothing_runs(&mut self) -> bool {
        let admin = reach(&mut self.life).await.admin;
        let answer = admin.try_get(&format!("/ops/v1/migrations?server={}", self.server)).await;
        answer.is_some_and(|answer| answer.status == 200 && nothing_is_left(&answer))
    }
}
