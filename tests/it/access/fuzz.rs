//! Malformed requests to each route: each is answered, none with a server error, and no refusal reveals internals.
//!
//! `CELLSHIFT_FUZZ=8 cargo test --test it access::fuzz` runs eight rounds, `CELLSHIFT_FUZZ=8..12` rounds 8 to 11. A round is a seed with
//! its own cloud.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cellshift::env::random::Random;
use cellshift::launch;

use super::answers::objection;
use super::house::{Filled, House, visit_prepared};
use super::mutation::Mutator;
use super::row::{Body, Row};
use super::wire::{Reply, Request, exchange};
use crate::bodies::{self, ApiAnswer, ApiRequest};

/// The default rounds.
const ROUNDS: Range<u64> = 0..1;
/// More connections than one client uses.
const CONNECTIONS: usize = 64;
/// The number of requests in a round.
const REQUESTS: usize = 1_500;
/// A single request that takes longer does work that grows faster than the request.
const SLOW: Duration = Duration::from_secs(5);
/// The path of the experiment on the service.
const EXPERIMENT: &str = "/ops/v1/chaos/experiment";
/// The callers; those with more rights come more often.
const ASKERS: [&str; 12] =
    ["admin", "admin", "admin", "admin", "admin", "member", "member", "member", "other", "reader", "service", "garbage"];
/// Methods, including those that a route lacks.
const METHODS: [&str; 7] = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"];

#[test]
fn no_request_makes_the_service_fail() {
    for round in rounds() {
        // Provides accounts that the requests may spoil in place of those whose tokens are used.
        let spoil = async |house: &mut House| {
            for kind in ["user", "project", "role"] {
                let id = house.another(kind).await;
                house.names.insert(kind, id);
            }
        };
        visit_prepared(spoil, |house| async move {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = launch::serve(&house.cloud, house.wiring.clone(), listener, CONNECTIONS).expect("the server starts");
            let handle = server.handle();
            let serving = actix_rt::spawn(server);
            let wrong = play(&house, address, round).await;
            handle.stop(false).await;
            let _ = serving.await;
            assert!(wrong.is_empty(), "CELLSHIFT_FUZZ={round}..{}: {} failures:\n{}", round + 1, wrong.len(), wrong.join("\n\n"));
        });
    }
}

fn rounds() -> Range<u64> {
    let Ok(range) = std::env::var("CELLSHIFT_FUZZ") else { return ROUNDS };
    let number = |text: &str| text.parse().expect("CELLSHIFT_FUZZ is a number of rounds, or first..last");
    match range.split_once("..") {
        Some((first, last)) => number(first)..number(last),
        None => 0..number(&range),
    }
}

/// Sends all requests of a round, and returns the objections to their answers.
async fn play(house: &Rc<House>, address: SocketAddr, round: u64) -> Vec<String> {
    let mut rows: Vec<(Row, Filled)> = Vec::new();
    for row in super::row::rows().into_iter().filter(|row| !row.endless) {
        // Fills in first, because the requests may delete ids that a later row needs.
        let filled = house.fill(&row, false, &mut BTreeMap::new()).await;
        rows.push((row, filled));
    }
    // The requests may not delete the callers' project or the servers' allocations: an administrator has the right, and the audit would
    // notice.
    let but = |kept: &[&str]| house.names.iter().filter(|(name, _)| !kept.contains(*name)).map(|(_, id)| id.clone()).collect::<Vec<_>>();
    let (ids, no_consumers) = (but(&["home"]), but(&["home", "server", "moved_server"]));
    let mut mutator = Mutator { random: Random::new(round, "fuzz"), ids: Vec::new() };
    let mut wrong = Vec::new();
    for number in 0..REQUESTS {
        let (row, filled) = mutator.random.pick(&rows).expect("rows");
        mutator.ids.clone_from(if row.path.starts_with("/placement/allocations") { &no_consumers } else { &ids });
        let request = request(house, &mut mutator, row, filled);
        let began = Instant::now();
        let answer = exchange(address, &request).await;
        let took = began.elapsed();
        if started_an_experiment(&request, &answer) {
            // Its faults would let the service refuse later requests.
            let stopped = house.send_as("admin", "DELETE", EXPERIMENT, "", &Body::None).await;
            assert_eq!(stopped.status, 202, "{}", stopped.text);
        }
        if let Some(why) = complaint(&request, answer, took) {
            wrong.push(format!("request {number}, {why}\n  {}", request.as_curl()));
        }
    }
    wrong
}

/// True if the malformed request is a valid experiment after all: each of its keys has a default.
fn started_an_experiment(request: &Request, answer: &Result<Reply, String>) -> bool {
    request.method == "POST"
        && request.target.split('?').next() == Some(EXPERIMENT)
        && answer.as_ref().is_ok_and(|reply| reply.status == 202)
}

fn complaint(request: &Request, answer: Result<Reply, String>, took: Duration) -> Option<String> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(why) => return Some(why),
    };
    if took > SLOW {
        return Some(format!("{} after {took:?}", reply.status));
    }
    // Some features are not implemented, and answer 501.
    if reply.status >= 500 && reply.status != 501 {
        return Some(format!("{}: {:.500}", reply.status, reply.text));
    }
    let sent = ApiRequest { method: &request.method, path: &request.target, body: Some(&request.body) };
    let header = |name: &str| reply.headers.get(name).map(String::as_str);
    if let Some(why) = bodies::objection(sent, ApiAnswer::new(reply.status, header, &reply.text)) {
        return Some(why);
    }
    if request.method == "HEAD" {
        return None;
    }
    objection(&request.target, reply.status, &reply.text).map(|why| format!("{}, {why}", reply.status))
}

/// Makes a malformed version of the row's request.
fn request(house: &House, mutator: &mut Mutator, row: &Row, filled: &Filled) -> Request {
    let asker = mutator.random.pick(&ASKERS).copied().unwrap_or("admin");
    let (body, kind) = match &filled.body {
        Body::None => (Vec::new(), ""),
        Body::Json(body) => (mutator.body(body), "application/json"),
        Body::Raw(kind, text) => match serde_json::from_str(text) {
            Ok(body) => (mutator.body(&body), kind.as_str()),
            Err(_) => (mutator.text(100_000).into_bytes(), kind.as_str()),
        },
    };
    let mut request = Request { method: row.method.clone(), target: filled.path.clone(), headers: Vec::new(), body };
    if !kind.is_empty() {
        request.header("Content-Type", kind);
    }
    if !row.version.is_empty() {
        request.header("OpenStack-API-Version", row.version.as_str());
    }
    if let Some(token) = house.token(asker) {
        request.header("X-Auth-Token", token);
        request.header("X-Subject-Token", token);
    }
    // Without a body only the path can be spoilt. The path of a delete is always spoilt, so that the house keeps its resources.
    if request.body.is_empty() || mutator.random.percent(15) || row.method == "DELETE" {
        request.target = mutator.target(&request.target);
    }
    if mutator.random.percent(25) {
        mutator.header(&mut request);
    }
    if mutator.random.percent(4) {
        request.method = mutator.random.pick(&METHODS).copied().unwrap_or("GET").to_owned();
    }
    request
}
