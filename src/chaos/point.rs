//! StepFault points: the single hook through which an experiment or a test makes a saga's step fail. With no plan armed it costs one branch.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The moments, around a side of a step, at which the runner asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// `begun` is in the journal, and the effect has not happened.
    BeforeEffect,
    /// The effect has happened, and its end is not in the journal.
    AfterEffect,
    /// The end is in the journal.
    AfterJournal,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::BeforeEffect => "before its effect",
            Moment::AfterEffect => "after its effect",
            Moment::AfterJournal => "after its end is in the journal",
        })
    }
}

/// The runner's present point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point<'a> {
    pub saga: &'a str,
    /// The saga's id.
    pub id: Uuid,
    pub server: Uuid,
    pub step: &'a str,
    /// `act` or `undo`.
    pub side: &'a str,
    pub moment: Moment,
}

/// The fault at a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFault {
    /// Nothing.
    None,
    /// Before the effect: the step is refused without a try. After it: the step reports failure although its effect has happened.
    Refuse,
    /// The effect happens, and its reply is lost.
    LoseReply,
    /// The effect happens twice under one fence, as if a request was delivered twice.
    Repeat,
    /// The deadline passes at once, and the effect happens while the runner continues.
    CompleteLate,
    /// The deadline passes at once, and the effect is tried only after the saga (or its runner) has ended.
    CompleteAfterEnd,
    /// The migration's actor dies here.
    KillActor,
    /// The runner stops here forever, as if the process was killed.
    Freeze,
    /// A fault elsewhere happens at this moment. The step continues, after all work of the moment is done.
    #[serde(skip)]
    Elsewhere,
    /// Something else happens meanwhile. The step continues when the plan releases it.
    #[serde(skip)]
    Wait,
}

/// Decides the fault at each point.
pub trait FaultPlan: Send + Sync {
    /// Returns the fault at this point.
    fn at(&self, point: &Point<'_>) -> StepFault;

    /// False if the plan has no fault at this step of such a saga, so that the step may be passed over if it has nothing to do.
    fn may_be_at(&self, _saga: &str, _step: &str) -> bool {
        true
    }

    /// Called when the fault at this point is over: the late effect has ended, or the runner is frozen.
    fn over(&self, _point: &Point<'_>) {}

    /// Waits until a step that was told to wait at this point may continue.
    fn released(&self, _point: &Point<'_>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The hook, which holds the plan, if any. Cheap to clone.
#[derive(Clone, Default)]
pub struct FaultPoints {
    plan: Arc<RwLock<Option<Arc<dyn FaultPlan>>>>,
}

impl FaultPoints {
    /// Arms a plan, or disarms.
    pub fn arm(&self, plan: Option<Arc<dyn FaultPlan>>) {
        *self.plan.write() = plan;
    }

    /// Returns the fault at this point.
    pub fn at(&self, point: &Point<'_>) -> StepFault {
        self.armed().map_or(StepFault::None, |plan| plan.at(point))
    }

    /// Returns [`FaultPlan::may_be_at`]; false without a plan.
    pub fn may_be_at(&self, saga: &str, step: &str) -> bool {
        self.armed().is_some_and(|plan| plan.may_be_at(saga, step))
    }

    /// Calls [`FaultPlan::over`].
    pub fn over(&self, point: &Point<'_>) {
        if let Some(plan) = self.armed() {
            plan.over(point);
        }
    }

    /// Calls [`FaultPlan::released`].
    pub async fn released(&self, point: &Point<'_>) {
        if let Some(plan) = self.armed() {
            plan.released(point).await;
        }
    }

    /// Returns a hook that keeps the present plan, so that a late effect is reported to the plan that delayed it.
    pub fn kept(&self) -> FaultPoints {
        FaultPoints { plan: Arc::new(RwLock::new(self.armed())) }
    }

    fn armed(&self) -> Option<Arc<dyn FaultPlan>> {
        self.plan.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Hears(AtomicBool);

    impl FaultPlan for Hears {
        fn at(&self, _: &Point<'_>) -> StepFault {
            StepFault::CompleteLate
        }

        fn over(&self, _: &Point<'_>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_disarmed_plan_hears_of_the_end_of_its_fault() {
        let (points, plan) = (FaultPoints::default(), Arc::new(Hears::default()));
        points.arm(Some(plan.clone()));
        let here =
            Point { saga: "stop", id: Uuid::nil(), server: Uuid::nil(), step: "stop_guest", side: "act", moment: Moment::BeforeEffect };
        assert_eq!(points.at(&here), StepFault::CompleteLate);
        let kept = points.kept();
        points.arm(None);
        assert_eq!(points.at(&here), StepFault::None);
        kept.over(&here);
        assert!(plan.0.load(Ordering::SeqCst));
    }
}
