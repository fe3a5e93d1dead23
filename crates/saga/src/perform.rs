//! The performance of one side of a step under its deadline.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::guard::Guard;
use crate::machine::{Outcome, Side};
use crate::saga::Saga;
use crate::step::{Deadline, Step};

/// The end of a performance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Performed {
    Ended(Outcome),
    /// A higher fence has been seen: another owner has the saga, and this runner stops without another write.
    Overtaken(String),
}

/// The result of a side: none but the reason if its deadline passed.
pub type Effect<S> = Result<Result<(), <S as Saga>::Error>, String>;

/// The signs by which an act may go on past its limit. A program asks its participants for them.
pub trait Signs: Sync {
    /// Returns how far the act has come, in a unit of the program's that only rises; 0 if nobody says.
    fn progress(&self) -> impl Future<Output = u64> + Send;

    /// True if the participant answers.
    fn is_answered(&self) -> impl Future<Output = bool> + Send;
}

/// No signs: each limit counts as it stands.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoSigns;

impl Signs for NoSigns {
    async fn progress(&self) -> u64 {
        0
    }

    async fn is_answered(&self) -> bool {
        false
    }
}

/// Performs a side. The context is changed only if the side ends well.
pub async fn perform<S: Saga>(
    world: &S::World,
    step: &Step<S>,
    side: Side,
    context: &mut S::Context,
    fence: S::Fence,
    limit: Duration,
    signs: &impl Signs,
) -> Performed {
    let mut changed = Box::new(context.clone());
    let result = under_deadline(world, step, side, &mut changed, fence, limit, signs).await;
    take_in::<S>(context, changed, result)
}

/// Turns a side's result into its end, and takes the changed context if the side ended well: a half-changed context must not stay.
#[expect(clippy::boxed_local, reason = "a program's context may be large, and the caller has it in a box")]
pub fn take_in<S: Saga>(context: &mut S::Context, changed: Box<S::Context>, result: Effect<S>) -> Performed {
    let is_discarded = S::stands(Guard::DiscardedContext) && !matches!(result, Ok(Ok(())));
    if !is_discarded {
        *context = *changed;
    }
    match result {
        Ok(Ok(())) => Performed::Ended(Outcome::Ok),
        Ok(Err(error)) => error.into(),
        Err(why) => Performed::Ended(Outcome::TimedOut(why)),
    }
}

/// Does the work of a side until its deadline. An act that [`Deadline::WithoutProgress`] limits may go on for as long as it moves, one of
/// [`Deadline::WhileAlive`] for as long as its participant answers.
pub async fn under_deadline<S: Saga>(
    world: &S::World,
    step: &Step<S>,
    side: Side,
    context: &mut S::Context,
    fence: S::Fence,
    limit: Duration,
    signs: &impl Signs,
) -> Effect<S> {
    let Some(work) = step.work(side) else { return Ok(Ok(())) };
    let mut running = pin!(work(world, context, fence));
    let by_progress = side == Side::Act && matches!(step.deadline, Deadline::WithoutProgress(_));
    let while_alive = side == Side::Act && matches!(step.deadline, Deadline::WhileAlive(_));
    let mut seen = 0;
    loop {
        if let Ok(result) = tokio::time::timeout(limit, &mut running).await {
            return Ok(result);
        }
        if while_alive && signs.is_answered().await {
            continue;
        }
        let moved = if by_progress { signs.progress().await } else { 0 };
        if moved <= seen {
            return Err(format!("no end within {} s", limit.as_secs_f32()));
        }
        seen = moved;
    }
}

#[cfg(test)]
mod tests;
