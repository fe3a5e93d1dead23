//! The saga of the engine's own tests: works that note their side, and do nothing else.

use std::time::Duration;

use crate::machine::{Machine, Outcome};
use crate::perform::Performed;
use crate::saga::Saga;
use crate::step::{Deadline, Step, Table, Undo};
use crate::work;

/// The sagas of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiny;

impl Saga for Tiny {
    type Name = &'static str;
    type World = World;
    type Context = u32;
    type Fence = i64;
    type Error = Refused;
    type Moot = ();
    type Time = ();

    const NEVER_MOOT: () = ();
}

/// The time that a work takes.
#[derive(Default)]
pub struct World {
    pub takes: Duration,
}

/// A work's refusal.
pub struct Refused;

impl From<Refused> for Performed {
    fn from(_: Refused) -> Performed {
        Performed::Ended(Outcome::Refused("no".into()))
    }
}

/// Adds one to the context when its time is over.
pub async fn count(world: &World, context: &mut u32, _: i64) -> Result<(), Refused> {
    *context += 1;
    tokio::time::sleep(world.takes).await;
    Ok(())
}

/// Changes the context, and refuses.
pub async fn refuse(_: &World, context: &mut u32, _: i64) -> Result<(), Refused> {
    *context += 1;
    Err(Refused)
}

pub const STEPS: &[Step<Tiny>] = &[
    Step::reversible("take", work!(Tiny, count), Undo::By(work!(Tiny, count))),
    Step::reversible("look", work!(Tiny, count), Undo::Nothing("it changes nothing")),
    Step::reversible("choose", work!(Tiny, count), Undo::By(work!(Tiny, count))),
    Step::reversible("reserve", work!(Tiny, count), Undo::By(work!(Tiny, count))).serving(),
    Step::reversible("claim", work!(Tiny, count), Undo::AtCandidate(work!(Tiny, count))),
    Step::reversible("copy", work!(Tiny, count), Undo::By(work!(Tiny, count))),
    Step::pivot("commit", work!(Tiny, count), Undo::By(work!(Tiny, count))),
    Step::forward_or_back("start", work!(Tiny, count), Undo::By(work!(Tiny, count))),
    Step::forward("save", work!(Tiny, count)),
    Step::cleanup("tidy", work!(Tiny, count)),
];
pub const TABLE: Table<Tiny> = Table { steps: STEPS, chooses: Some("choose") };

/// A step with this deadline.
pub const fn limited(deadline: Deadline) -> Step<Tiny> {
    Step::forward("long", work!(Tiny, count)).within(deadline)
}

/// The machine after so many acts that ended well.
pub fn after(steps: usize) -> Machine {
    let mut machine = Machine::new();
    for _ in 0..steps {
        machine.begin();
        machine.apply(&TABLE, &Outcome::Ok);
    }
    machine
}
