//! The performance of steps: the border at which an experiment can come between a runner and the effects of its saga. [`Plainly`] performs
//! each side under its deadline; `chaos::performer` has the faulty form.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::context::Context;
use super::error::StepError;
use super::machine::{Outcome, Side};
use super::refusal::Refusal;
use super::step::{Deadline, Step, Work};
use super::tables;
use super::world::World;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::env::guard::{Guard, stands};

/// The end of a performance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Performed {
    Ended(Outcome),
    /// A higher fence has been seen: another owner has the saga.
    Overtaken(String),
}

/// Performs the sides of one saga for one runner.
#[async_trait]
pub trait Performer: Send {
    /// Performs a side. The context is changed only if the side ends well.
    async fn perform(&mut self, world: &Arc<World>, step: &Step, side: Side, context: &mut Context, fence: Fence) -> Performed;

    /// Performs the first step within the request. `at_rest` ends when no operation has the server any more.
    async fn accept(
        &mut self,
        world: &Arc<World>,
        context: &mut Context,
        fence: Fence,
        at_rest: BoxFuture<'static, ()>,
    ) -> Result<(), Refusal>;

    /// True if a step that has nothing to do may be passed over.
    fn may_pass(&self, _context: &Context, _step: &Step) -> bool {
        true
    }

    /// True if the end of this side must be in the journal before the saga goes on; then [`Performer::journalled`] follows.
    fn waits_for_journal(&mut self, _context: &Context, _step: &Step, _side: Side) -> bool {
        false
    }

    /// Called when the end of this side is in the journal.
    async fn journalled(&mut self, _context: &Context, _step: &Step, _side: Side) {}
}

/// Makes a performer for each saga.
pub trait Performers: Send + Sync {
    /// Returns a performer that lives as long as the run of a saga.
    fn of_saga(&self) -> Box<dyn Performer>;
}

/// Performs without faults.
#[derive(Clone, Copy, Default, Debug)]
pub struct Plainly;

impl Performers for Plainly {
    fn of_saga(&self) -> Box<dyn Performer> {
        Box::new(Plainly)
    }
}

#[async_trait]
impl Performer for Plainly {
    async fn perform(&mut self, world: &Arc<World>, step: &Step, side: Side, context: &mut Context, fence: Fence) -> Performed {
        let mut changed = Box::new(context.clone());
        let result = under_deadline(world, step, side, &mut changed, fence).await;
        take_in(context, changed, result)
    }

    async fn accept(
        &mut self,
        world: &Arc<World>,
        context: &mut Context,
        fence: Fence,
        _at_rest: BoxFuture<'static, ()>,
    ) -> Result<(), Refusal> {
        tables::accept(world, context, fence).await
    }
}

/// The result of a side: none but the reason if its deadline passed.
pub type Effect = Result<Result<(), StepError>, String>;

/// Turns a side's result into its end, and takes the changed context if the side ended well: a half-changed context must not stay.
pub fn take_in(context: &mut Context, changed: Box<Context>, result: Effect) -> Performed {
    let is_discarded = stands(Guard::DiscardedContext) && !matches!(result, Ok(Ok(())));
    if !is_discarded {
        *context = *changed;
    }
    Performed::Ended(match result {
        Ok(Ok(())) => Outcome::Ok,
        Ok(Err(StepError::Overtaken(why))) => return Performed::Overtaken(why),
        Ok(Err(StepError::Refused(why))) => Outcome::Refused(why),
        Ok(Err(StepError::NextCandidate(why))) => Outcome::NextCandidate(why),
        Ok(Err(StepError::Unknown(why))) => Outcome::Unknown(why),
        Ok(Err(StepError::GoForward(why))) => Outcome::GoForward(why),
        Err(why) => Outcome::TimedOut(why),
    })
}

/// Returns the work of a side; none for an undo that has nothing to do.
pub fn work_of(step: &Step, side: Side) -> Option<Work> {
    match side {
        Side::Act => Some(step.act),
        Side::Undo => step.undo.work(),
    }
}

/// Does the work of a side until its deadline. A copy may go on for as long as it moves, a wait for as long as its host answers.
pub async fn under_deadline(world: &Arc<World>, step: &Step, side: Side, context: &mut Context, fence: Fence) -> Effect {
    let Some(work) = work_of(step, side) else { return Ok(Ok(())) };
    let limit = world.settings.deadline(step);
    let saga = context.saga;
    let places: Vec<(String, String)> =
        [&context.source, &context.target].into_iter().flatten().map(|p| (p.cell.clone(), p.host.clone())).collect();
    let running = work(world, context, fence);
    tokio::pin!(running);
    let by_progress = side == Side::Act && matches!(step.deadline, Deadline::WithoutProgress(_));
    let while_alive = side == Side::Act && matches!(step.deadline, Deadline::WhileAlive(_));
    let mut seen = 0;
    loop {
        if let Ok(result) = tokio::time::timeout(limit, &mut running).await {
            return Ok(result);
        }
        if while_alive && is_answered(world, &places, saga).await {
            continue;
        }
        let moved = if by_progress { progress(world, &places, saga).await } else { 0 };
        if moved <= seen {
            return Err(format!("no end within {} s", limit.as_secs_f32()));
        }
        seen = moved;
    }
}

/// True if the first host answers a question.
async fn is_answered(world: &World, places: &[(String, String)], operation: Uuid) -> bool {
    let Some((cell, host)) = places.first() else { return false };
    world.hosts.query(cell, host, HostQuery::Progress { operation }, Duration::from_secs(2)).await.is_ok()
}

/// Returns the number of bytes that the hosts of a move have copied for it so far.
async fn progress(world: &World, places: &[(String, String)], operation: Uuid) -> u64 {
    let mut moved = 0;
    for (cell, host) in places {
        if let Ok(HostAnswer::Progress { done, .. }) =
            world.hosts.query(cell, host, HostQuery::Progress { operation }, Duration::from_secs(2)).await
        {
            moved += done;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::context::RequestContext;
    use crate::saga::context::Request;

    #[test]
    fn a_side_that_failed_leaves_nothing_in_the_context() {
        let before = Context::new(Uuid::from_u128(1), RequestContext::default(), Uuid::from_u128(2), Request::Delete);
        let mut changed = before.clone();
        changed.display_name = "learnt".into();
        let failed = [Ok(Err(StepError::Refused("no".into()))), Ok(Err(StepError::Unknown("lost".into()))), Err("too late".into())];
        for result in failed {
            let mut context = before.clone();
            take_in(&mut context, Box::new(changed.clone()), result);
            assert_eq!(context, before);
        }
        let mut context = before.clone();
        take_in(&mut context, Box::new(changed.clone()), Ok(Ok(())));
        assert_eq!(context, changed);
    }
}
