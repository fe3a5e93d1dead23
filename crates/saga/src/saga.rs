//! The types that a program gives the engine.

use std::fmt::{Debug, Display};

use crate::guard::Guard;
use crate::perform::Performed;

/// A program's sagas: the types over which tables, works and journals are written. The type that implements this has no values of interest;
/// a program has one and names the engine's types by it, as `type Step = cellshift_saga::Step<Shop>`.
pub trait Saga: Copy + Eq + Debug + Send + Sync + 'static {
    /// The name of a step. Its text stands in journals, so it never changes.
    type Name: Copy + Eq + AsRef<str> + Display + Debug + Send + Sync + 'static;
    /// All that a step can reach: stores, services, settings.
    type World: Sync + 'static;
    /// The state that travels from step to step. The program stores it with the journal.
    type Context: Clone + Send + 'static;
    /// The order of an effect, which each effect carries: a participant that has obeyed a later one refuses an earlier one. The store gives
    /// one out with each beginning of a side.
    type Fence: Send + 'static;
    /// The error of a work, which says what it means for its saga.
    type Error: Into<Performed> + Send + 'static;
    /// The condition under which a debt has nothing left to do. The program asks before it pays.
    type Moot: Copy + Debug + Send + Sync + 'static;
    /// The time of a journal's line, by the program's clock.
    type Time: Copy + Eq + Debug + Send + Sync + 'static;

    /// The condition of a step whose debts are always paid.
    const NEVER_MOOT: Self::Moot;

    /// True if the check is in force. A program that tests itself by leaving a check out says so here; all others have all checks.
    fn stands(_: Guard) -> bool {
        true
    }
}
