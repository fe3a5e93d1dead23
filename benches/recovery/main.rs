//! `cargo bench --bench recovery`: kills the program (`kill -9`) while a thousand servers move to another cell, and starts it again. Prints
//! how long after the process's start the moves were taken over, ran again, and had ended, and the memory that held them.
//!
//! `CELLSHIFT_RECOVERY=N` sets the number of servers; `-- --quick` takes few, to see that it works. `CELLSHIFT_BENCH_POSTGRES` names a
//! PostgreSQL server for the databases, instead of SQLite.

#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
#[path = "../databases.rs"]
mod databases;
mod journal;
#[path = "../process.rs"]
#[expect(dead_code, reason = "the bench of scale asks for more")]
mod process;
mod stage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use journal::{Journal, Move};
use stage::{PATIENCE, Stage};

/// The number of servers of a whole run, and of a quick one.
const SERVERS: usize = 1000;
const FEW: usize = 8;
/// The number of concurrent requests.
const AT_ONCE: usize = 64;
/// The step at which the moves are when the process is killed: their disks are uploaded, and their guests are about to be released.
const HELD_AT: &str = "release_source_guest";
/// The shortest interval of reading the journal, which limits the precision.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = std::env::var("CELLSHIFT_RECOVERY").map_or(SERVERS, |number| number.parse().expect("CELLSHIFT_RECOVERY is a number"));
    let servers = if has("--quick") || !has("--bench") { FEW } else { all };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    runtime.block_on(run(servers));
}

async fn run(servers: usize) {
    let stage = Stage::set(servers);
    let mut journal = Journal::of(&stage);
    let life = stage.start(true).await;
    let image = life.member.upload_image().await;
    let (small, other) = (life.member.flavor("gen1.small").await, life.member.flavor("gen2.small").await);
    let began = Instant::now();
    let create = json!({"server": {"name": "moved", "flavorRef": small, "imageRef": image, "networks": "none"}});
    let mut made: Vec<Uuid> = Vec::new();
    while made.len() < servers {
        let chunk = AT_ONCE.min(servers - made.len());
        made.extend(join_all((0..chunk).map(|_| life.member.client.ask_for_server(&create))).await);
    }
    let made_well = |all: &[Move]| all.iter().filter(|one| one.kind == "create" && one.state == "done").count() == servers;
    until(&mut journal, "the servers are made", made_well).await;
    println!("{servers} servers made in {:.1} s", began.elapsed().as_secs_f32());

    let idle = life.process.usage().memory_kib;
    let resize = json!({"resize": {"flavorRef": other}});
    for chunk in made.chunks(AT_ONCE) {
        join_all(chunk.iter().map(|server| life.member.client.act(*server, &resize))).await;
    }
    let held = |all: &[Move]| all.iter().filter(|one| one.kind == "resize" && one.step == HELD_AT).count() == servers;
    let before = life.process.usage().memory_kib;
    until(&mut journal, "all are on their way", held).await;
    let after = life.process.usage().memory_kib;
    let each = after.saturating_sub(idle) / u64::try_from(servers).expect("a number of servers");
    println!("memory: {} MiB, after the requests {} MiB, with all moves held {} MiB", idle / 1024, before / 1024, after / 1024);
    println!("        {each} KiB for each move, with what the service keeps for the requests");
    life.kill();
    let at_death: BTreeMap<String, Move> = moves(&mut journal).await.into_iter().map(|one| (one.id.clone(), one)).collect();

    let start = Instant::now();
    let life = stage.start(false).await;
    println!("{servers} moves were at {HELD_AT}; after kill -9 and a start:");
    println!("  answers requests            {:6.2} s", start.elapsed().as_secs_f32());
    report(&mut journal, start, &at_death).await;
    let arrived = moves(&mut journal).await.iter().filter(|one| one.state == "done").count();
    println!("  arrived at their target     {arrived:6}");
    println!("  memory                      {:6} MiB", life.process.usage().memory_kib / 1024);
    life.kill();
}

async fn moves(journal: &mut Journal) -> Vec<Move> {
    journal.all().await.into_iter().filter(|one| one.kind == "resize").collect()
}

/// Waits until a condition holds for the operations.
async fn until(journal: &mut Journal, what: &str, so: impl Fn(&[Move]) -> bool) {
    let waiting = async {
        loop {
            let began = Instant::now();
            if so(&journal.all().await) {
                return;
            }
            rest_after(began).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
}

/// Waits before the next look, long enough that looking at many moves takes little of the machine.
async fn rest_after(look_began: Instant) {
    tokio::time::sleep(LOOK_EVERY.max(look_began.elapsed() * 5)).await;
}

/// Waits until all moves have ended, and prints the times since the process's start for the first, for half and for all moves.
async fn report(journal: &mut Journal, start: Instant, before: &BTreeMap<String, Move>) {
    let all = before.len();
    let mut seen: [Vec<Duration>; 3] = Default::default();
    let waiting = async {
        while seen[2].len() < all {
            let began = Instant::now();
            let now = moves(journal).await;
            let has_taken_over = |one: &&Move| one.ended() || one.lease_epoch > before[&one.id].lease_epoch;
            let run = |one: &&Move| one.ended() || one.lines > before[&one.id].lines;
            let counts =
                [now.iter().filter(has_taken_over).count(), now.iter().filter(run).count(), now.iter().filter(|one| one.ended()).count()];
            for (times, count) in seen.iter_mut().zip(counts) {
                times.resize(count.max(times.len()), start.elapsed());
            }
            rest_after(began).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{} of {all} have ended", seen[2].len()));
    for (what, times) in ["taken over", "run again", "ended"].iter().zip(seen) {
        let at = |number: usize| times[number].as_secs_f32();
        println!("  {what:<12} first {:6.2} s  half {:6.2} s  all {:6.2} s", at(0), at(all / 2), at(all - 1));
    }
}
