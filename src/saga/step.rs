//! The engine's steps and tables, for the program's sagas: their types, the conditions of debts, and the macros by which a table names its works.

pub use cellshift_saga::{Class, Deadline};

use super::compute::Compute;
use super::error::StepError;

/// A step's work: see [`work!`].
pub type Work = cellshift_saga::step::Work<Compute>;
/// A row of a saga's table.
pub type Step = cellshift_saga::Step<Compute>;
/// The undo of a step.
pub type Undo = cellshift_saga::Undo<Compute>;
/// The table of a saga.
pub type Table = cellshift_saga::Table<Compute>;

/// A place of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Source,
    Target,
}

/// The condition under which a debt is moot: its leftovers are in use again, or the operation may no longer restore them. Asked before each
/// payment, and never within a live saga, which alone has its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moot {
    /// Never: the work finds out by itself what is left to do.
    Never,
    /// The server has come to this place again.
    InUseAgain(At),
    /// The place no longer owns the server's guest.
    LostOwnership(At),
    /// As [`Moot::LostOwnership`], or the server has left the ERROR in which the operation left it. A server whose state alone was set to
    /// ACTIVE still waits for its guest.
    OutOfHand(At),
    /// The server is not soft-deleted: it was restored, or deleted for good.
    NotSoftDeleted,
    /// The server has the volume by another attachment, or the port by another attach.
    AttachedAnew,
}

/// Returns the error of a table that names a step for another operation's part.
pub fn misplaced() -> StepError {
    StepError::Refused("this step belongs to another operation".into())
}

/// Lets a table name an `async fn` as a step's work. The function takes the whole context, the facts of the server, or the part of its own
/// operation.
macro_rules! work {
    ($function:path) => {{
        fn work<'a>(
            world: &'a $crate::saga::world::World,
            context: &'a mut $crate::saga::context::Context,
            fence: $crate::domain::fence::Fence,
        ) -> std::pin::Pin<Box<dyn std::future::Future<Output = Result<(), $crate::saga::error::StepError>> + Send + 'a>> {
            match $crate::saga::context::View::of(context) {
                Some(view) => Box::pin($function(world, view, fence)),
                None => Box::pin(std::future::ready(Err($crate::saga::step::misplaced()))),
            }
        }
        work as $crate::saga::step::Work
    }};
}
pub(crate) use work;

/// Lets a table name an `async fn` that returns a [`Claimed`](super::claim::Claimed) as a step's act, as [`work!`] does for other functions.
macro_rules! claims {
    ($function:path) => {{
        fn work<'a>(
            world: &'a $crate::saga::world::World,
            context: &'a mut $crate::saga::context::Context,
            fence: $crate::domain::fence::Fence,
        ) -> std::pin::Pin<Box<dyn std::future::Future<Output = Result<(), $crate::saga::error::StepError>> + Send + 'a>> {
            match $crate::saga::context::View::of(context) {
                Some(view) => {
                    let act = $function(world, view, fence);
                    Box::pin(async move { act.await.map($crate::saga::claim::Claimed::left_to_undo) })
                }
                None => Box::pin(std::future::ready(Err($crate::saga::step::misplaced()))),
            }
        }
        $crate::saga::claim::ClaimingAct::new(work)
    }};
}
pub(crate) use claims;
