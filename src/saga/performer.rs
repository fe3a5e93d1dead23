//! The performance of steps: the border at which an experiment can come between a runner and the effects of its saga. [`Plainly`] performs
//! each side under its deadline; `chaos::performer` has the faulty form.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use cellshift_saga::perform::Performed;
use cellshift_saga::perform::{self, Signs};
use futures::future::BoxFuture;
use uuid::Uuid;

use super::compute::Compute;
use super::context::Context;
use super::machine::Side;
use super::refusal::Refusal;
use super::step::Step;
use super::tables;
use super::world::World;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::virt::HostUnreachable;

/// The time in which a host says how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a side: none but the reason if its deadline passed.
pub type Effect = perform::Effect<Compute>;

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

/// Turns a side's result into its end: see [`perform::take_in`].
pub fn take_in(context: &mut Context, changed: Box<Context>, result: Effect) -> Performed {
    perform::take_in::<Compute>(context, changed, result)
}

/// Does the work of a side until its deadline. A copy may go on for as long as it moves, a wait for as long as its host answers.
pub async fn under_deadline(world: &Arc<World>, step: &Step, side: Side, context: &mut Context, fence: Fence) -> Effect {
    let signs = HostSigns::of(world, context);
    perform::under_deadline::<Compute>(world, step, side, context, fence, world.settings.deadline(step), &signs).await
}

/// The signs that the hosts of an operation give.
struct HostSigns<'a> {
    world: &'a World,
    operation: Uuid,
    /// Cell and host: the source, then the target.
    places: Vec<(String, String)>,
}

impl<'a> HostSigns<'a> {
    fn of(world: &'a World, context: &Context) -> HostSigns<'a> {
        let places = [&context.source, &context.target].into_iter().flatten().map(|p| (p.cell.clone(), p.host.clone())).collect();
        HostSigns { world, operation: context.saga, places }
    }

    async fn ask(&self, (cell, host): &(String, String)) -> Result<HostAnswer, HostUnreachable> {
        self.world.hosts.query(cell, host, HostQuery::Progress { operation: self.operation }, PATIENCE).await
    }
}

impl Signs for HostSigns<'_> {
    /// Returns the number of bytes that the hosts have copied for the operation so far.
    async fn progress(&self) -> u64 {
        let mut moved = 0;
        for place in &self.places {
            if let Ok(HostAnswer::Progress { done, .. }) = self.ask(place).await {
                moved += done;
            }
        }
        moved
    }

    /// True if the first host answers a question.
    async fn is_answered(&self) -> bool {
        match self.places.first() {
            Some(place) => self.ask(place).await.is_ok(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::context::RequestContext;
    use crate::saga::context::Request;
    use crate::saga::error::StepError;

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
