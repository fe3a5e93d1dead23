//! Traces reach a collector of OpenTelemetry: the spans of a request, its operation and its steps.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, PATIENCE, id_of};
use crate::command_reach::{Users, users};
use crate::service::Service;
use crate::stage::until;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
/// The number of looks after which a step that has not changed counts as held.
const LOOKS: usize = 40;

/// Starts a collector. Returns its URL and the spans that it gets.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let head: Vec<String> = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            assert!(head[0].starts_with("POST /v1/traces "), "{head:?}");
            let length = head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).expect("a length");
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let message: Value = serde_json::from_slice(&body).expect("JSON");
            for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans") {
                // The test may have ended.
                let _ = sender.send(span.clone());
            }
            let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            reader.get_mut().write_all(answer.as_bytes()).expect("an answer");
        }
    });
    (url, spans)
}

/// Starts a service that tells this collector its traces, and takes experiments.
fn traced(dir: &Path, collector: &str) -> Service {
    std::fs::write(dir.join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n").expect("a policy");
    let file = dir.join("c.toml");
    std::fs::write(&file, format!("[tracing]\notlp = \"{collector}\"\n[chaos]\nenabled = true\n")).expect("a file");
    Service::start_logging(dir, &["--config", file.to_str().expect("a path")], &dir.join("log"))
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let pairs = span["attributes"].as_array().into_iter().flatten();
    pairs.filter(|pair| pair["key"] == key).find_map(|pair| pair["value"]["stringValue"].as_str()).unwrap_or_default()
}

/// Makes a server.
async fn server(users: &Users) -> Uuid {
    let image = id_of(&users.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
    let server = id_of(&NewServer::of_image(image).ask(&users.member).await.expect(202).body["server"]);
    users.admin.notification("instance.create.end", Some(server)).await;
    server
}

/// Requests a move into the other cell, within a trace of the caller's.
async fn resize(service: &Service, users: &Users, server: Uuid) {
    let resize = reqwest::Client::new()
        .post(format!("http://{}/compute/v2.1/servers/{server}/action", service.address))
        .header("X-Auth-Token", users.member.token())
        .header("traceparent", format!("00-{TRACE}-{SPAN}-01"))
        .json(&json!({"resize": {"flavorRef": "gen2.small"}}));
    assert_eq!(resize.send().await.expect("an answer").status(), 202);
}

/// Waits until the collector has such a span, and keeps all that come.
fn until_span(spans: &Receiver<Value>, list: &mut Vec<Value>, what: &str, is_match: impl Fn(&Value) -> bool) {
    while !list.iter().any(&is_match) {
        list.push(spans.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no span of {what}: {list:#?}")));
    }
}

#[test]
fn a_move_is_one_trace_from_its_request_to_its_steps() {
    let dir = tempfile::tempdir().expect("a directory");
    let (url, spans) = collector();
    let service = traced(dir.path(), &url);
    actix_rt::System::new().block_on(async {
        let users = users(&service, dir.path()).await;
        let server = server(&users).await;
        resize(&service, &users, server).await;
        users.admin.notification("instance.resize_finish.end", Some(server)).await;
    });
    // An operation ends after its last notification, and its spans come behind its end.
    let mut list = Vec::new();
    for name in ["resize", "take_ownership"] {
        until_span(&spans, &mut list, name, |span| span["name"] == name);
    }
    service.stop();
    let spans: Vec<Value> = list.into_iter().chain(spans.try_iter()).collect();
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no span {name}: {spans:#?}"));

    let resize = named("resize");
    let request = spans.iter().find(|span| span["spanId"] == resize["parentSpanId"]).expect("the request's span");
    assert_eq!((&request["traceId"], &request["parentSpanId"], &request["kind"]), (&json!(TRACE), &json!(SPAN), &json!(2)));
    assert!(request["name"].as_str().is_some_and(|name| name.starts_with("POST /compute/v2.1/servers/{")), "{request:#}");
    assert!(attribute(resize, "cellshift.source").starts_with("cell1/") && attribute(resize, "cellshift.target").starts_with("cell2/"));
    assert_eq!((attribute(resize, "cellshift.state"), &resize["status"]), ("done", &json!({})));
    let steps: Vec<&Value> = spans.iter().filter(|span| span["parentSpanId"] == resize["spanId"]).collect();
    assert!(steps.iter().any(|step| step["name"] == "take_ownership" && attribute(step, "cellshift.outcome") == "ok"), "{steps:#?}");
    let at = |span: &Value, key: &str| span[key].as_str().and_then(|at| at.parse::<u64>().ok()).expect("a moment");
    for step in &steps {
        assert_eq!(step["traceId"], TRACE);
        assert!(
            at(step, "startTimeUnixNano") >= at(resize, "startTimeUnixNano")
                && at(step, "endTimeUnixNano") <= at(resize, "endTimeUnixNano")
        );
    }
    // A request without the header begins a trace with its own id.
    let create = named("create");
    let id = attribute(create, "cellshift.request_id").trim_start_matches("req-").replace('-', "");
    assert_eq!(create["traceId"], json!(id));
    assert!(spans.iter().any(|span| span["spanId"] == create["parentSpanId"] && span["parentSpanId"].is_null()), "{create:#}");
}

/// Waits until the experiment has begun and the move stands still. The step in which the fault is put may have asked its database before;
/// then a later step hangs.
async fn until_a_step_hangs(users: &Users, server: Uuid) {
    let last = RefCell::new((Value::Null, 0));
    let hangs = || async {
        let injected = users.admin.get("/ops/v1/chaos/experiment").await.expect(200).body["experiment"]["injected"].clone();
        let moves = users.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).body;
        let step = moves["migrations"][0]["step"].clone();
        let (before, looks) = last.take();
        let looks = if step == before { looks + 1 } else { 0 };
        last.replace((step, looks));
        injected != json!([]) && looks >= LOOKS
    };
    until("a step hangs", hangs).await;
}

#[test]
fn a_move_over_a_kill_is_one_whole_trace() {
    let dir = tempfile::tempdir().expect("a directory");
    let (url, spans) = collector();
    let service = traced(dir.path(), &url);
    let mut list = Vec::new();
    let server = actix_rt::System::new().block_on(async {
        let users = users(&service, dir.path()).await;
        let server = server(&users).await;
        let outage = json!({"database": {"name": "cell2", "outage": "hangs"}});
        let fault = json!({"when": {"saga": "resize", "step": "create_target_records"}, "what": outage});
        let experiment = json!({"experiment": {"title": "a step that hangs", "faults": [fault]}});
        users.admin.post("/ops/v1/chaos/experiment", experiment).await.expect(202);
        resize(&service, &users, server).await;
        until_a_step_hangs(&users, server).await;
        server
    });
    let is_request = |span: &Value| span["traceId"] == TRACE && span["parentSpanId"] == SPAN;
    until_span(&spans, &mut list, "the request", is_request);
    service.signal("-KILL");
    assert!(!service.death().success());

    let service = traced(dir.path(), &url);
    actix_rt::System::new().block_on(async {
        let users = users(&service, dir.path()).await;
        users.admin.notification("instance.resize_finish.end", Some(server)).await;
        users.admin.settled(server).await;
    });
    until_span(&spans, &mut list, "the move", |span| span["name"] == "resize");
    service.stop();
    list.extend(spans.try_iter());

    let ids: BTreeSet<&str> = list.iter().filter_map(|span| span["spanId"].as_str()).collect();
    assert_eq!(ids.len(), list.len(), "no span is told twice: {list:#?}");
    let mine: Vec<&Value> = list.iter().filter(|span| span["traceId"] == TRACE).collect();
    let [request] = mine.iter().filter(|span| is_request(span)).collect::<Vec<_>>()[..] else { panic!("one request: {mine:#?}") };
    let [resize] = mine.iter().filter(|span| span["name"] == "resize").collect::<Vec<_>>()[..] else { panic!("one move: {mine:#?}") };
    assert_eq!((&resize["parentSpanId"], attribute(resize, "cellshift.state")), (&request["spanId"], "done"));
    let steps: Vec<&&Value> = mine.iter().filter(|span| span["parentSpanId"] == resize["spanId"]).collect();
    assert_eq!(steps.len() + 2, mine.len(), "every span of the trace has its parent in it: {mine:#?}");
    let tries = |step: &str| -> Vec<&str> {
        steps.iter().filter(|span| span["name"] == step).map(|span| attribute(span, "cellshift.outcome")).collect()
    };
    let unknown = steps.iter().filter(|span| attribute(span, "cellshift.outcome") == "unknown");
    let [interrupted] = unknown.collect::<Vec<_>>()[..] else { panic!("the kill met one step: {steps:#?}") };
    let interrupted = interrupted["name"].as_str().expect("a name");
    assert_eq!((tries(interrupted), tries("publish")), (vec!["unknown", "ok"], vec!["ok"]), "{steps:#?}");
    let done: Vec<&str> =
        steps.iter().filter(|span| attribute(span, "cellshift.outcome") == "ok").filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), done.len(), "no step is done twice: {done:?}");
    assert!(done.contains(&"accept"), "what the first process did is told, too: {done:?}");
}

#[test]
fn a_collector_that_is_away_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let away = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let service = traced(dir.path(), &format!("http://{away}"));
    actix_rt::System::new().block_on(async {
        let users = users(&service, dir.path()).await;
        server(&users).await;
    });
    service.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("a log");
    assert_eq!(log.matches("the collector of traces does not take them").count(), 1, "{log}");
}
