//! Notifies the demo when a saga reaches a certain step, without any other effect.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::DemoError;
use super::stage::{LOOK_EVERY, Stage, items, text};
use crate::chaos::point::{FaultPlan, Moment, Point, StepFault};
use crate::chaos::seams::Seams;
use crate::client::OPERATORS;

/// A wait for the moment at which the server's saga is about to begin the step's act.
pub struct Tripwire {
    server: Uuid,
    step: &'static str,
    /// The seams on which it is armed, with its notification. Without them, the API is asked for the step at hand.
    armed: Option<(Seams, oneshot::Receiver<()>)>,
}

impl Tripwire {
    /// Waits by looking at the API.
    pub fn looking(server: Uuid, step: &'static str) -> Tripwire {
        Tripwire { server, step, armed: None }
    }

    /// Arms the seams.
    pub fn on(seams: &Seams, server: Uuid, step: &'static str) -> Tripwire {
        let (off, reached) = oneshot::channel();
        seams.steps.arm(Some(Arc::new(Wire { server, step, off: Mutex::new(Some(off)) })));
        Tripwire { server, step, armed: Some((seams.clone(), reached)) }
    }

    /// Returns when the saga is there.
    pub async fn reached(self, stage: &Stage) -> Result<(), DemoError> {
        match self.armed {
            Some((seams, reached)) => {
                let came = reached.await;
                seams.steps.arm(None);
                came.map_err(|_| DemoError::Wrong(format!("the move never came to {}", self.step)))
            }
            None => loop {
                let list = stage.admin.get(OPERATORS, &format!("/migrations?server={}", self.server)).await?;
                if items(&list["migrations"]).first().is_some_and(|newest| text(newest, "step") == self.step) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            },
        }
    }
}

/// Fires once.
struct Wire {
    server: Uuid,
    step: &'static str,
    off: Mutex<Option<oneshot::Sender<()>>>,
}

impl FaultPlan for Wire {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let here = point.server == self.server && point.step == self.step && point.side == "act" && point.moment == Moment::BeforeEffect;
        if here && let Some(off) = self.off.lock().take() {
            // The demo may have been interrupted.
            let _ = off.send(());
        }
        StepFault::None
    }
}
