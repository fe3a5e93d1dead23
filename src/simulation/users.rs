//! The users. The seed and the state of their servers decide what they request. They use the APIs' own handlers, so they get the refusals
//! that all users get.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api_client::ApiClient;
use super::bandwidth;
use super::live_moves;
use super::operators;
use super::shelves;
use super::sight::{Look, Sight};
use super::trace::Trace;
use super::travellers::Traveller;
use super::watch::Watch;
use crate::actors::root::Tree;
use crate::chaos::experiment::short;
use crate::domain::server::VmState;
use crate::env::random::Random;
use crate::saga::accept;
use crate::saga::refusal::Refusal;

/// The time for which a user waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);
const VERSION: &str = "compute 2.79";
const FLAVORS: [&str; 6] = ["m1.tiny", "m1.small", "gen1.small", "gen1.large", "gen2.small", "gen2.large"];

/// An act: its time, and the random numbers that decide it.
#[derive(Clone, Debug)]
pub struct Act {
    pub at_ms: u64,
    pub random: Random,
}

/// Returns all acts of a run, in order.
pub fn acts(seed: u64, actions: usize, seconds: u64) -> Vec<Act> {
    let mut random = Random::new(seed, "users");
    let mut times: Vec<u64> = (0..actions).map(|_| random.below(seconds * 1000)).collect();
    times.sort_unstable();
    times.into_iter().map(|at_ms| Act { at_ms, random: Random::new(random.number(), "act") }).collect()
}

/// The users' knowledge and progress, which outlive the controllers.
#[derive(Default)]
pub struct Users {
    pub servers: RefCell<Vec<Uuid>>,
    /// The number of pending creates.
    pub pending_creates: RefCell<usize>,
    /// The number of answers by status; 0 for no answer.
    pub answers: RefCell<BTreeMap<u16, usize>>,
    pub waiting: RefCell<usize>,
    /// The servers whose delete was requested.
    pub doomed: RefCell<BTreeSet<Uuid>>,
    pub names: RefCell<usize>,
    /// The policies that guarantee bandwidth, by the egress in kilobits per second, once they are made.
    pub policies: RefCell<BTreeMap<i64, Value>>,
    /// The users with a fixed list of acts. Their servers are not in `servers`.
    pub travellers: Vec<Rc<Traveller>>,
    /// If true, no user begins anything any more.
    pub stopped: Cell<bool>,
}

/// The users' access to one life of the cloud.
#[derive(Clone)]
pub struct Reach {
    pub sight: Sight,
    pub api: ApiClient,
    pub trace: Trace,
    pub image: Uuid,
    /// The number of servers that users try to have at once.
    pub target_servers: usize,
    pub hosts: Rc<Vec<(String, String)>>,
}

impl Users {
    /// Checks that each accepted server whose delete was never requested exists (I3, I10).
    pub async fn check_that_accepted_servers_exist(&self, reach: &Reach, watch: &Watch) {
        for server in self.all_servers() {
            let lost = reach.sight.look(server).await == Look::Missing;
            self.missed(lost, server, watch);
        }
    }

    /// Returns all servers that were accepted.
    pub fn all_servers(&self) -> Vec<Uuid> {
        let mut servers = self.servers.borrow().clone();
        servers.extend(self.travellers.iter().filter_map(|traveller| traveller.server()));
        servers
    }

    /// Counts the requests that were answered 500 or above, or not at all.
    pub fn failed_answers(&self) -> usize {
        self.answers.borrow().iter().filter(|(status, _)| **status == 0 || **status >= 500).map(|(_, count)| count).sum()
    }

    /// Counts the users' servers in ERROR, as far as their cells answer now.
    pub async fn servers_in_error(&self, reach: &Reach) -> usize {
        let mut count = 0;
        for server in self.all_servers() {
            let look = tokio::time::timeout(Duration::from_secs(5), reach.sight.look(server)).await;
            count += usize::from(matches!(look, Ok(Look::Seen { in_error: true, .. })));
        }
        count
    }

    fn missed(&self, lost: bool, server: Uuid, watch: &Watch) {
        if lost && !self.doomed.borrow().contains(&server) {
            let message = "it is not found, expected it where its mapping says: nobody asked for its deletion";
            watch.add_violation("I3", format!("server {server}"), message.to_owned());
        }
    }
}

/// Performs an act. Some acts are done twice at once, by two users of one server.
pub async fn perform(users: Rc<Users>, reach: Reach, tree: Tree, watch: Arc<Watch>, mut act: Act) {
    let _waits = Waits::new(&users);
    let few = users.servers.borrow().len() + *users.pending_creates.borrow() < reach.target_servers;
    if few && act.random.percent(60) {
        return create(&users, &reach, &mut act.random).await;
    }
    if act.random.percent(4) {
        return operators::empties_a_host(&users, &reach, &tree, &mut act.random).await;
    }
    let server = act.random.pick(&users.servers.borrow()).copied();
    match server {
        None => create(&users, &reach, &mut act.random).await,
        Some(server) => {
            let mut other = Random::new(act.random.number(), "other");
            if act.random.percent(15) {
                let one = on_server(&users, &reach, &tree, &watch, server, &mut act.random);
                let two = on_server(&users, &reach, &tree, &watch, server, &mut other);
                futures::future::join(one, two).await;
            } else {
                on_server(&users, &reach, &tree, &watch, server, &mut act.random).await;
            }
        }
    }
}

/// Counts a user who waits.
pub struct Waits(Rc<Users>);

impl Waits {
    /// Counts one more until it is dropped, even by the end of the life.
    pub fn new(users: &Rc<Users>) -> Waits {
        *users.waiting.borrow_mut() += 1;
        Waits(users.clone())
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        *self.0.waiting.borrow_mut() -= 1;
    }
}

impl Reach {
    /// Sends a request and waits for the answer. Status 0 means no answer.
    pub async fn ask(&self, users: &Users, what: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.ask_in(VERSION, users, what, method, path, body).await
    }

    /// Sends a request in a version of the API, as `compute 2.91`.
    pub async fn ask_in(&self, version: &str, users: &Users, what: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.trace.note(format!("user   {what}"));
        let answer = tokio::time::timeout(PATIENCE, self.api.send(method, path, version, body)).await;
        let (status, body) = answer.unwrap_or((0, Value::Null));
        let reason = if status >= 400 { body.as_object().and_then(|form| form.values().next()) } else { None };
        let reason = reason.and_then(|reason| reason["message"].as_str()).unwrap_or_default();
        self.trace.note(format!("answer {status} to {what} {reason}"));
        *users.answers.borrow_mut().entry(status).or_default() += 1;
        (status, body)
    }
}

async fn create(users: &Users, reach: &Reach, random: &mut Random) {
    let number = {
        let mut names = users.names.borrow_mut();
        *names += 1;
        *names
    };
    *users.pending_creates.borrow_mut() += 1;
    let flavor = random.pick(&FLAVORS).copied().unwrap_or(FLAVORS[0]);
    let networks = bandwidth::networks(users, reach, number).await;
    let mut server = json!({"name": format!("s{number}"), "flavorRef": flavor, "imageRef": reach.image, "networks": networks});
    if random.percent(30) {
        let local = json!({"boot_index": 0, "uuid": reach.image, "source_type": "image", "destination_type": "local", "delete_on_termination": true});
        let boot = json!({"boot_index": 0, "uuid": reach.image, "source_type": "image", "destination_type": "volume", "volume_size": 1, "delete_on_termination": true});
        let data = json!({"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1, "delete_on_termination": true});
        let root = if random.percent(50) { local } else { boot };
        if root["destination_type"] == "volume" {
            server["imageRef"] = json!("");
        }
        server["block_device_mapping_v2"] = json!([root, data]);
    }
    let what = format!("create s{number} {flavor}");
    let (status, body) = reach.ask(users, &what, Method::POST, "/compute/v2.1/servers", Some(json!({"server": server}))).await;
    *users.pending_creates.borrow_mut() -= 1;
    if status == 202
        && let Some(id) = body["server"]["id"].as_str().and_then(|id| Uuid::parse_str(id).ok())
    {
        users.servers.borrow_mut().push(id);
    }
}

async fn on_server(users: &Users, reach: &Reach, tree: &Tree, watch: &Watch, server: Uuid, random: &mut Random) {
    // A user who cannot see the server acts blindly.
    let answer = tokio::time::timeout(Duration::from_secs(5), accept::find(&tree.world, server)).await;
    let instance = match answer {
        Ok(Ok((_, instance))) => Some(instance),
        Ok(Err(Refusal::NotFound(_))) => {
            users.missed(true, server, watch);
            users.servers.borrow_mut().retain(|other| *other != server);
            return;
        }
        _ => None,
    };
    let blind = random.percent(12);
    let state = instance.as_ref().filter(|_| !blind).map(|instance| instance.vm_state);
    let action = match (state, random.below(100)) {
        (_, 0..4) => return delete(users, reach, server).await,
        (Some(VmState::Resized), 4..56) => json!({"confirmResize": null}),
        (Some(VmState::Resized), 56..96) => json!({"revertResize": null}),
        (Some(VmState::Stopped), 4..30) => json!({"os-start": null}),
        (Some(VmState::Active), 4..10) => json!({"os-stop": null}),
        (Some(VmState::Active), 10..15) => json!({"reboot": {"type": if random.percent(50) { "SOFT" } else { "HARD" }}}),
        (Some(VmState::SoftDeleted), 4..60) => json!({"restore": null}),
        (Some(VmState::SoftDeleted), 60..80) => json!({"forceDelete": null}),
        (Some(VmState::Error), 4..70) => json!({"reboot": {"type": "HARD"}}),
        (Some(VmState::Error), 70..100) => return delete(users, reach, server).await,
        (Some(VmState::Shelved | VmState::ShelvedOffloaded), 4..90) => return shelves::takes_out(users, reach, server, random).await,
        (Some(VmState::Active | VmState::Stopped), 52..60) => return shelves::puts_away(users, reach, server).await,
        (Some(VmState::Active), 80..84) => json!({"pause": null}),
        (Some(VmState::Active), 84..88) => json!({"suspend": null}),
        (Some(VmState::Paused), 4..40) => json!({"unpause": null}),
        (Some(VmState::Suspended), 4..50) => json!({"resume": null}),
        (Some(VmState::Paused | VmState::Suspended), 52..60) => return shelves::puts_away(users, reach, server).await,
        (Some(VmState::Active | VmState::Paused), 60..80) => return live_moves::moves(users, reach, server, random).await,
        (None, 4..30) => any(random),
        (None, 30..40) => return live_moves::steers(users, reach, server, random).await,
        (_, 15..18) => json!({"rebuild": {"imageRef": reach.image}}),
        (Some(VmState::Active), 18..30) => return write(reach, server, random).await,
        (_, 30..36) => return volumes(users, reach, tree, server, random).await,
        (_, 36..52) => migrate(reach, random),
        _ => resize(random, instance.map(|instance| instance.flavor.id)),
    };
    let name = action.as_object().and_then(|action| action.keys().next().cloned()).unwrap_or_default();
    let what = format!("{name} {} {}", short(server), action[&name]);
    reach.ask(users, &what, Method::POST, &format!("/compute/v2.1/servers/{server}/action"), Some(action)).await;
}

fn any(random: &mut Random) -> Value {
    let all = [
        json!({"os-start": null}),
        json!({"os-stop": null}),
        json!({"pause": null}),
        json!({"unpause": null}),
        json!({"suspend": null}),
        json!({"resume": null}),
        json!({"confirmResize": null}),
        json!({"revertResize": null}),
        json!({"shelve": null}),
        json!({"shelveOffload": null}),
        json!({"unshelve": null}),
        json!({"evacuate": {}}),
        json!({"restore": null}),
        json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}),
    ];
    random.pick(&all).cloned().unwrap_or_default()
}

fn resize(random: &mut Random, present: Option<String>) -> Value {
    let others: Vec<&str> = FLAVORS.into_iter().filter(|flavor| present.as_deref() != Some(flavor)).collect();
    json!({"resize": {"flavorRef": random.pick(&others).copied().unwrap_or(FLAVORS[1])}})
}

fn migrate(reach: &Reach, random: &mut Random) -> Value {
    match random.pick(&reach.hosts) {
        Some((_, host)) if random.percent(40) => json!({"migrate": {"host": host}}),
        _ => json!({"migrate": null}),
    }
}

async fn delete(users: &Users, reach: &Reach, server: Uuid) {
    users.doomed.borrow_mut().insert(server);
    reach.ask(users, &format!("delete {}", short(server)), Method::DELETE, &format!("/compute/v2.1/servers/{server}"), None).await;
}

/// Lets the guest write to its disks, if it runs on its owner.
pub async fn write(reach: &Reach, server: Uuid, random: &mut Random) {
    let bytes = || format!("user wrote {}\n", random.number()).into_bytes();
    if let Some((host, is_written)) = reach.sight.write(server, bytes).await {
        reach.trace.note(format!("write  {} on {host}: {is_written}", short(server)));
    }
}

/// Attaches a new volume, or detaches an attached one.
async fn volumes(users: &Users, reach: &Reach, tree: &Tree, server: Uuid, random: &mut Random) {
    let attached = tree.world.volumes.attachments_of(server).await.unwrap_or_default();
    let path = format!("/compute/v2.1/servers/{server}/os-volume_attachments");
    match random.pick(&attached) {
        Some(attachment) if random.percent(50) => {
            let volume = attachment.volume_id;
            let what = format!("detach {} from {}", short(volume), short(server));
            reach.ask(users, &what, Method::DELETE, &format!("{path}/{volume}"), None).await;
        }
        _ => {
            let made = reach.ask(users, "make a volume", Method::POST, "/volume/v3/volumes", Some(json!({"volume": {"size": 1}}))).await;
            let Some(volume) = made.1["volume"]["id"].as_str().and_then(|id| Uuid::parse_str(id).ok()) else { return };
            tokio::time::sleep(Duration::from_millis(10)).await;
            let what = format!("attach {} to {}", short(volume), short(server));
            let body = json!({"volumeAttachment": {"volumeId": volume}});
            reach.ask(users, &what, Method::POST, &path, Some(body)).await;
        }
    }
}
