//! Travellers: users who make a server and take it through the acts of a journey. After a 503 or no answer, a traveller waits until the
//! server is at rest and asks again. Other refusals are final.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bandwidth::with_bandwidth;
use super::live_moves::{self, Steer, steer_after};
use super::operators;
use super::users::{Reach, Users, Waits, write};
use crate::chaos::experiment::journey::{Journey, UserAction};
use crate::chaos::experiment::short;
use crate::env::random::Random;

/// The maximum number of tries of one request.
const TRIES: u32 = 40;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// The user of one server. Its progress outlives the controllers.
pub struct Traveller {
    name: String,
    journey: Journey,
    begins_ms: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    server: Option<Uuid>,
    /// The index of the current act.
    next: usize,
    /// The hosts that the traveller has forced down.
    down: Vec<String>,
    /// The host whose drain the traveller waits for.
    draining: Option<String>,
    over: bool,
}

/// Makes the travellers of these journeys.
pub fn travellers(journeys: &[Journey]) -> Vec<Rc<Traveller>> {
    let of = |(number, journey): (usize, &Journey)| {
        let journey = journey.clone();
        (0..journey.servers).map(move |nth| {
            Rc::new(Traveller {
                name: format!("j{}-{}", number + 1, nth + 1),
                begins_ms: journey.start_ms + u64::from(nth) * journey.spacing_ms,
                journey: journey.clone(),
                state: RefCell::default(),
            })
        })
    };
    journeys.iter().enumerate().flat_map(of).collect()
}

impl Traveller {
    /// Returns the server, once it was accepted.
    pub fn server(&self) -> Option<Uuid> {
        self.state.borrow().server
    }

    /// True if the traveller requests nothing more.
    pub fn is_over(&self) -> bool {
        self.state.borrow().over
    }

    /// Returns the time of the beginning, in milliseconds.
    pub fn begins_ms(&self) -> u64 {
        self.begins_ms
    }
}

/// Continues the journey. The end of the life may interrupt it anywhere.
pub async fn travel(users: Rc<Users>, reach: Reach, traveller: Rc<Traveller>) {
    let _waits = Waits::new(&users);
    let server = match traveller.server() {
        Some(server) => server,
        None => match create(&users, &reach, &traveller).await {
            Some(server) => server,
            None => {
                traveller.state.borrow_mut().over = true;
                return;
            }
        },
    };
    let mut random = Random::new(server.as_u64_pair().0, "traveller");
    loop {
        let next = traveller.state.borrow().next;
        if !traveller.journey.acts.get(next).is_some_and(UserAction::meets_an_operation) {
            reach.sight.until_at_rest(server).await;
        }
        let next_act = traveller.journey.acts.get(next).filter(|_| !users.stopped.get());
        let Some(next_act) = next_act else { break };
        if !steer(&users, &reach, &traveller, server, next_act).await {
            act(&users, &reach, server, next_act, &mut random).await;
        }
        traveller.state.borrow_mut().next += 1;
    }
    traveller.state.borrow_mut().over = true;
}

async fn create(users: &Users, reach: &Reach, traveller: &Traveller) -> Option<Uuid> {
    let root = json!({"boot_index": 0, "uuid": reach.image, "source_type": "image", "destination_type": "local",
        "delete_on_termination": true});
    let data = json!({"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": true});
    let mut devices = vec![root];
    devices.extend((0..traveller.journey.volumes).map(|_| data.clone()));
    let networks = match traveller.journey.egress_kbps {
        0 => json!("auto"),
        egress => with_bandwidth(users, reach, egress.into()).await,
    };
    let mut body = json!({"server": {"name": traveller.name, "flavorRef": traveller.journey.flavor, "imageRef": reach.image,
        "networks": networks, "block_device_mapping_v2": devices}});
    if let Some(policy) = &traveller.journey.group {
        let group = group_of(users, reach, traveller, policy).await?;
        body["os:scheduler_hints"] = json!({"group": group});
    }
    let what = format!("create {} {}", traveller.name, traveller.journey.flavor);
    let (status, answer) = patiently(users, reach, &what, Method::POST, "/compute/v2.1/servers", Some(body), None).await;
    let server = answer["server"]["id"].as_str().and_then(|id| Uuid::parse_str(id).ok()).filter(|_| status == 202)?;
    traveller.state.borrow_mut().server = Some(server);
    Some(server)
}

/// Returns the journey's server group. Its first traveller makes it; the others find it by its name.
async fn group_of(users: &Users, reach: &Reach, traveller: &Traveller, policy: &str) -> Option<String> {
    const PATH: &str = "/compute/v2.1/os-server-groups";
    let name = traveller.name.split('-').next().unwrap_or_default();
    let (_, list) = patiently(users, reach, "list the server groups", Method::GET, PATH, None, None).await;
    let group = list["server_groups"].as_array().into_iter().flatten().find(|group| group["name"] == name);
    if let Some(group) = group {
        return group["id"].as_str().map(str::to_owned);
    }
    let body = json!({"server_group": {"name": name, "policy": policy}});
    let (_, answer) = patiently(users, reach, &format!("make the server group {name}"), Method::POST, PATH, Some(body), None).await;
    answer["server_group"]["id"].as_str().map(str::to_owned)
}

/// Performs an act of an operator, or on a live migration. False if it is none.
async fn steer(users: &Users, reach: &Reach, traveller: &Traveller, server: Uuid, act: &UserAction) -> bool {
    match act {
        UserAction::Abort(ms) => drop(steer_after(users, reach, server, Steer::Abort, Duration::from_millis(*ms)).await),
        UserAction::ForceComplete(ms) => drop(steer_after(users, reach, server, Steer::ForceComplete, Duration::from_millis(*ms)).await),
        UserAction::ForceLiveMigrateTo(host) => drop(live_moves::ask(users, reach, server, Some(host), true).await),
        UserAction::ForceHostDown => {
            if let Some(host) = reach.sight.host_of(server).await {
                operators::force_down(users, reach, &host, true).await;
                traveller.state.borrow_mut().down.push(host);
            }
        }
        UserAction::ForceHostUp => {
            let down = std::mem::take(&mut traveller.state.borrow_mut().down);
            for host in down {
                operators::force_up(users, reach, &host).await;
            }
        }
        UserAction::DrainHost => {
            // The server may have left already, if the life ended during the drain.
            let draining = traveller.state.borrow().draining.clone();
            let host = match draining {
                Some(host) => Some(host),
                None => reach.sight.host_of(server).await,
            };
            if let Some(host) = host {
                traveller.state.borrow_mut().draining = Some(host.clone());
                operators::drain(users, reach, &host).await;
                traveller.state.borrow_mut().draining = None;
            }
        }
        _ => return false,
    }
    true
}

async fn act(users: &Users, reach: &Reach, server: Uuid, act: &UserAction, random: &mut Random) {
    let action = match act {
        UserAction::Abort(_) | UserAction::ForceComplete(_) => return,
        UserAction::ForceLiveMigrateTo(_) | UserAction::ForceHostDown | UserAction::ForceHostUp | UserAction::DrainHost => return,
        UserAction::Wait(ms) => return tokio::time::sleep(Duration::from_millis(*ms)).await,
        UserAction::Write => return write(reach, server, random).await,
        UserAction::Delete => {
            users.doomed.borrow_mut().insert(server);
            let path = format!("/compute/v2.1/servers/{server}");
            patiently(users, reach, &format!("delete {}", short(server)), Method::DELETE, &path, None, Some(server)).await;
            return;
        }
        UserAction::Resize(flavor) => json!({"resize": {"flavorRef": flavor}}),
        UserAction::Migrate => json!({"migrate": null}),
        UserAction::MigrateTo(host) => json!({"migrate": {"host": host}}),
        UserAction::LiveMigrate => json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}),
        UserAction::LiveMigrateTo(host) => json!({"os-migrateLive": {"host": host, "block_migration": "auto"}}),
        UserAction::Evacuate => json!({"evacuate": {}}),
        UserAction::Shelve => json!({"shelve": null}),
        UserAction::ShelveOffload => json!({"shelveOffload": null}),
        UserAction::Unshelve => json!({"unshelve": null}),
        UserAction::Confirm => json!({"confirmResize": null}),
        UserAction::Revert => json!({"revertResize": null}),
        UserAction::Stop => json!({"os-stop": null}),
        UserAction::Start => json!({"os-start": null}),
        UserAction::SoftReboot => json!({"reboot": {"type": "SOFT"}}),
        UserAction::HardReboot => json!({"reboot": {"type": "HARD"}}),
        UserAction::Rebuild => json!({"rebuild": {"imageRef": reach.image}}),
    };
    let name = action.as_object().and_then(|action| action.keys().next().cloned()).unwrap_or_default();
    let what = format!("{name} {} {}", short(server), action[&name]);
    let path = format!("/compute/v2.1/servers/{server}/action");
    patiently(users, reach, &what, Method::POST, &path, Some(action), Some(server)).await;
}

/// Repeats a request until it gets a definite answer, each time after the server (if any) has come to rest.
async fn patiently(
    users: &Users,
    reach: &Reach,
    what: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
    server: Option<Uuid>,
) -> (u16, Value) {
    let mut answer = (0, Value::Null);
    for _ in 0..TRIES {
        answer = reach.ask(users, what, method.clone(), path, body.clone()).await;
        if (1..500).contains(&answer.0) || users.stopped.get() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        if let Some(server) = server {
            reach.sight.until_at_rest(server).await;
        }
    }
    answer
}
