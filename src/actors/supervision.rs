//! Supervision of actors. actix's own supervisor does not survive a panic, so a child carries a
//! [`DeathGuard`] that reports every kind of its death to the parent, and the parent starts a successor by a factory, at
//! most so often; past that the failure moves up as [`Escalated`]. A child of which only its parent knows how to go on (a
//! migration, whose successor needs a lease) is started once; its death is the parent's to answer.
//!
//! A supervised actor has no `stopping` or `stopped` hook that could panic: actix runs them again while it unwinds, and a
//! second panic there ends the process.
//!
//! A parent holds [`Children`], implements `Handler<ChildDied>` by [`Children::on_death`], and acts on the [`Verdict`].

mod roster;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message, WeakRecipient};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use roster::{Listed, Pause, Roster, stand_still, stand_still_with};

/// A child's obituary, sent by its guard.
#[derive(Message, Clone, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct ChildDied {
    /// The child's name.
    pub name: String,
    /// Which of its lives ended; an obituary of an earlier life changes nothing.
    pub incarnation: u64,
    /// It had said that its work was done.
    pub finished: bool,
}

/// A child died more often than its specification allows and is not started again.
#[derive(Message, Clone, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct Escalated {
    /// The child's name, with its parent's before it where one reports for another (`cell1/host2`).
    pub name: String,
    /// A sentence for the log and the operator.
    pub reason: String,
}

/// Asks an actor to end in good order.
#[derive(Message, Clone, Copy, PartialEq, Eq, Debug)]
#[rtype(result = "()")]
pub struct Shutdown;

/// What a supervised actor obeys beside its own messages.
pub trait Supervised: Actor<Context = Context<Self>> + Handler<Shutdown> + Handler<Pause> {}

impl<A: Actor<Context = Context<A>> + Handler<Shutdown> + Handler<Pause>> Supervised for A {}

/// Lives inside a child; when the child goes, for whatever reason, the parent learns of it.
pub struct DeathGuard {
    name: String,
    incarnation: u64,
    finished: bool,
    /// Weak: a child must not keep its parent alive.
    parent: WeakRecipient<ChildDied>,
}

impl DeathGuard {
    /// The work is done: the death that follows is no failure.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The child's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for DeathGuard {
    fn drop(&mut self) {
        if let Some(parent) = self.parent.upgrade() {
            // Past the mailbox's bound on purpose: an obituary must not be lost.
            parent.do_send(ChildDied { name: self.name.clone(), incarnation: self.incarnation, finished: self.finished });
        }
    }
}

/// How often a child may be restarted: at most `max` times within `within`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intensity {
    /// Restarts allowed.
    pub max: usize,
    /// The time over which they are counted.
    pub within: Duration,
}

impl Default for Intensity {
    /// Five restarts a minute.
    fn default() -> Intensity {
        Intensity { max: 5, within: Duration::from_secs(60) }
    }
}

/// How to start a child. The factory puts the guard into the actor and starts it, on whichever arbiter it likes.
pub struct ChildSpec<A: Actor> {
    /// Unique among its siblings.
    pub name: String,
    /// How often it may be restarted.
    pub intensity: Intensity,
    /// Starts one life of it.
    pub factory: Box<dyn Fn(DeathGuard) -> Addr<A>>,
}

/// What became of a child that died.
pub enum Verdict<A: Actor> {
    /// It had finished, or was stopped by its parent, or this is an obituary of an earlier life: nothing is to be done.
    Nothing,
    /// A child that was started once died; it is forgotten, and what comes next is the parent's to decide.
    Died,
    /// A successor runs.
    Restarted(Addr<A>),
    /// It died too often; it is forgotten, and the parent reports it to its own parent.
    TooOften(Escalated),
}

struct Child<A: Actor> {
    addr: Addr<A>,
    incarnation: u64,
    /// None for a child that was started once.
    restarts: Option<Restarts<A>>,
}

/// How a child is started again, and when that was.
struct Restarts<A: Actor> {
    spec: ChildSpec<A>,
    at: VecDeque<Instant>,
}

impl<A: Actor> Restarts<A> {
    /// Counts one more death; the reason when that is too many.
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

/// The children of one kind that an actor supervises. Holds their addresses, so none ends for want of one; when it is
/// dropped (its owner died) it asks them all to shut down.
pub struct Children<A: Supervised> {
    parent: WeakRecipient<ChildDied>,
    children: BTreeMap<String, Child<A>>,
    /// Never reused, so that an obituary belongs to one life even when a name is.
    lives: u64,
    roster: Roster,
    /// What stands before their names in it.
    path: String,
}

impl<A: Supervised> Children<A> {
    /// No children yet; obituaries go to `parent`.
    pub fn new(parent: WeakRecipient<ChildDied>) -> Children<A> {
        Children { parent, children: BTreeMap::new(), lives: 0, roster: Roster::default(), path: String::new() }
    }

    /// The same, listed in a roster under their names with `path` before each.
    pub fn listed(mut self, roster: &Roster, path: &str) -> Children<A> {
        (self.roster, self.path) = (roster.clone(), path.to_owned());
        self
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Starts a child. One that runs under the same name is asked to shut down and replaced.
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

    /// Starts a child that has one life only. One that runs under the same name is asked to shut down and replaced.
    pub fn start_once(&mut self, name: &str, start: impl FnOnce(DeathGuard) -> Addr<A>) -> Addr<A> {
        self.stop(name);
        let (guard, incarnation) = self.next_life(name);
        let addr = start(guard);
        self.roster.started(&self.path_of(name), addr.downgrade());
        self.children.insert(name.to_owned(), Child { addr: addr.clone(), incarnation, restarts: None });
        addr
    }

    /// Asks a child to shut down and forgets it. False when there is none of that name.
    pub fn stop(&mut self, name: &str) -> bool {
        let Some(child) = self.children.remove(name) else { return false };
        self.roster.ended(&self.path_of(name));
        child.addr.do_send(Shutdown);
        true
    }

    /// A child's present address.
    pub fn get(&self, name: &str) -> Option<&Addr<A>> {
        self.children.get(name).map(|child| &child.addr)
    }

    /// The names of all children, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Makes all of them stand still for as long as what this gives is kept.
    pub fn all_stand_still(&self) -> Vec<oneshot::Sender<()>> {
        let one = |child: &Child<A>| {
            let (resume, until) = oneshot::channel();
            child.addr.do_send(Pause { until });
            resume
        };
        self.children.values().map(one).collect()
    }

    /// Deals with an obituary: starts a successor unless the child had finished, has died too often, or has one life only.
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
        let Some(restarts) = child.restarts.as_mut() else { return Verdict::Died };
        if let Err(reason) = restarts.another() {
            return Verdict::TooOften(Escalated { name: died.name.clone(), reason });
        }
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
