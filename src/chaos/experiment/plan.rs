//! The run's faults as the runner meets them: a [`FaultPlan`] on the one hook. It also lets the watch look after every step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::fault::{PlannedFault, What, When};
use super::trace::{Trace, short};
use super::watch::Watch;
use crate::chaos::point::{Fault, FaultPlan, Moment, Point};

/// The armed faults.
pub struct Plan {
    trace: Trace,
    watch: Arc<Watch>,
    /// Those that wait for a step.
    faults: Vec<PlannedFault>,
    /// How often each point was come to.
    seen: Mutex<BTreeMap<(String, String, Moment), u32>>,
    /// Where the faults go that are not a step's own.
    elsewhere: mpsc::UnboundedSender<What>,
    healed: std::sync::atomic::AtomicBool,
}

impl Plan {
    /// With those of the faults that wait for a step.
    pub fn new(trace: Trace, watch: Arc<Watch>, faults: &[PlannedFault], elsewhere: mpsc::UnboundedSender<What>) -> Plan {
        let faults = faults.iter().filter(|fault| matches!(fault.when, When::Step { .. })).cloned().collect();
        Plan { trace, watch, faults, seen: Mutex::default(), elsewhere, healed: std::sync::atomic::AtomicBool::new(false) }
    }

    /// Nothing more goes wrong; the watch goes on.
    pub fn heal(&self) {
        self.healed.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn count(&self, point: &Point<'_>) -> u32 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let count = seen.entry((point.step.to_owned(), point.side.to_owned(), point.moment)).or_insert(0);
        *count += 1;
        *count
    }
}

impl FaultPlan for Plan {
    fn at(&self, point: &Point<'_>) -> Fault {
        let count = self.count(point);
        let title = format!("{} {} {} {} {}", short(point.id), point.saga, point.side, point.step, short(point.server));
        if point.moment == Moment::BeforeEffect {
            self.trace.note(format!("step   {title}"));
        }
        self.watch.step(point.id, point.server, point.moment == Moment::BeforeEffect);
        if self.healed.load(std::sync::atomic::Ordering::SeqCst) {
            return Fault::None;
        }
        let mut own = Fault::None;
        for fault in &self.faults {
            let When::Step { step, side, moment, occurrence } = &fault.when else { continue };
            if step != point.step || side != point.side || *moment != point.moment || *occurrence != count {
                continue;
            }
            self.trace.note(format!("FAULT  {:?} at {title}, {moment:?}", fault.what));
            match &fault.what {
                What::Step(fault) => own = *fault,
                // The run has ended when nobody listens.
                what => drop(self.elsewhere.send(what.clone())),
            }
        }
        own
    }
}
