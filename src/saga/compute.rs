//! The program's sagas, as the engine `cellshift-saga` takes them. `step`, `machine`, `course`, `journal`, `claim` and `performer` beside this give
//! the engine's types for these sagas their names; no other layer names the engine.

use cellshift_saga::{Guard as Check, Saga};
use chrono::{DateTime, Utc};

use super::context::Context;
use super::error::StepError;
use super::step::Moot;
use super::step_name::StepName;
use super::world::World;
use crate::domain::fence::Fence;
use crate::env::guard::{Guard, stands};

/// The operations on servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compute;

impl Saga for Compute {
    type Name = StepName;
    type World = World;
    type Context = Context;
    type Fence = Fence;
    type Error = StepError;
    type Moot = Moot;
    type Time = DateTime<Utc>;

    const NEVER_MOOT: Moot = Moot::Never;

    /// The engine's checks are guards of this program.
    fn stands(check: Check) -> bool {
        stands(match check {
            Check::DoubtfulStep => Guard::DoubtfulStep,
            Check::DoubtfulPivot => Guard::DoubtfulPivot,
            Check::DiscardedContext => Guard::DiscardedContext,
            Check::TargetsWord => Guard::TargetsWord,
            Check::LateCancel => Guard::LateCancel,
        })
    }
}
