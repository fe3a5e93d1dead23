//! Holds an operation at a point of a step until the test lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::client::PATIENCE;
use crate::stage::Stage;

/// A place where operations wait until the test lets them go on.
pub struct Gate {
    met: Semaphore,
    goes_on: Arc<Semaphore>,
}

impl Gate {
    pub fn new() -> Gate {
        Gate { met: Semaphore::new(0), goes_on: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until an operation is there.
    pub async fn met(&self) {
        let met = tokio::time::timeout(PATIENCE, self.met.acquire()).await;
        met.expect("the step is reached").expect("it is never closed").forget();
    }

    /// Lets an operation go on.
    pub fn release(&self) {
        self.goes_on.add_permits(1);
    }

    /// Counts an operation, which is to wait until [`Gate::released`].
    pub fn stop(&self) -> StepFault {
        self.met.add_permits(1);
        StepFault::Wait
    }

    /// Ends when an operation may go on.
    pub fn released(&self) -> BoxFuture<'static, ()> {
        let goes_on = self.goes_on.clone();
        Box::pin(async move { goes_on.acquire().await.expect("it is never closed").forget() })
    }
}

/// A point of a step's act. The first operation that comes there waits. Keep it armed until then, and release it.
pub struct Held {
    step: &'static str,
    moment: Moment,
    once: AtomicBool,
    gate: Gate,
}

impl Held {
    /// Holds the operations of a stage there.
    pub fn at(stage: &Stage, step: &'static str, moment: Moment) -> Arc<Held> {
        let held = Arc::new(Held { step, moment, once: AtomicBool::new(false), gate: Gate::new() });
        stage.seams.steps.arm(Some(held.clone()));
        held
    }

    /// Waits until an operation is there.
    pub async fn met(&self) {
        self.gate.met().await;
    }

    /// Lets the operation go on.
    pub fn release(&self) {
        self.gate.release();
    }
}

impl FaultPlan for Held {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let here = (point.step, point.side, point.moment) == (self.step, "act", self.moment);
        if !here || self.once.swap(true, Ordering::SeqCst) {
            return StepFault::None;
        }
        self.gate.stop()
    }

    fn released(&self, _: &Point<'_>) -> BoxFuture<'static, ()> {
        self.gate.released()
    }
}
