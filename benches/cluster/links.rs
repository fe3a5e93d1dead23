//! A query to a host that answers at once: over the mailbox link to a host of this process, over the NATS link to an agent of its own, and
//! beside them a bare round trip over the same NATS server.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use cellshift::agent::Agent;
use cellshift::agent::config::AgentConfig;
use cellshift::domain::host_protocol::{HostAnswer, HostQuery};
use cellshift::env::Env;
use cellshift_host::link::HostLink;
use cellshift_nats::testkit::Broker;
use cellshift_nats::{Life, Name, Rhythm};
use futures::StreamExt;
use futures::future::join_all;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::Scale;
use crate::agent_process::{self, AgentProcess};
use crate::desk::Controller;
use crate::process::directory;
use crate::sample::Times;
use crate::stage::{CELL, PATIENCE, ms, runtime, soon, url_of};

/// The host whose agent is a process.
const AWAY: &str = "cell1-host1";
/// The host in this process.
const HERE: &str = "cell1-host2";
/// The user who sends each message back.
const ECHO: &str = "echo";
/// The size of the echo's messages in bytes, which is about that of an answer.
const ECHOED: usize = 256;
/// The first messages of each sender are not measured.
const WARM_UP: usize = 10;

const HEAD: &str = "| a query and its answer | at once | median | p99 | a second |\n|---|---:|---:|---:|---:|";

/// The measured round trips of one way.
struct Row {
    way: &'static str,
    at_once: usize,
    times: Times,
    whole: Duration,
}

/// Measures all ways, alone and at once. Returns the table.
pub async fn measure(scale: &Scale) -> String {
    let folder = directory("links-");
    let broker = Broker::of_cell(CELL, &[AWAY, HERE, ECHO]).await;
    let echo = echo(&broker).await;
    let controller = Controller::start(&broker).await;
    let away = folder.path().join("away");
    let config = agent_process::config(&broker, &away, &[AWAY.to_owned()]);
    let _agent = AgentProcess::start(&agent_process::write(&config, &away));
    let nats: Arc<dyn HostLink> = Arc::new(controller.link(&broker, AWAY).await);
    let here = Here::start(agent_process::config(&broker, &folder.path().join("here"), &[HERE.to_owned()]));
    let mut rows = Vec::new();
    for (at_once, each) in [(1, scale.messages), (scale.senders, scale.messages_of_each)] {
        rows.push(row("bare NATS, to an echo", at_once, each, || echo.round_trip()).await);
        rows.push(row("NATS link, to an agent", at_once, each, || query(&nats)).await);
        rows.push(row("mailbox link, to a host of this process", at_once, each, || query(&here.link)).await);
    }
    here.stop();
    text(&rows)
}

/// Measures round trips: `at_once` senders send `each` messages one after the other.
async fn row<F: Future<Output = ()>>(way: &'static str, at_once: usize, each: usize, round_trip: impl Fn() -> F) -> Row {
    let sender = async || {
        let mut times = Vec::new();
        for number in 0..each + WARM_UP {
            let began = Instant::now();
            round_trip().await;
            if number >= WARM_UP {
                times.push(began.elapsed());
            }
        }
        times
    };
    let began = Instant::now();
    let mut times = Times::default();
    join_all((0..at_once).map(|_| sender())).await.into_iter().for_each(|of_one| times.extend(of_one));
    Row { way, at_once, times, whole: began.elapsed() }
}

async fn query(link: &Arc<dyn HostLink>) {
    let answer = link.query(HostQuery::Summary, PATIENCE).await.expect("an answer");
    assert!(matches!(answer, HostAnswer::Summary(_)), "{answer:?}");
}

fn text(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let all = row.times.len() + WARM_UP * row.at_once;
        let rate = all as f64 / row.whole.as_secs_f64();
        format!("| {} | {} | {:.3} ms | {:.3} ms | {rate:.0} |\n", row.way, row.at_once, ms(row.times.median()), ms(row.times.p99()))
    };
    format!("{HEAD}\n{}", rows.iter().map(line).collect::<String>())
}

/// A host of this process, on a thread of its own, and the mailbox link to it.
struct Here {
    link: Arc<dyn HostLink>,
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Here {
    fn start(config: AgentConfig) -> Here {
        let (end, ended) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async move {
                let agent = Agent::start(&config, Env::system(), Rhythm::default()).await.expect("an agent");
                started.send(agent.hosts().open(HERE).expect("a host that takes messages")).expect("somebody waits");
                // The bench may have ended already.
                let _ = ended.await;
                agent.stop().await;
            });
        });
        let link = starting.recv_timeout(PATIENCE).expect("the host starts");
        Here { link, end, thread }
    }

    fn stop(self) {
        let _ = self.end.send(());
        self.thread.join().expect("the host ends");
    }
}

/// The requester of a bare round trip.
struct Echo {
    client: Client,
    subject: String,
    payload: Bytes,
}

impl Echo {
    async fn round_trip(&self) {
        let answer = self.client.request(self.subject.clone(), self.payload.clone()).await.expect("an answer");
        assert_eq!(answer.payload.len(), ECHOED);
    }
}

/// Starts an echo on a thread of its own. It has the rights of an agent, and its requester those of a controller.
async fn echo(broker: &Broker) -> Echo {
    let address = broker.cell.host(Name::parse(ECHO).expect("a name"));
    let subject = address.queries(Life::new(Uuid::from_u128(1)));
    let (url, seed, inbox) = (url_of(broker), broker.agent(ECHO).seed.expose().clone(), address.inbox());
    let (ready, is_ready) = oneshot::channel();
    let heard = subject.clone();
    std::thread::spawn(move || runtime().block_on(send_back((url, seed, inbox), heard, ready)));
    soon("the echo listens", is_ready).await.expect("the echo listens");
    let client = connect((url_of(broker), broker.controllers.seed.expose().clone(), broker.cell.inbox())).await;
    Echo { client, subject, payload: vec![b'x'; ECHOED].into() }
}

/// Sends each message back until the process ends.
async fn send_back(login: (String, String, String), subject: String, ready: oneshot::Sender<()>) {
    let client = connect(login).await;
    let mut messages = client.subscribe(subject).await.expect("a subscription");
    client.flush().await.expect("the server knows of it");
    ready.send(()).expect("somebody waits");
    while let Some(message) = messages.next().await {
        if let Some(reply_to) = message.reply {
            client.publish(reply_to, message.payload).await.expect("the server takes it");
        }
    }
}

async fn connect((url, seed, inbox): (String, String, String)) -> Client {
    ConnectOptions::new().nkey(seed).custom_inbox_prefix(inbox).connect(url).await.expect("a connection")
}
