//! A child that panics whenever it starts. Its parent starts a successor twice; the third death within a minute is one too many.
//! `cargo run -p cellshift-supervision --example three_deaths` prints what the parent learns; the test asserts it.

use std::time::Duration;

use actix::prelude::*;
use cellshift_supervision::{ChildDied, ChildSpec, Children, DeathGuard, Intensity, Verdict, supervised};
use tokio::sync::mpsc;

struct Worker {
    /// Reports the death to the parent.
    _guard: DeathGuard,
}

impl Actor for Worker {
    type Context = Context<Worker>;

    fn started(&mut self, _: &mut Self::Context) {
        panic!("it cannot start");
    }
}

supervised!(Worker);

struct Parent {
    workers: Children<Worker>,
    lessons: mpsc::UnboundedSender<String>,
}

impl Actor for Parent {
    type Context = Context<Parent>;
}

impl Handler<ChildDied> for Parent {
    type Result = ();

    fn handle(&mut self, died: ChildDied, ctx: &mut Self::Context) {
        let lesson = match self.workers.on_death(&died) {
            Verdict::Restarted(_) => format!("{} has a successor", died.name),
            Verdict::TooOften(escalated) => {
                ctx.stop();
                escalated.reason
            }
            Verdict::Nothing | Verdict::Died => return,
        };
        self.lessons.send(lesson).expect("the program listens until the parent has ended");
    }
}

/// Returns what a parent learns of a worker that may be started again twice in a minute.
async fn lessons() -> Vec<String> {
    let (sender, mut lessons) = mpsc::unbounded_channel();
    let _parent = Parent::create(|ctx| {
        let mut workers = Children::new(ctx.address().downgrade().recipient());
        let intensity = Intensity { max: 2, within: Duration::from_secs(60) };
        let factory = Box::new(|guard| Worker { _guard: guard }.start());
        workers.start(ChildSpec { name: "worker".to_owned(), intensity, factory });
        Parent { workers, lessons: sender }
    });
    let mut all = Vec::new();
    // The channel closes with the parent, which ends after the third death.
    while let Some(lesson) = lessons.recv().await {
        all.push(lesson);
    }
    all
}

#[actix::main]
async fn main() {
    lessons().await.iter().for_each(|lesson| println!("{lesson}"));
}

#[cfg(test)]
#[actix::test]
async fn the_parent_learns_of_each_death_and_gives_up() {
    assert_eq!(lessons().await, ["worker has a successor", "worker has a successor", "worker died 3 times within 60 s"]);
}
