//! The cost of traces: the same work with and without a collector, which takes everything and reads nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;

use crate::client::Client;
use crate::measure::Scale;
use crate::pages::new_server;
use crate::stage::Stage;

pub const HEAD: &str = "| work | traces | per second, median of the rounds | lowest | highest |\n|---|---|---:|---:|---:|";

/// The clients that work at once.
const CLIENTS: usize = 4;
/// The pause between two looks at a server that is being made.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The work that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// A server is shown.
    Look,
    /// A server is made, waited for and deleted.
    Create,
}

/// A collector, and the bytes that it got.
struct Collector {
    url: String,
    got: Arc<AtomicU64>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let got = Arc::new(AtomicU64::new(0));
        let counted = got.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                std::thread::spawn(move || take(stream, &counted));
            }
        });
        Collector { url, got }
    }
}

/// Answers a connection's messages until it ends.
fn take(stream: TcpStream, got: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    loop {
        let head: Vec<String> = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let length = head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<u64>().ok());
        let Some(length) = length else { return };
        let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).expect("a body");
        got.fetch_add(read, Ordering::Relaxed);
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Measures each work without traces and with them, in turns, so that a slow minute of the machine meets both.
pub async fn compare(scale: &Scale) {
    let collector = Collector::start();
    let (off, on) = (Stage::set(2, 2, true).await, Stage::set_traced(2, 2, &collector.url).await);
    for (name, work) in [("a server is shown", Work::Look), ("a server is made and deleted", Work::Create)] {
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..scale.rounds {
            measured[0].push(rate(&off.admin, work, scale.round).await);
            measured[1].push(rate(&on.admin, work, scale.round).await);
        }
        for (traces, mut rates) in ["off", "on"].into_iter().zip(measured) {
            rates.sort_by(f64::total_cmp);
            let (lowest, highest) = (rates[0], rates[rates.len() - 1]);
            println!("| {name} | {traces} | {:.1} | {lowest:.1} | {highest:.1} |", rates[rates.len() / 2]);
        }
    }
    off.strike();
    on.strike();
    println!("\nThe collector got {} KiB.", collector.got.load(Ordering::Relaxed) / 1024);
}

/// Returns how often per second all clients together do this work.
async fn rate(client: &Client, work: Work, round: Duration) -> f64 {
    let request = new_server(client).await;
    let shown = match work {
        Work::Look => Some(client.ask_for_server(&request).await),
        Work::Create => None,
    };
    let path = shown.map(|server| format!("/compute/v2.1/servers/{server}"));
    let began = Instant::now();
    let working = join_all((0..CLIENTS).map(|_| async {
        let mut done = 0_u32;
        while began.elapsed() < round {
            match &path {
                Some(path) => drop(client.get(path).await),
                None => make_and_delete(client, &request).await,
            }
            done += 1;
        }
        done
    }));
    let done: u32 = working.await.iter().sum();
    let rate = f64::from(done) / began.elapsed().as_secs_f64();
    if let Some(server) = shown {
        client.delete(server).await;
    }
    rate
}

async fn make_and_delete(client: &Client, request: &Value) {
    let server = client.ask_for_server(request).await;
    while client.status(server).await != "ACTIVE" {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    client.delete(server).await;
}
