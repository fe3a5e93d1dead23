//! The roster of supervised actors with the numbers of their restarts. Experiments kill and pause actors through it.
//! [`Children`](crate::Children) fills it. Actors are named by their paths: `worker`, `workshop/worker`.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use actix::{WeakAddr, WeakRecipient};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::children::{Shutdown, Supervised};

/// Counts deaths, for metrics. Called while a parent handles a death, so it returns at once.
pub trait DeathCount: Send + Sync {
    /// Counts the death of the actor at `path`, which its parent starts again.
    fn restarted(&self, path: &str);

    /// Counts the death of the actor at `path`, which died too often and has no successor.
    fn given_up(&self, path: &str);
}

/// Makes the actor stand still until it is told to go on, or until the sender is gone. It takes no messages meanwhile, and its spawned
/// futures do not go on. Blocking work that has begun ends.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Pause {
    /// Answered or closed when the actor may go on.
    pub until: oneshot::Receiver<()>,
}

/// Pauses an actor.
pub fn stand_still<A: Actor<Context = Context<A>>>(actor: &A, pause: Pause, ctx: &mut Context<A>) {
    stand_still_with(actor, pause, ctx, ());
}

/// Pauses an actor as [`stand_still`] does, and drops `held` when the actor goes on or ends.
pub fn stand_still_with<A: Actor<Context = Context<A>>, W: 'static>(actor: &A, pause: Pause, ctx: &mut Context<A>, with: W) {
    let waiting = async move {
        // A sender that is gone cannot tell the actor to go on.
        let _ = pause.until.await;
        drop(with);
    };
    ctx.wait(waiting.into_actor(actor));
}

/// A supervised actor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The actor's path.
    pub name: String,
    /// The number of its restarts.
    pub restarts: u64,
    /// False between a death and the next start.
    pub alive: bool,
    /// True if the actor stands still ([`Roster::pause`]).
    pub paused: bool,
}

/// All supervised actors of a tree. Clones share the list.
#[derive(Clone, Default)]
pub struct Roster {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    /// None if nobody counts deaths.
    count: Option<Arc<dyn DeathCount>>,
}

struct Entry {
    restarts: u64,
    alive: bool,
    end: WeakRecipient<Shutdown>,
    pause: WeakRecipient<Pause>,
    /// Makes the actor go on.
    paused: Option<oneshot::Sender<()>>,
}

impl Roster {
    /// Makes an empty roster that counts deaths here.
    pub fn counting(count: Arc<dyn DeathCount>) -> Roster {
        Roster { count: Some(count), ..Roster::default() }
    }

    /// Counts the death of an actor that is started again.
    pub(crate) fn restarted(&self, name: &str) {
        if let Some(count) = &self.count {
            count.restarted(name);
        }
    }

    /// Counts the death of an actor that died too often.
    pub(crate) fn given_up(&self, name: &str) {
        if let Some(count) = &self.count {
            count.given_up(name);
        }
    }

    /// Returns all actors in the order of their names.
    pub fn all(&self) -> Vec<Listed> {
        let view = |(name, entry): (&String, &Entry)| Listed {
            name: name.clone(),
            restarts: entry.restarts,
            alive: entry.alive,
            paused: entry.paused.is_some(),
        };
        self.entries.lock().iter().map(view).collect()
    }

    /// Ends an actor; its supervisor starts another. A paused actor goes on first. False if no living actor has this name.
    pub fn kill(&self, name: &str) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(name).filter(|entry| entry.alive) else { return false };
        entry.paused = None;
        let Some(end) = entry.end.upgrade() else { return false };
        end.do_send(Shutdown);
        true
    }

    /// Makes an actor stand still until [`Roster::resume`] or its death. False if no living actor has this name, or if the actor is paused.
    pub fn pause(&self, name: &str) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(name).filter(|entry| entry.alive && entry.paused.is_none()) else { return false };
        let Some(pause) = entry.pause.upgrade() else { return false };
        let (resume, until) = oneshot::channel();
        pause.do_send(Pause { until });
        entry.paused = Some(resume);
        true
    }

    /// Makes a paused actor go on. False if no paused actor has this name.
    pub fn resume(&self, name: &str) -> bool {
        self.entries.lock().get_mut(name).is_some_and(|entry| entry.paused.take().is_some())
    }

    /// Makes all paused actors go on.
    pub fn resume_all(&self) {
        self.entries.lock().values_mut().for_each(|entry| entry.paused = None);
    }

    /// Notes that an actor has been started under this name, for the first time or again.
    pub(crate) fn started<A: Supervised>(&self, name: &str, address: WeakAddr<A>) {
        let mut entries = self.entries.lock();
        let restarts = entries.get(name).map_or(0, |before| before.restarts + 1);
        let (end, pause) = (address.clone().recipient(), address.recipient());
        entries.insert(name.to_owned(), Entry { restarts, alive: true, end, pause, paused: None });
    }

    /// Notes that an actor has ended and may be started again.
    pub(crate) fn ended(&self, name: &str) {
        if let Some(entry) = self.entries.lock().get_mut(name) {
            (entry.alive, entry.paused) = (false, None);
        }
    }

    /// Notes that an actor's work is done.
    pub(crate) fn finished(&self, name: &str) {
        self.entries.lock().remove(name);
    }
}
