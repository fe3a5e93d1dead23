//! `cargo bench --bench recovery`: the built program is killed (`kill -9`) while a thousand servers are on their way to another cell,
//! and started again. Prints how long after the start of the process each of the moves was taken over, was run again, and had ended.
//!
//! `CELLSHIFT_RECOVERY=N` takes another number of servers; `-- --quick` takes few, to see that it works.

#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
mod journal;
mod stage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use journal::{Journal, Move};
use stage::{PATIENCE, Stage};

/// Servers of a whole run, and of one that only shows that it works.
const SERVERS: usize = 1000;
const FEW: usize = 8;
/// Requests at once.
const AT_ONCE: usize = 64;
/// Where the moves are when the process is killed: their disks have been uploaded, their guests are about to be let go.
const HELD_AT: &str = "release_source_guest";
/// How often the journal is looked at: the times are no finer.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn main() {
    // Under `cargo test --benches` there is no `--bench`: then it only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = std::env::var("CELLSHIFT_RECOVERY").map_or(SERVERS, |number| number.parse().expect("CELLSHIFT_RECOVERY is a number"));
    let servers = if given("--quick") || !given("--bench") { FEW } else { all };
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

    let resize = json!({"resize": {"flavorRef": other}});
    for chunk in made.chunks(AT_ONCE) {
        join_all(chunk.iter().map(|server| life.member.client.act(*server, &resize))).await;
    }
    let held = |all: &[Move]| all.iter().filter(|one| one.kind == "resize" && one.step == HELD_AT).count() == servers;
    until(&mut journal, "all are on their way", held).await;
    life.kill();
    let before: BTreeMap<String, Move> = moves(&mut journal).into_iter().map(|one| (one.id.clone(), one)).collect();

    let start = Instant::now();
    let life = stage.start(false).await;
    println!("{servers} moves were at {HELD_AT}; after kill -9 and a start:");
    println!("  answers requests            {:6.2} s", start.elapsed().as_secs_f32());
    told(&mut journal, start, &before).await;
    let arrived = moves(&mut journal).iter().filter(|one| one.state == "done").count();
    println!("  arrived at their target     {arrived:6}");
    life.kill();
}

fn moves(journal: &mut Journal) -> Vec<Move> {
    journal.all().into_iter().filter(|one| one.kind == "resize").collect()
}

/// Waits until something is so of all operations.
async fn until(journal: &mut Journal, what: &str, so: impl Fn(&[Move]) -> bool) {
    let waiting = async {
        while !so(&journal.all()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
}

/// Waits until every move has ended, and prints since the start of the process when each thing was so of the first, of half and of all.
async fn told(journal: &mut Journal, start: Instant, before: &BTreeMap<String, Move>) {
    let all = before.len();
    let mut seen: [Vec<Duration>; 3] = Default::default();
    let waiting = async {
        while seen[2].len() < all {
            let now = moves(journal);
            let taken = |one: &&Move| one.ended() || one.lease_epoch > before[&one.id].lease_epoch;
            let run = |one: &&Move| one.ended() || one.lines > before[&one.id].lines;
            let counts = [now.iter().filter(taken).count(), now.iter().filter(run).count(), now.iter().filter(|one| one.ended()).count()];
            for (times, count) in seen.iter_mut().zip(counts) {
                times.resize(count.max(times.len()), start.elapsed());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{} of {all} have ended", seen[2].len()));
    for (what, times) in ["taken over", "run again", "ended"].iter().zip(seen) {
        let at = |number: usize| times[number].as_secs_f32();
        println!("  {what:<12} first {:6.2} s  half {:6.2} s  all {:6.2} s", at(0), at(all / 2), at(all - 1));
    }
}
