//! Tests of supervision: every kind of death is noticed, restarts are counted, and what is too often moves up.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::*;
use crate::arbiters::Arbiters;

#[derive(Message, Clone, Copy, Debug)]
#[rtype(result = "()")]
enum Die {
    Panic,
    Stop,
    Terminate,
    Finish,
    EndOfThread,
}

struct Worker {
    guard: DeathGuard,
    panics_at_start: bool,
}

impl Actor for Worker {
    type Context = Context<Worker>;

    fn started(&mut self, _: &mut Self::Context) {
        assert!(!self.panics_at_start, "a test wants this panic");
    }
}

impl Handler<Die> for Worker {
    type Result = ();

    fn handle(&mut self, how: Die, ctx: &mut Self::Context) {
        match how {
            Die::Panic => panic!("a test wants this panic"),
            Die::Stop => ctx.stop(),
            Die::Terminate => ctx.terminate(),
            Die::EndOfThread => {
                Arbiter::current().stop();
            }
            Die::Finish => {
                self.guard.finish();
                ctx.stop();
            }
        }
    }
}

supervised!(Worker);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    Nothing,
    Died,
    Restarted,
    Escalated(String),
}

struct Parent {
    children: Option<Children<Worker>>,
    intensity: Intensity,
    once: bool,
    panics: Arc<Mutex<usize>>,
    arbiters: Arbiters,
    events: mpsc::UnboundedSender<Event>,
    roster: Roster,
}

impl Actor for Parent {
    type Context = Context<Parent>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let mut children = Children::new(ctx.address().downgrade().recipient()).listed(&self.roster, "house/");
        let (panics, home) = (self.panics.clone(), self.arbiters.home());
        let factory = Box::new(move |guard| {
            let mut left = panics.lock();
            let panics_at_start = *left > 0;
            *left = left.saturating_sub(1);
            let worker = Worker { guard, panics_at_start };
            home.start(|| worker)
        });
        if self.once {
            children.start_once("worker", factory);
        } else {
            children.start(ChildSpec { name: "worker".into(), intensity: self.intensity, factory });
        }
        self.children = Some(children);
    }
}

impl Handler<ChildDied> for Parent {
    type Result = ();

    fn handle(&mut self, died: ChildDied, _: &mut Self::Context) {
        let event = match self.children.as_mut().unwrap().on_death(&died) {
            Verdict::Nothing => Event::Nothing,
            Verdict::Died => Event::Died,
            Verdict::Restarted(_) => Event::Restarted,
            Verdict::TooOften(escalated) => Event::Escalated(escalated.reason),
        };
        self.events.send(event).unwrap();
    }
}

#[derive(Message)]
#[rtype(result = "Option<Addr<Worker>>")]
struct Child;

impl Handler<Child> for Parent {
    type Result = Option<Addr<Worker>>;

    fn handle(&mut self, _: Child, _: &mut Self::Context) -> Self::Result {
        self.children.as_ref().unwrap().get("worker").cloned()
    }
}

struct Family {
    parent: Addr<Parent>,
    events: mpsc::UnboundedReceiver<Event>,
    roster: Roster,
}

/// A parent with one child, which is started once when no restart is allowed.
fn family(max: usize, panics_at_start: usize, threads: usize) -> Family {
    let (sender, events) = mpsc::unbounded_channel();
    let parent = Parent {
        children: None,
        intensity: Intensity { max, within: Duration::from_secs(60) },
        once: max == 0,
        panics: Arc::new(Mutex::new(panics_at_start)),
        arbiters: Arbiters::start(threads, 1).unwrap(),
        events: sender,
        roster: Roster::default(),
    };
    let roster = parent.roster.clone();
    Family { parent: parent.start(), events, roster }
}

impl Family {
    async fn child(&self) -> Option<Addr<Worker>> {
        self.parent.send(Child).await.unwrap()
    }

    async fn next(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(5), self.events.recv()).await.expect("a death was not noticed").unwrap()
    }
}

#[actix::test]
async fn every_death_by_a_message_is_noticed_and_a_successor_works() {
    for how in [Die::Panic, Die::Stop, Die::Terminate] {
        let mut family = family(5, 0, 0);
        let first = family.child().await.unwrap();
        let _ = first.send(how).await;
        assert_eq!(family.next().await, Event::Restarted, "{how:?}");
        let second = family.child().await.unwrap();
        assert!(second.connected() && first != second, "{how:?}");
    }
}

#[actix::test]
async fn a_panic_at_the_start_is_a_death_too() {
    let mut family = family(5, 2, 0);
    assert_eq!(family.next().await, Event::Restarted);
    assert_eq!(family.next().await, Event::Restarted);
    assert!(family.child().await.unwrap().connected());
}

#[actix::test]
async fn the_end_of_a_childs_arbiter_is_a_death_too() {
    let mut family = family(5, 0, 1);
    let _ = family.child().await.unwrap().send(Die::EndOfThread).await;
    assert_eq!(family.next().await, Event::Restarted);
    assert!(family.child().await.unwrap().send(Die::Finish).await.is_ok());
    assert_eq!(family.next().await, Event::Nothing);
    assert!(family.child().await.is_none(), "what has finished is not started again");
}

#[actix::test]
async fn too_many_deaths_move_up() {
    let mut family = family(2, 3, 0);
    assert_eq!(family.next().await, Event::Restarted);
    assert_eq!(family.next().await, Event::Restarted);
    assert_eq!(family.next().await, Event::Escalated("worker died 3 times within 60 s".into()));
    assert!(family.child().await.is_none());
}

#[actix::test]
async fn deaths_long_ago_do_not_count() {
    tokio::time::pause();
    let mut family = family(1, 0, 0);
    for _ in 0..3 {
        let _ = family.child().await.unwrap().send(Die::Panic).await;
        assert_eq!(family.next().await, Event::Restarted);
        tokio::time::advance(Duration::from_secs(61)).await;
    }
}

#[actix::test]
async fn children_do_not_outlive_their_parent() {
    let family = family(5, 0, 0);
    let child = family.child().await.unwrap();
    drop(family.parent);
    while child.connected() {
        tokio::task::yield_now().await;
    }
}

#[actix::test]
async fn a_child_that_was_started_once_has_no_successor() {
    for how in [Die::Panic, Die::Stop, Die::Terminate] {
        let mut family = family(0, 0, 0);
        let _ = family.child().await.unwrap().send(how).await;
        assert_eq!(family.next().await, Event::Died, "{how:?}");
        assert!(family.child().await.is_none(), "{how:?}");
    }
    let mut family = family(0, 0, 0);
    let _ = family.child().await.unwrap().send(Die::Finish).await;
    assert_eq!(family.next().await, Event::Nothing);
}

#[actix::test]
async fn the_roster_counts_lives_and_kills_by_name() {
    let mut family = family(5, 0, 0);
    let list = |restarts, alive, paused| vec![Listed { name: "house/worker".into(), restarts, alive, paused }];
    family.child().await.expect("it lives");
    assert_eq!(family.roster.all(), list(0, true, false));
    assert!(!family.roster.kill("worker"), "its path is longer");
    for restarts in 1..3 {
        assert!(family.roster.kill("house/worker"));
        assert_eq!(family.next().await, Event::Restarted);
        assert_eq!(family.roster.all(), list(restarts, true, false));
    }
    family.child().await.expect("it lives").do_send(Die::Finish);
    assert_eq!(family.next().await, Event::Nothing);
    assert_eq!(family.roster.all(), [], "its work is done");
}

#[actix::test]
async fn a_paused_actor_takes_no_message_until_it_goes_on() {
    let mut family = family(5, 0, 0);
    let child = family.child().await.expect("it lives");
    assert!(family.roster.pause("house/worker") && !family.roster.pause("house/worker"), "once");
    assert!(family.roster.all()[0].paused);
    child.do_send(Die::Stop);
    let silence = tokio::time::timeout(Duration::from_millis(100), family.events.recv()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert!(family.roster.resume("house/worker") && !family.roster.resume("house/worker"));
    assert_eq!(family.next().await, Event::Restarted);
    assert!(family.roster.pause("house/worker") && family.roster.kill("house/worker"), "who is killed goes on first");
    assert_eq!(family.next().await, Event::Restarted);
    assert!(!family.roster.all()[0].paused);
}
