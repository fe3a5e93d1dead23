//! A parent's children: their specifications, the guards that report their deaths, and what follows a death.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message, WeakRecipient};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arbiters::Home;
use crate::roster::{Pause, Roster};

/// The report of a child's death, sent by its guard.
#[derive(Message, Clone, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct ChildDied {
    /// The child's name.
    pub name: String,
    /// The incarnation that ended. A report about an earlier incarnation changes nothing.
    pub incarnation: u64,
    /// True if the child had reported that its work was done.
    pub finished: bool,
}

/// A child died more often than its specification allows and is not started again.
#[derive(Message, Clone, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct Escalated {
    /// The child's name. A report for a grandchild has the parent's name first: `parent/child`.
    pub name: String,
    /// The reason, as a sentence for the log and the operator.
    pub reason: String,
}

/// Asks an actor to end in good order.
#[derive(Message, Clone, Copy, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct Shutdown;

/// The messages that a supervised actor obeys beside its own.
pub trait Supervised: Actor<Context = Context<Self>> + Handler<Shutdown> + Handler<Pause> {}

impl<A: Actor<Context = Context<A>> + Handler<Shutdown> + Handler<Pause>> Supervised for A {}

/// Makes an actor obey [`Shutdown`] by stopping and [`Pause`] by standing still. An actor that has more to do then implements the handlers
/// itself.
#[macro_export]
macro_rules! supervised {
    ($actor:ty) => {
        impl $crate::actix::Handler<$crate::Shutdown> for $actor {
            type Result = ();

            fn handle(&mut self, _: $crate::Shutdown, ctx: &mut Self::Context) {
                $crate::actix::ActorContext::stop(ctx);
            }
        }

        impl $crate::actix::Handler<$crate::Pause> for $actor {
            type Result = ();

            fn handle(&mut self, pause: $crate::Pause, ctx: &mut Self::Context) {
                $crate::stand_still(self, pause, ctx);
            }
        }
    };
}

/// A part of a child. When the child ends for any reason, the guard tells the parent.
pub struct DeathGuard {
    name: String,
    incarnation: u64,
    finished: bool,
    /// Weak, because a child must not keep its parent alive.
    parent: WeakRecipient<ChildDied>,
}

impl DeathGuard {
    /// Notes that the work is done, so that the death that follows is no failure.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns the child's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for DeathGuard {
    fn drop(&mut self) {
        if let Some(parent) = self.parent.upgrade() {
            // `do_send` ignores the mailbox's bound, because a report of a death must not be lost.
            parent.do_send(ChildDied { name: self.name.clone(), incarnation: self.incarnation, finished: self.finished });
        }
    }
}

/// The limit of restarts of a child: `max` within `within`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intensity {
    /// The number of allowed restarts.
    pub max: usize,
    /// The time in which restarts are counted.
    pub within: Duration,
}

impl Default for Intensity {
    /// Five restarts in a minute.
    fn default() -> Intensity {
        Intensity { max: 5, within: Duration::from_secs(60) }
    }
}

/// The way to start a child. The factory puts the guard into the actor and starts it on an arbiter of its choice.
pub struct ChildSpec<A: Actor> {
    /// Unique among its siblings.
    pub name: String,
    /// The limit of restarts.
    pub intensity: Intensity,
    /// Starts one incarnation.
    pub factory: Box<dyn Fn(DeathGuard) -> Addr<A> + Send>,
}

impl<A: Actor<Context = Context<A>> + Send> ChildSpec<A> {
    /// Specifies a child whose incarnations all run at one home, with the default intensity.
    pub fn at_home(name: &str, home: Home, make: impl Fn(DeathGuard) -> A + Send + 'static) -> ChildSpec<A> {
        let factory = Box::new(move |guard| {
            let actor = make(guard);
            home.start(|| actor)
        });
        ChildSpec { name: name.to_owned(), intensity: Intensity::default(), factory }
    }
}

/// The result of a child's death.
pub enum Verdict<A: Actor> {
    /// Nothing is to be done: the child had finished, its parent stopped it, or the report is about an earlier incarnation.
    Nothing,
    /// A child that is started once died and is forgotten. The parent decides what follows.
    Died,
    /// A successor runs.
    Restarted(Addr<A>),
    /// The child died too often and is forgotten. The parent reports that to its own parent.
    TooOften(Escalated),
}

struct Child<A: Actor> {
    addr: Addr<A>,
    incarnation: u64,
    /// None for a child that is started once.
    restarts: Option<Restarts<A>>,
}

/// The factory and the times of a child's restarts.
struct Restarts<A: Actor> {
    spec: ChildSpec<A>,
    at: VecDeque<Instant>,
}

impl<A: Actor> Restarts<A> {
    /// Counts a death. Returns the reason if the limit is exceeded.
    fn another(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let Intensity { max, within } = self.spec.intensity;
        while self.at.front().is_some_and(|at| now.duration_since(*at) >= within) {
            self.at.pop_front();
        }
        if self.at.len() >= max {
            return Err(format!("{} died {} times within {} s", self.spec.name, max + 1, within.as_secs()));
        }
        self.at.push_back(now);
        Ok(())
    }
}

/// The children of one kind of an actor. Holds their addresses, so that they live. When it is dropped because its owner died, it asks them
/// to shut down.
pub struct Children<A: Supervised> {
    parent: WeakRecipient<ChildDied>,
    children: BTreeMap<String, Child<A>>,
    /// Never reused, so a report belongs to one incarnation even if a name is used again.
    lives: u64,
    roster: Roster,
    /// The prefix of the children's names in the roster.
    path: String,
}

impl<A: Supervised> Children<A> {
    /// Makes an empty list; reports of deaths go to `parent`.
    pub fn new(parent: WeakRecipient<ChildDied>) -> Children<A> {
        Children { parent, children: BTreeMap::new(), lives: 0, roster: Roster::default(), path: String::new() }
    }

    /// Lists the children in a roster, with `path` before their names.
    pub fn listed(mut self, roster: &Roster, path: &str) -> Children<A> {
        (self.roster, self.path) = (roster.clone(), path.to_owned());
        self
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Starts a child. A running child with this name is asked to shut down, and is replaced.
    pub fn start(&mut self, spec: ChildSpec<A>) -> Addr<A> {
        self.stop(&spec.name);
        let (guard, incarnation) = self.next_life(&spec.name);
        let addr = (spec.factory)(guard);
        let name = spec.name.clone();
        self.roster.started(&self.path_of(&name), addr.downgrade());
        let restarts = Some(Restarts { spec, at: VecDeque::new() });
        self.children.insert(name, Child { addr: addr.clone(), incarnation, restarts });
        addr
    }

    /// Starts a child that has one incarnation. A running child with this name is asked to shut down, and is replaced.
    pub fn start_once(&mut self, name: &str, start: impl FnOnce(DeathGuard) -> Addr<A>) -> Addr<A> {
        self.stop(name);
        let (guard, incarnation) = self.next_life(name);
        let addr = start(guard);
        self.roster.started(&self.path_of(name), addr.downgrade());
        self.children.insert(name.to_owned(), Child { addr: addr.clone(), incarnation, restarts: None });
        addr
    }

    /// Asks a child to shut down, and forgets it. False if no child has this name.
    pub fn stop(&mut self, name: &str) -> bool {
        let Some(child) = self.children.remove(name) else { return false };
        self.roster.ended(&self.path_of(name));
        child.addr.do_send(Shutdown);
        true
    }

    /// Returns a child's present address.
    pub fn get(&self, name: &str) -> Option<&Addr<A>> {
        self.children.get(name).map(|child| &child.addr)
    }

    /// Returns the names of all children in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(String::as_str)
    }

    /// Returns the number of children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// True if there are no children.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Makes all children stand still until the returned value is dropped.
    pub fn all_stand_still(&self) -> Vec<oneshot::Sender<()>> {
        let one = |child: &Child<A>| {
            let (resume, until) = oneshot::channel();
            child.addr.do_send(Pause { until });
            resume
        };
        self.children.values().map(one).collect()
    }

    /// Handles the report of a death: starts a successor, unless the child had finished, has died too often, or has one incarnation.
    pub fn on_death(&mut self, died: &ChildDied) -> Verdict<A> {
        match self.children.get(&died.name) {
            Some(child) if child.incarnation == died.incarnation => {}
            _ => return Verdict::Nothing,
        }
        let Some(mut child) = self.children.remove(&died.name) else { return Verdict::Nothing };
        let path = self.path_of(&died.name);
        if died.finished {
            self.roster.finished(&path);
            return Verdict::Nothing;
        }
        self.roster.ended(&path);
        let Some(restarts) = child.restarts.as_mut() else {
            // The parent starts the successor.
            self.roster.restarted(&path);
            return Verdict::Died;
        };
        if let Err(reason) = restarts.another() {
            self.roster.given_up(&path);
            return Verdict::TooOften(Escalated { name: died.name.clone(), reason });
        }
        self.roster.restarted(&path);
        log::warn!(child = died.name.as_str(); "{} died and is started again", died.name);
        let (guard, incarnation) = self.next_life(&died.name);
        child.addr = (restarts.spec.factory)(guard);
        self.roster.started(&path, child.addr.downgrade());
        child.incarnation = incarnation;
        let addr = child.addr.clone();
        self.children.insert(died.name.clone(), child);
        Verdict::Restarted(addr)
    }

    fn next_life(&mut self, name: &str) -> (DeathGuard, u64) {
        self.lives += 1;
        let guard = DeathGuard { name: name.to_owned(), incarnation: self.lives, finished: false, parent: self.parent.clone() };
        (guard, self.lives)
    }
}

impl<A: Supervised> Drop for Children<A> {
    fn drop(&mut self) {
        for (name, child) in &self.children {
            self.roster.ended(&self.path_of(name));
            child.addr.do_send(Shutdown);
        }
    }
}
