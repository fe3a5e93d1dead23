//! Tests that a worker answers other requests while large bodies are checked. The worker is the only thread of each test.

use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use actix_web::http::Method;
use actix_web::test::{TestRequest, init_service};
use actix_web::{HttpResponse, web};
use cellshift_embedded::testkit::{ApiFixture, request, send, world};
use futures::future::{join, join_all};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::env::Env;
use crate::http::arrival::Arrivals;
use crate::http::clients::Clients;
use crate::http::compute::answer::Answer;
use crate::http::json::{Document, Json, SMALL};
use crate::http::limits::{InFlight, Transfers};
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;
use crate::http::server::{Wiring, app};
use crate::policy_file::PolicyFile;

const MOST: usize = 1 << 20;

/// Blocks every thread that passes until it is opened. The worker itself must not pass.
struct Gate {
    worker: OnceLock<ThreadId>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    const fn new() -> Gate {
        Gate { worker: OnceLock::new(), open: Mutex::new(false), opened: Condvar::new() }
    }

    fn pass(&self) {
        assert_ne!(self.worker.get(), Some(&thread::current().id()), "the worker judged a large body itself");
        self.opened.wait_while(&mut self.open.lock(), |open| !*open);
    }

    fn open(&self) {
        *self.open.lock() = true;
        self.opened.notify_all();
    }
}

static PARSING: Gate = Gate::new();
static JUDGING: Gate = Gate::new();

/// A body whose parsing blocks.
struct BlockingBody(Value);

impl<'de> Deserialize<'de> for BlockingBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlockingBody, D::Error> {
        PARSING.pass();
        Value::deserialize(deserializer).map(BlockingBody)
    }
}

/// A schema whose first use blocks, and with it every check.
static SCHEMA: Schema = Schema::fixed(|_| {
    JUDGING.pass();
    json!({"type": "object", "additionalProperties": {"type": "integer"}})
});

async fn parsed(body: Json<BlockingBody>) -> HttpResponse {
    HttpResponse::Ok().json(body.0.0.is_object())
}

async fn judged(version: ApiVersion, body: Document) -> Answer {
    SCHEMA.check(version, &body).await?;
    Ok(HttpResponse::Ok().json(body.as_object().map_or(0, serde_json::Map::len)))
}

async fn thread_of(body: Document) -> HttpResponse {
    let by = body.judge(|_| thread::current().id()).await;
    HttpResponse::Ok().json(by == thread::current().id())
}

/// Returns bodies of nearly 1 MiB: many properties, deep arrays, many devices, and one that breaks off at its end.
fn bodies() -> Vec<String> {
    let properties: Vec<String> = (0..60_000).map(|at| format!("\"p{at}\": {at}")).collect();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let devices = json!({"block_device_mapping_v2": vec![json!({"boot_index": 0, "uuid": "x", "source_type": "volume"}); 14_000]});
    vec![
        format!("{{{}}}", properties.join(", ")),
        format!("{{\"a\": [{}]}}", vec![deep; 5_000].join(",")),
        devices.to_string(),
        format!("{{\"a\": [{}", "[],".repeat(300_000)),
    ]
}

/// Wires the fixture's APIs, and routes that say what becomes of a body.
fn wiring(world: &ApiFixture) -> Wiring {
    let bodies = |config: &mut web::ServiceConfig| {
        config.service(
            web::scope("/compute/v2.1")
                .route("/parsed", web::post().to(parsed))
                .route("/judged", web::post().to(judged))
                .route("/thread", web::post().to(thread_of)),
        );
    };
    Wiring {
        env: Env::system(),
        authenticator: world.identity.clone(),
        policy: Arc::new(PolicyFile::built_in().unwrap()),
        anonymous: None,
        in_flight: InFlight::new(100),
        transfers: Transfers(InFlight::new(100)),
        arrivals: Arrivals::generous(MOST),
        clients: Clients::default(),
        cell_timeout: Duration::from_secs(5),
        parts: vec![world.part(), Arc::new(bodies)],
    }
}

/// Sends each body twice, opens the gate once the health check is answered, and returns statuses and messages in order.
macro_rules! held_up {
    ($path:expr, $gate:expr) => {{
        let world = world().await;
        let (door, token) = (init_service(app(wiring(&world))).await, world.token("demo").await);
        $gate.worker.set(thread::current().id()).unwrap();
        let post = |body: String| {
            send(&door, TestRequest::post().uri($path).insert_header(("X-Auth-Token", token.as_str())).set_payload(body).to_request())
        };
        let large = join_all(bodies().into_iter().chain(bodies()).map(post));
        let healthy = async {
            let answer = send(&door, TestRequest::get().uri("/healthcheck").to_request()).await;
            $gate.open();
            answer.status
        };
        let (answers, status) = join(large, healthy).await;
        assert_eq!(status, 200);
        answers
    }};
}

#[actix_web::test]
async fn health_answers_while_large_bodies_are_parsed() {
    let answers = held_up!("/compute/v2.1/parsed", PARSING);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 400, 200, 200, 200, 400]);
    assert!(answers[3].json()["badRequest"]["message"].as_str().unwrap().starts_with("Malformed request body: EOF while parsing"));
}

#[actix_web::test]
async fn health_answers_while_large_bodies_are_checked() {
    let answers = held_up!("/compute/v2.1/judged", JUDGING);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 400, 400, 400, 200, 400, 400, 400]);
    let message = answers[1].json()["badRequest"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("Invalid input for field/attribute a. Value: [[[") && message.ends_with("is not of type 'integer'"),
        "{message}"
    );
}

#[actix_web::test]
async fn small_bodies_stay_on_the_worker_and_large_ones_do_not() {
    let world = world().await;
    let (door, token) = (init_service(app(wiring(&world))).await, world.token("demo").await);
    for (length, stays) in [(10, true), (SMALL - 100, true), (SMALL + 1, false)] {
        let body = json!({"text": "x".repeat(length)});
        let answer = send(&door, request(Method::POST, &token, "/compute/v2.1/thread", body).to_request()).await;
        assert_eq!(answer.json(), json!(stays), "{length}");
    }
}
