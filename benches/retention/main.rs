//! `cargo bench --bench retention`: performs 50,000 operations on a running cloud whose clock is set forward again and again, and prints every
//! 5,000 operations how large its databases, its other files and its memory are. A year of such days must not grow them.
//!
//! `CELLSHIFT_OPERATIONS=N` sets the number of operations; `-- --quick` takes few, to see that it works.

#[path = "../moves/client.rs"]
#[expect(dead_code, reason = "the bench of moves asks for more")]
mod client;
mod sizes;
mod stage;

use futures::future::join_all;
use serde_json::{Value, json};

use client::Client;
use sizes::Sizes;
use stage::Stage;

/// The number of operations of a whole run, and of a quick one.
const OPERATIONS: usize = 50_000;
const FEW: usize = 64;
/// The number of operations between two lines of the table.
const ROUND: usize = 5_000;
/// The number of servers in use at once.
const AT_ONCE: usize = 50;
/// A server's operations: it is created, moved to the other cell, confirmed there and deleted.
const PER_SERVER: usize = 4;
/// The number of operations after which the clock is set forward.
const PER_JUMP: usize = 1_000;
/// Five jumps are longer than the longest retention, so that each line of the table comes after as many removals as additions.
const JUMP_DAYS: i64 = 40;

fn main() {
    // `cargo test --benches` passes no `--bench`: then the bench only shows that it works.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = std::env::var("CELLSHIFT_OPERATIONS").map_or(OPERATIONS, |number| number.parse().expect("CELLSHIFT_OPERATIONS is a number"));
    let operations = if has("--quick") || !has("--bench") { FEW } else { all };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
    runtime.block_on(run(operations));
}

async fn run(operations: usize) {
    let stage = Stage::set();
    let (mut done, mut printed, mut jumped) = (0, 0, 0);
    println!("{}", Sizes::HEAD);
    println!("{}", Sizes::of(stage.folder()).line(0));
    let mut user = User::of(&stage).await;
    while done < operations {
        let servers = AT_ONCE.min((operations - done).div_ceil(PER_SERVER));
        join_all((0..servers).map(|_| user.life_of_a_server(&stage))).await;
        done += servers * PER_SERVER;
        if done - jumped >= PER_JUMP {
            jumped = done;
            stage.set_forward(JUMP_DAYS);
            stage.purged().await;
            // The old token has expired.
            user = User::of(&stage).await;
        }
        if done - printed >= ROUND || done >= operations {
            printed = done;
            println!("{}", Sizes::of(stage.folder()).line(done));
        }
    }
    stage.strike();
}

/// The user of the servers.
struct User {
    client: Client,
    create: Value,
    resize: Value,
}

impl User {
    async fn of(stage: &Stage) -> User {
        let client = stage.log_in().await;
        let flavors = client.look("/compute/v2.1/flavors").await;
        let images = client.look("/image/v2/images").await;
        let id = |all: &Value, name: &str| {
            let entry = all.as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
            entry.unwrap_or_else(|| panic!("no {name} in {all}"))["id"].clone()
        };
        let (small, other) = (id(&flavors["flavors"], "gen1.small"), id(&flavors["flavors"], "gen2.small"));
        let image = id(&images["images"], "tiny");
        let create = json!({"server": {"name": "short", "flavorRef": small, "imageRef": image, "networks": "none"}});
        User { client, create, resize: json!({"resize": {"flavorRef": other}}) }
    }

    async fn life_of_a_server(&self, stage: &Stage) {
        let server = self.client.ask_for_server(&self.create).await;
        stage.rest(server).await;
        self.client.act(server, &self.resize).await;
        stage.rest(server).await;
        assert_eq!(self.client.status(server).await, "VERIFY_RESIZE");
        self.client.act(server, &json!({"confirmResize": null})).await;
        stage.rest(server).await;
        self.client.delete(server).await;
        stage.rest(server).await;
    }
}
