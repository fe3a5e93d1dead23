//! An experiment's faults as the runner meets them: a [`FaultPlan`] on the one hook. It also lets the witness look after every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::fault::{AtStep, PlannedFault, What, When};
use super::record::{Injected, Record};
use super::{Witness, short};
use crate::chaos::point::{Fault, FaultPlan, Moment, Point};

/// A fault that has happened at a step, or is to happen now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its place in the record.
    pub place: usize,
    pub what: What,
    /// The saga at whose step it happens.
    pub saga: Option<Uuid>,
}

/// The armed faults.
pub struct Plan {
    witness: Arc<dyn Witness>,
    record: Record,
    /// Those that wait for a step.
    faults: Vec<Armed>,
    /// Where faults go: those that are not a step's own, to be made to happen; all, to be told of.
    elsewhere: mpsc::UnboundedSender<Call>,
    healed: AtomicBool,
    /// How this process ends where it is to be killed at a step; none where whoever runs it is told to.
    end: Option<fn()>,
}

struct Armed {
    /// Its number among all faults.
    number: usize,
    at: AtStep,
    what: What,
    times: u32,
    /// How often its point was come to.
    seen: AtomicU32,
}

impl Armed {
    fn is_here(&self, point: &Point<'_>) -> bool {
        let at = &self.at;
        let here = at.step == point.step && at.side == point.side && at.moment == point.moment;
        here && at.saga.as_ref().is_none_or(|saga| saga == point.saga)
    }

    /// Whether it happens at this coming.
    fn is_due(&self) -> bool {
        let count = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        count >= self.at.occurrence && count - self.at.occurrence < self.times
    }
}

impl Plan {
    /// With those of the faults that wait for a step.
    pub fn new(witness: Arc<dyn Witness>, record: Record, faults: &[PlannedFault], elsewhere: mpsc::UnboundedSender<Call>) -> Plan {
        let armed = faults.iter().enumerate().filter_map(|(number, fault)| match &fault.when {
            When::Step(at) => Some(Armed { number, at: at.clone(), what: fault.what.clone(), times: fault.times, seen: AtomicU32::new(0) }),
            When::At(_) | When::Between(..) => None,
        });
        Plan { witness, record, faults: armed.collect(), elsewhere, healed: AtomicBool::new(false), end: None }
    }

    /// For a process that is to be killed at the very point: `end` does not return.
    pub fn ending_the_process(self, end: fn()) -> Plan {
        Plan { end: Some(end), ..self }
    }

    /// Nothing more goes wrong; the witness goes on looking.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::SeqCst);
    }

    fn happens(&self, armed: &Armed, point: &Point<'_>, title: &str) -> usize {
        self.witness.tell(format!("FAULT  {} at {title}, {:?}", armed.what, point.moment));
        self.record.add(Injected {
            at_ms: self.witness.elapsed_ms(),
            fault: armed.number,
            what: armed.what.to_string(),
            saga: Some(point.id),
            server: Some(point.server),
            step: Some(format!("{} {}", point.side, point.step)),
            alone: matches!(armed.what, What::Step(_) | What::Message(_)),
            over_ms: None,
            failed: None,
        })
    }
}

impl FaultPlan for Plan {
    fn at(&self, point: &Point<'_>) -> Fault {
        let title = format!("{} {} {} {} {}", short(point.id), point.saga, point.side, point.step, short(point.server));
        if point.moment == Moment::BeforeEffect {
            self.witness.note(format!("step   {title}"));
        }
        self.witness.step(point);
        let mut own = Fault::None;
        for armed in self.faults.iter().filter(|armed| armed.is_here(point)) {
            if !armed.is_due() || self.healed.load(Ordering::SeqCst) {
                continue;
            }
            let place = self.happens(armed, point, &title);
            if let What::Step(fault) = &armed.what {
                own = *fault;
            }
            if let (What::Restart, Some(end)) = (&armed.what, self.end) {
                end();
            }
            // The run has ended when nobody listens.
            let _ = self.elsewhere.send(Call { place, what: armed.what.clone(), saga: Some(point.id) });
        }
        own
    }
}
