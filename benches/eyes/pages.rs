//! Open pages beside a service at work, which holds moves in flight. Pages and work are asked for by a process of their own, so that the
//! processor time of this process is the service's alone.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use reqwest::Method;
use reqwest::header::CACHE_CONTROL;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, interval_at};

use crate::client::Client;
use crate::measure::Scale;
use crate::stage::{HELD_AT, PATIENCE, Stage};

/// The argument of the process that asks: the address, the file of clouds, the number of pages and the milliseconds follow.
pub const ASK: &str = "--ask-as-pages";

pub const HEAD: &str = "| moves in flight | open pages | servers made and deleted/s | answers to pages/s | processor time, of one core | memory |\n\
                        |---:|---:|---:|---:|---:|---:|";

/// The number of requests at once that begin the moves.
const AT_ONCE: usize = 16;
/// The pause between two servers that are made and deleted.
const BETWEEN_SERVERS: Duration = Duration::from_millis(250);
/// The requests of an open overview while notifications come, and their interval.
const OVERVIEW: [(&str, Duration); 7] = [
    ("/ops/v1/summary", Duration::from_secs(1)),
    ("/ops/v1/cells?hosts=false", Duration::from_secs(2)),
    ("/ops/v1/hosts?limit=1000", Duration::from_secs(2)),
    ("/ops/v1/unconfirmed-moves?limit=1000", Duration::from_secs(5)),
    ("/ops/v1/migrations?status=running&saga=resize%2Clive_migrate%2Crevert%2Cevacuate%2Cunshelve&limit=100", Duration::from_secs(10)),
    ("/ops/v1/migrations?status=unwinding&saga=resize%2Clive_migrate%2Crevert%2Cevacuate%2Cunshelve&limit=100", Duration::from_secs(10)),
    ("/ops/v1/history", Duration::from_secs(10)),
];
/// The requests of an open table of moves: the stream tells it the rest.
const MOVES: [(&str, Duration); 1] = [("/ops/v1/migrations?limit=100", Duration::from_secs(10))];

/// Measures the service without pages and with some, in turns.
pub fn compare(scale: &Scale, stage: &Stage) {
    for pages in [0, scale.pages, 0, scale.pages] {
        let program = std::env::current_exe().expect("this program");
        let for_ms = scale.pages_for.as_millis().to_string();
        let mut asker = Command::new(program)
            .args([ASK, &stage.address.to_string(), &stage.clouds.to_string_lossy(), &pages.to_string(), &for_ms])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the asker runs");
        let mut lines = BufReader::new(asker.stdout.take().expect("its output")).lines();
        let mut line = || lines.next().expect("a line").expect("a text");
        assert_eq!(line(), "ready");
        let (began, used) = (Instant::now(), processor_time());
        let counts: Vec<f64> = line().split(' ').map(|count| count.parse().expect("a count")).collect();
        let took = began.elapsed().as_secs_f64();
        let (share, memory) = ((processor_time() - used).as_secs_f64() / took, resident_mib());
        asker.wait().expect("the asker ends");
        println!(
            "| {} | {pages} | {:.1} | {:.1} | {:.1} % | {memory} MiB |",
            scale.moves,
            counts[0] / took,
            counts[1] / took,
            share * 100.0
        );
    }
}

/// Makes servers, and begins a move to the other cell with each. Returns once all are on their way.
pub async fn begin_moves(client: &Client, moves: usize) {
    let flavors = client.look("/compute/v2.1/flavors").await;
    let flavor =
        |name: &str| flavors["flavors"].as_array().expect("flavors").iter().find(|one| one["name"] == name).expect(name)["id"].clone();
    let mut request = new_server(client).await;
    request["server"]["flavorRef"] = flavor("gen1.small");
    let resize = json!({"resize": {"flavorRef": flavor("gen2.small")}});
    let begin = || async {
        let server = client.ask_for_server(&request).await;
        while client.status(server).await != "ACTIVE" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        client.act(server, &resize).await;
        let newest = format!("/ops/v1/migrations?saga=resize&limit=1&server={server}");
        while client.look(&newest).await["migrations"][0]["step"] != HELD_AT {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    stream::iter(0..moves).for_each_concurrent(AT_ONCE, |_| begin()).await;
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().expect("a time since the start")
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its resident memory");
    line.trim().split(' ').next().expect("a number").parse::<u64>().expect("a number") / 1024
}

/// Is the process that asks.
pub async fn ask(arguments: &[String]) {
    let [address, clouds, pages, for_ms] = arguments else { panic!("{arguments:?} are no four arguments") };
    let address: SocketAddr = address.parse().expect("an address");
    let client = Client::log_in(address, Path::new(clouds), "cellshift-admin").await;
    let request = new_server(&client).await;
    let (servers, answers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let pages: u32 = pages.parse().expect("a number");
    for page in 0..pages {
        let mut stream = client.follow("/ops/v1/notifications?operations=true").await;
        tokio::spawn(async move { while let Ok(Some(_)) = stream.chunk().await {} });
        for &(path, pause) in if page % 2 == 0 { &OVERVIEW[..] } else { &MOVES[..] } {
            // Nobody opens all pages at once.
            let first = Instant::now() + pause * page / pages;
            tokio::spawn(repeat(client.clone(), path, (first, pause), answers.clone()));
        }
    }
    tokio::spawn(work(client, request, servers.clone()));
    tell("ready");
    answers.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(for_ms.parse().expect("milliseconds"))).await;
    tell(&format!("{} {}", servers.load(Ordering::Relaxed), answers.load(Ordering::Relaxed)));
}

fn tell(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("somebody reads");
}

/// Asks again and again, from `first` on. An answer of the last second is good enough, and the requests say so.
async fn repeat(client: Client, path: &'static str, (first, pause): (Instant, Duration), answers: Arc<AtomicU64>) {
    let mut next = interval_at(first.into(), pause);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        let request = client.request(Method::GET, path).timeout(PATIENCE).header(CACHE_CONTROL, "max-age=1");
        let answer = request.send().await.expect("an answer").error_for_status().expect("a success");
        answer.bytes().await.expect("a body");
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the request for a small server.
pub async fn new_server(client: &Client) -> Value {
    // Moves in flight have images of their own.
    let image = client.look("/image/v2/images?name=tiny").await["images"][0]["id"].clone();
    let flavors = client.look("/compute/v2.1/flavors").await;
    let flavor = flavors["flavors"].as_array().expect("flavors").iter().find(|flavor| flavor["name"] == "m1.tiny").expect("a small one");
    json!({"server": {"name": "page", "imageRef": image, "flavorRef": flavor["id"], "networks": "none"}})
}

/// Makes servers and deletes them, one begun after each pause.
async fn work(client: Client, request: Value, servers: Arc<AtomicU64>) {
    let mut next = interval(BETWEEN_SERVERS);
    loop {
        next.tick().await;
        let (client, request, servers) = (client.clone(), request.clone(), servers.clone());
        tokio::spawn(async move {
            let server = client.ask_for_server(&request).await;
            while client.status(server).await != "ACTIVE" {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            client.delete(server).await;
            servers.fetch_add(1, Ordering::Relaxed);
        });
    }
}
