//! Two conductors in one process, over one API database and the same hosts. One pauses or dies during moves. The other ends the moves, and
//! the late effects of the first are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cellshift::actors::root::Parts;
use cellshift::config::Config;
use cellshift::db::api::leases::LEASE;
use cellshift::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use cellshift::domain::standing::Standing;
use cellshift::virt::{HostUnreachable, Hosts};
use serde_json::json;
use tokio::sync::{Mutex, Notify, mpsc};
use uuid::Uuid;

use crate::chaos_api::{enabled, experiment, inject};
use crate::client::PATIENCE;
use crate::databases;
use crate::stage::{Stage, play, play_altered};

fn two(config: &mut Config) {
    enabled(config);
    config.conductor.workers = 2;
}

type Reply = Result<HostReply, HostUnreachable>;

/// Holds back a request for a guest at its target on its way to the host.
struct Gate {
    closed: AtomicBool,
    came: Notify,
    opened: Notify,
    reply: mpsc::UnboundedSender<Reply>,
    replied: Mutex<mpsc::UnboundedReceiver<Reply>>,
}

impl Gate {
    fn new() -> Arc<Gate> {
        let (reply, replied) = mpsc::unbounded_channel();
        Arc::new(Gate { closed: AtomicBool::new(false), came: Notify::new(), opened: Notify::new(), reply, replied: Mutex::new(replied) })
    }

    fn stand_before_hosts(self: &Arc<Gate>) -> impl FnOnce(&mut Parts) + use<> {
        let gate = self.clone();
        move |parts| {
            parts.between.hosts = Some(Arc::new(move |inner| Arc::new(Gated { inner, gate: gate.clone() })));
        }
    }
}

struct Gated {
    inner: Arc<dyn Hosts>,
    gate: Arc<Gate>,
}

#[async_trait]
impl Hosts for Gated {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Reply {
        let of_kind = matches!(request.command, HostCommand::PrepareGuest { .. });
        if !of_kind || !self.gate.closed.swap(false, Ordering::SeqCst) {
            return self.inner.request(cell, host, request).await;
        }
        self.gate.came.notify_one();
        self.gate.opened.notified().await;
        let reply = self.inner.request(cell, host, request).await;
        self.gate.reply.send(reply.clone()).expect("the test waits for it");
        reply
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.inner.query(cell, host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        self.inner.standing(cell, host).await
    }
}

/// Returns the name of the conductor with this lease owner's name.
fn conductor_of(owner: &str) -> &str {
    owner.split_once('/').map_or("conductor", |(_, actor)| actor)
}

fn seconds(duration: chrono::TimeDelta) -> f64 {
    duration.as_seconds_f64()
}

#[test]
fn writes_of_a_conductor_that_wakes_up_are_refused() {
    let gate = Gate::new();
    let between = gate.stand_before_hosts();
    play_altered(two, databases::place, between, |stage| async move {
        let (operations, env) = (stage.world().operations.clone(), stage.world().env.clone());
        let server = stage.create(stage.server()).await;
        gate.closed.store(true, Ordering::SeqCst);
        stage.member.resize(server, "gen2.small").await.expect(202);
        tokio::time::timeout(PATIENCE, gate.came.notified()).await.expect("a guest is to be prepared");
        let saga = operations.holder(server).await.expect("the journal").expect("an operation");
        let before = operations.saga(saga).await.expect("the journal").expect("a saga");
        let sleeper = conductor_of(&before.lease.owner).to_owned();
        let asleep = env.now();
        let fault = inject(&stage, json!({"pause": {"actor": sleeper, "for_ms": 600_000}})).await;

        // Nothing announces the pause: the sleeper's lease expires.
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let ended = operations.saga(saga).await.expect("the journal").expect("a saga");
        assert_ne!(conductor_of(&ended.lease.owner), sleeper);
        assert_eq!((before.lease.epoch, ended.lease.epoch), (1, 2));
        let journal = operations.entries(saga).await.expect("the journal");
        let entry = journal.iter().filter(|entry| entry.step == "prepare_at_target" && entry.event == "begun").nth(1);
        let delay = seconds(entry.expect("the other tries again").at - asleep);
        println!("taken over after {delay:.2} s, ended after {:.2} s", seconds(ended.updated_at - asleep));
        let bound = (LEASE + operations.round_interval()).as_secs_f64();
        assert!(delay < bound + 1.0, "taken over {delay} s after it fell asleep, and {bound} s are due");

        // The sleeper wakes up, and its request reaches the host.
        stage.admin.delete(&format!("/ops/v1/chaos/faults/{fault}")).await.expect(204);
        gate.opened.notify_one();
        let reply = tokio::time::timeout(PATIENCE, async { gate.replied.lock().await.recv().await }).await.expect("the host answers");
        assert!(matches!(reply, Some(Ok(HostReply::Stale { .. }))), "its effect is refused: {reply:?}");
        let lets_go = async || stage.running.tree.conductor.in_flight_of(&sleeper) == Some(0);
        stage.until("the sleeper lets go", lets_go).await;
        assert_eq!(operations.saga(saga).await.expect("the journal"), Some(ended), "it writes nothing");
        assert_eq!(operations.entries(saga).await.expect("the journal"), journal);
        let runs_on = stage.runs_on(server).await;
        assert!(runs_on.len() == 1 && runs_on.iter().all(|host| host.starts_with("cell2-")), "{runs_on:?}");
        stage.confirm(server).await;
    });
}

/// The number of moves that both conductors work on concurrently.
const MOVES: usize = 8;

const BOTH_FAIL: &str = r#"
title = "One conductor stands still in the middle of moves, the other dies while it does"

[[faults]]
when = { step = "prepare_at_target", saga = "resize", occurrence = 3 }
what = { pause = { actor = "conductor-2", for_ms = 8000 } }

[[faults]]
when = { step = "publish", saga = "resize", occurrence = 2 }
what = { kill = { actor = "conductor" } }

[expect]
arrived = { at_least = 8 }
"#;

async fn created(stage: &Arc<Stage>) -> Vec<Uuid> {
    let mut servers = Vec::new();
    for _ in 0..MOVES {
        servers.push(stage.create(stage.server()).await);
    }
    servers
}

#[test]
fn moves_end_whichever_conductor_stands_still_or_dies_meanwhile() {
    play(two, |stage| async move {
        let servers = created(&stage).await;
        stage.admin.post_file("/ops/v1/chaos/experiment", "application/toml", BOTH_FAIL).await.expect(202);
        for server in &servers {
            stage.member.resize(*server, "gen2.small").await.expect(202);
        }
        for server in &servers {
            stage.at_rest(*server, "VERIFY_RESIZE").await;
        }
        let over = experiment(&stage, "over").await;
        assert_eq!(over["verdict"]["conclusion"], "held", "{over:#}");
        println!("{}", over["verdict"]["recovery"]);
        let owners = async {
            let mut owners = Vec::new();
            for saga in over["verdict"]["migrations"].as_array().expect("migrations") {
                let saga = saga["uuid"].as_str().and_then(|id| Uuid::parse_str(id).ok()).expect("an id");
                let saga = stage.world().operations.saga(saga).await.expect("the journal").expect("a saga");
                owners.push((saga.lease.epoch, conductor_of(&saga.lease.owner).to_owned()));
            }
            owners
        };
        let owners = owners.await;
        assert!(owners.iter().any(|(epoch, owner)| *epoch > 1 && owner == "conductor"), "it takes over: {owners:?}");
        for (number, server) in servers.iter().enumerate() {
            if number % 2 == 0 {
                stage.member.confirm(*server).await.expect(204);
            } else {
                stage.member.revert(*server).await.expect(202);
            }
        }
        for server in &servers {
            stage.at_rest(*server, "ACTIVE").await;
        }
        let actors = stage.admin.get("/ops/v1/chaos/actors").await.expect(200).body;
        let conductors = actors["actors"].as_array().expect("actors").iter().filter(|actor| {
            let name = actor["name"].as_str().unwrap_or_default();
            name.starts_with("conductor") && !name.contains('/')
        });
        let rows: Vec<_> = conductors.map(|one| (one["name"].clone(), one["alive"].clone(), one["restarts"].clone())).collect();
        assert_eq!(rows, [(json!("conductor"), json!(true), json!(1)), (json!("conductor-2"), json!(true), json!(0))]);
    });
}

#[test]
fn a_delete_reaches_an_operation_whose_conductor_sleeps() {
    let gate = Gate::new();
    let between = gate.stand_before_hosts();
    play_altered(two, databases::place, between, |stage| async move {
        let (operations, path) = (stage.world().operations.clone(), |server: Uuid| format!("/servers/{server}"));
        let server = stage.create(stage.server()).await;
        gate.closed.store(true, Ordering::SeqCst);
        stage.member.resize(server, "gen2.small").await.expect(202);
        tokio::time::timeout(PATIENCE, gate.came.notified()).await.expect("a guest is to be prepared");
        let saga = operations.holder(server).await.expect("the journal").expect("an operation");
        let sleeper = conductor_of(&operations.saga(saga).await.expect("the journal").expect("a saga").lease.owner).to_owned();
        let fault = inject(&stage, json!({"pause": {"actor": sleeper, "for_ms": 600_000}})).await;
        stage.member.delete(&path(server)).await.expect(204);
        stage.member.delete(&path(server)).await.expect(204);

        // The other conductor takes over the saga in doubt, turns it back, and begins the delete at its end.
        stage.gone(server).await;
        let ended = operations.saga(saga).await.expect("the journal").expect("a saga");
        assert_eq!((ended.state.as_str(), ended.cancellation.is_some()), ("unwound", true));
        assert_ne!(conductor_of(&ended.lease.owner), sleeper);
        stage.admin.delete(&format!("/ops/v1/chaos/faults/{fault}")).await.expect(204);
        gate.opened.notify_one();
        let reply = tokio::time::timeout(PATIENCE, async { gate.replied.lock().await.recv().await }).await.expect("the host answers");
        assert!(matches!(reply, Some(Ok(HostReply::Stale { .. }))), "its effect is refused: {reply:?}");
        assert_eq!(operations.saga(saga).await.expect("the journal"), Some(ended), "the sleeper writes nothing");
        assert!(stage.runs_on(server).await.is_empty());
    });
}
