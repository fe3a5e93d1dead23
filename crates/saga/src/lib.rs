//! A saga engine: operations that span several participants, each of which can fail, die or fall silent, and that end all the same, done or
//! undone.
//!
//! A saga is declared as a [`Table`] of [`Step`]s. Each step has an act, the [`Undo`] of it, and a [`Class`], which says what happens if the act
//! fails: steps before the *pivot* are undone from the last to the first, steps past it are tried until they are done, and a clean-up that
//! nobody waits for becomes a *debt*, which is paid when its participant returns. Everything that a saga's next move depends on is a line of its
//! journal. So whoever has the journal can go on with a saga whose runner has died: the [`machine`], a pure function of the lines, is in the same
//! state again.
//!
//! The engine has no store, no network and no process model. A program brings these, and the types of its sagas, in one implementation of
//! [`Saga`]. Its runner is a loop around a [`Course`]:
//!
//! 1. [`Course::at_hand`] names the step and the side, act or undo, that come next.
//! 2. [`Course::begin`] gives the commit that must be in the journal *before* the side is performed. With it the store gives out a fence, higher
//!    than all before it.
//! 3. [`perform::perform`] does the work under its deadline. A work may be repeated after a crash, so doing it twice must be the same as doing
//!    it once; and each effect carries the fence, so that a participant refuses what a dead runner has left on its way.
//! 4. [`Course::ended`] takes the [`Outcome`](machine::Outcome), and says what the saga owes from now on.
//! 5. At the end [`Course::end`] gives the last commit.
//!
//! A successor makes its course by [`Course::resumed`] and enters the same loop. A side whose end is not in the journal is at hand again, since it
//! may have happened or not.
//!
//! `examples/order.rs` is a whole program of that kind: it dies in the middle of its pivot, goes on from the journal, and pays its debt.
//!
//! | module | what it has |
//! |---|---|
//! | [`step`] | tables, steps and their classes, deadlines |
//! | [`machine`] | the state of a saga and what an outcome does to it |
//! | [`course`] | the rules of a runner: what is written when, what is owed, what is lost |
//! | [`journal`] | lines, and the replay of them |
//! | [`perform`] | a side's work under its deadline |
//! | [`back_off`], [`debt`] | pauses between tries; debts |
//! | [`claim`] | claims as values, which cannot be forgotten |
//! | [`guard`] | checks that a program's own tests may leave out |

#![forbid(unsafe_code)]

pub mod back_off;
pub mod claim;
pub mod course;
pub mod debt;
#[cfg(test)]
mod fixture;
pub mod guard;
pub mod journal;
pub mod machine;
pub mod perform;
mod saga;
pub mod step;
mod words;

pub use back_off::BackOff;
pub use course::Course;
pub use guard::Guard;
pub use saga::Saga;
pub use step::{Class, Deadline, Step, Table, Undo};

/// Lets a table name an `async fn(&World, &mut Context, Fence) -> Result<(), Error>` of a saga as a step's [`Work`](step::Work).
#[macro_export]
macro_rules! work {
    ($saga:ty, $function:path) => {{
        fn work<'a>(
            world: &'a <$saga as $crate::Saga>::World,
            context: &'a mut <$saga as $crate::Saga>::Context,
            fence: <$saga as $crate::Saga>::Fence,
        ) -> $crate::step::Working<'a, $saga> {
            Box::pin($function(world, context, fence))
        }
        work as $crate::step::Work<$saga>
    }};
}
