//! The faulty performance of steps: refuses, loses replies, repeats, delays and kills where a plan says so. Without a plan it performs
//! plainly.

use std::panic;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::point::{FaultPoints, Moment, Point, StepFault};
use crate::domain::fence::Fence;
use crate::saga::context::Context;
use crate::saga::machine::{Outcome, Side};
use crate::saga::performer::{Performed, Performer, Performers, take_in, under_deadline};
use crate::saga::refusal::Refusal;
use crate::saga::step::Step;
use crate::saga::tables::{accept, table_of};
use crate::saga::world::World;

/// The journal's text of a step that was refused.
const REFUSED: &str = "an experiment refused this step";
/// The journal's text of a step whose deadline passed at once.
const LATE: &str = "an experiment let the deadline pass";
/// The journal's text of a step whose reply was lost.
const LOST: &str = "an experiment lost the reply";

/// Performs with the faults of a plan.
struct Faulty {
    faults: FaultPoints,
    /// Effects that wait for the end of the saga: they happen when the senders are dropped.
    held_back: Vec<oneshot::Sender<()>>,
    /// The fault at the end that is on its way into the journal.
    at_end: StepFault,
}

impl Performers for FaultPoints {
    fn of_saga(&self) -> Box<dyn Performer> {
        Box::new(Faulty { faults: self.clone(), held_back: Vec::new(), at_end: StepFault::None })
    }
}

#[async_trait]
impl Performer for Faulty {
    async fn perform(&mut self, world: &Arc<World>, step: &Step, side: Side, context: &mut Context, fence: Fence) -> Performed {
        let before = point(context, step, side, Moment::BeforeEffect);
        let fault = self.faults.at(&before);
        self.obey(fault, &before).await;
        match fault {
            StepFault::Refuse => return Performed::Ended(Outcome::Refused(REFUSED.into())),
            StepFault::CompleteLate | StepFault::CompleteAfterEnd => {
                let waits = fault == StepFault::CompleteAfterEnd;
                self.complete_late(world, step, side, context.clone(), fence, waits);
                return Performed::Ended(Outcome::TimedOut(LATE.into()));
            }
            StepFault::Repeat => {
                let _ = under_deadline(world, step, side, &mut context.clone(), fence).await;
            }
            StepFault::None | StepFault::LoseReply | StepFault::KillActor | StepFault::Freeze | StepFault::Elsewhere | StepFault::Wait => {}
        }
        let mut changed = Box::new(context.clone());
        let result = under_deadline(world, step, side, &mut changed, fence).await;
        if fault == StepFault::LoseReply {
            return Performed::Ended(Outcome::Unknown(LOST.into()));
        }
        let here = point(context, step, side, Moment::AfterEffect);
        let after = self.faults.at(&here);
        let performed = match result {
            Ok(Ok(())) if after == StepFault::Refuse => Performed::Ended(Outcome::Refused(REFUSED.into())),
            result => take_in(context, changed, result),
        };
        if matches!(performed, Performed::Ended(_)) {
            self.obey(after, &here).await;
        }
        performed
    }

    async fn accept(
        &mut self,
        world: &Arc<World>,
        context: &mut Context,
        fence: Fence,
        at_rest: BoxFuture<'static, ()>,
    ) -> Result<(), Refusal> {
        let step = table_of(context).steps[0];
        let before = point(context, &step, Side::Act, Moment::BeforeEffect);
        let fault = self.faults.at(&before);
        self.obey(fault, &before).await;
        match fault {
            StepFault::Refuse => return Err(Refusal::Conflict(REFUSED.into())),
            StepFault::CompleteLate | StepFault::CompleteAfterEnd => {
                let (world, mut context, faults) = (world.clone(), context.clone(), self.faults.kept());
                tokio::spawn(async move {
                    if fault == StepFault::CompleteAfterEnd {
                        at_rest.await;
                    }
                    let _ = accept(&world, &mut context, fence).await;
                    faults.over(&point(&context, &table_of(&context).steps[0], Side::Act, Moment::BeforeEffect));
                });
                return Err(Refusal::Unavailable(LATE.into()));
            }
            StepFault::Repeat => {
                let _ = accept(world, &mut context.clone(), fence).await;
            }
            StepFault::None | StepFault::LoseReply | StepFault::KillActor | StepFault::Freeze | StepFault::Elsewhere | StepFault::Wait => {}
        }
        let accepted = accept(world, context, fence).await;
        if fault == StepFault::LoseReply {
            return Err(Refusal::Unavailable(LOST.into()));
        }
        let after = point(context, &step, Side::Act, Moment::AfterEffect);
        self.obey(self.faults.at(&after), &after).await;
        accepted
    }

    fn may_pass(&self, context: &Context, step: &Step) -> bool {
        !self.faults.may_be_at(context.kind.as_str(), step.name.as_str())
    }

    fn waits_for_journal(&mut self, context: &Context, step: &Step, side: Side) -> bool {
        self.at_end = self.faults.at(&point(context, step, side, Moment::AfterJournal));
        self.at_end != StepFault::None
    }

    async fn journalled(&mut self, context: &Context, step: &Step, side: Side) {
        self.obey(self.at_end, &point(context, step, side, Moment::AfterJournal)).await;
    }
}

impl Faulty {
    /// Lets the effect happen while the runner goes on, or if `waits`, after the saga.
    fn complete_late(&mut self, world: &Arc<World>, step: &Step, side: Side, mut context: Context, fence: Fence, waits: bool) {
        let (release, released) = oneshot::channel();
        if waits {
            self.held_back.push(release);
        }
        let (world, faults, step) = (world.clone(), self.faults.kept(), *step);
        tokio::spawn(async move {
            // Released by a drop of the sender: above, or at the end of the saga.
            let _ = released.await;
            if let Some(work) = step.work(side) {
                // Nobody waits for the result: the undo and the audit find the effect.
                let _ = work(&world, &mut context, fence).await;
            }
            faults.over(&point(&context, &step, side, Moment::BeforeEffect));
        });
    }

    /// Obeys the faults that end or stop the runner.
    async fn obey(&self, fault: StepFault, here: &Point<'_>) {
        match fault {
            // Without the panic hook: nobody needs a backtrace of an experiment.
            StepFault::KillActor => panic::resume_unwind(Box::new("an experiment kills this migration's actor")),
            StepFault::Freeze => {
                self.faults.over(here);
                futures::future::pending().await
            }
            StepFault::Wait => self.faults.released(here).await,
            StepFault::None
            | StepFault::Refuse
            | StepFault::LoseReply
            | StepFault::Repeat
            | StepFault::CompleteLate
            | StepFault::CompleteAfterEnd
            | StepFault::Elsewhere => {}
        }
    }
}

/// The point of a runner, or of the request that begins an operation.
fn point<'a>(context: &Context, step: &'a Step, side: Side, moment: Moment) -> Point<'a> {
    Point { saga: context.kind.as_str(), id: context.saga, server: context.server, step: step.name.as_str(), side: side.as_str(), moment }
}
