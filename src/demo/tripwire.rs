//! Notifies the demo when a saga reaches a certain step, without any other effect.

use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::chaos::point::{FaultPlan, Moment, Point, StepFault};

/// Fires once, when the server's saga is about to begin the step's act.
pub struct Tripwire {
    server: Uuid,
    step: &'static str,
    off: Mutex<Option<oneshot::Sender<()>>>,
}

impl Tripwire {
    /// Returns a tripwire with the receiver of its notification.
    pub fn new(server: Uuid, step: &'static str) -> (Tripwire, oneshot::Receiver<()>) {
        let (off, reached) = oneshot::channel();
        (Tripwire { server, step, off: Mutex::new(Some(off)) }, reached)
    }
}

impl FaultPlan for Tripwire {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let here = point.server == self.server && point.step == self.step && point.side == "act" && point.moment == Moment::BeforeEffect;
        if here && let Some(off) = self.off.lock().take() {
            // The demo may have been interrupted.
            let _ = off.send(());
        }
        StepFault::None
    }
}
