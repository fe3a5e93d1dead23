//! An experiment's faults at steps: a [`FaultPlan`] for the runner. It also calls the witness at each step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::fault::{AtStep, PlannedFault, What, When};
use super::record::{Injected, Record};
use super::{Witness, short};
use crate::chaos::point::{FaultPlan, Moment, Point, StepFault};

/// A fault that has happened at a step, or must happen now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its index in the record.
    pub place: usize,
    pub what: What,
    /// The saga at whose step the fault happens.
    pub saga: Option<Uuid>,
}

impl Call {
    /// True if the runner reports the fault's end later ([`FaultPlan::over`]), because its effect comes after the step.
    pub fn ends_later(&self) -> bool {
        matches!(self.what, What::Step(StepFault::CompleteLate | StepFault::CompleteAfterEnd))
    }
}

/// The armed faults.
pub struct Plan {
    witness: Arc<dyn Witness>,
    record: Record,
    /// The faults that wait for a step.
    faults: Vec<Armed>,
    /// The receiver of all faults; it makes those happen that are not the step's own.
    elsewhere: mpsc::UnboundedSender<Call>,
    healed: AtomicBool,
    /// In a running service: the receiver of faults that are over.
    service: Option<Service>,
}

/// The additional state of a plan for a running service.
struct Service {
    /// Faults whose end the runner will report.
    open: Mutex<Vec<(Here, Call)>>,
    overs: mpsc::UnboundedSender<Injected>,
}

/// A point that outlives its borrow.
#[derive(Clone, PartialEq, Eq)]
struct Here {
    saga: Uuid,
    step: String,
    side: String,
    moment: Moment,
}

impl Here {
    fn of(point: &Point<'_>) -> Here {
        Here { saga: point.id, step: point.step.to_owned(), side: point.side.to_owned(), moment: point.moment }
    }
}

struct Armed {
    /// Its number among all faults.
    number: usize,
    at: AtStep,
    what: What,
    times: u32,
    /// The number of times that a saga has reached its point.
    seen: AtomicU32,
}

impl Armed {
    fn is_here(&self, point: &Point<'_>) -> bool {
        let at = &self.at;
        let here = at.step == point.step && at.side == point.side && at.moment == point.moment;
        here && at.saga.as_ref().is_none_or(|saga| saga == point.saga)
    }

    /// True if the fault happens at this occurrence.
    fn is_due(&self) -> bool {
        let count = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        count >= self.at.occurrence && count - self.at.occurrence < self.times
    }
}

impl Plan {
    /// Arms those of the faults that wait for a step.
    pub fn new(witness: Arc<dyn Witness>, record: Record, faults: &[PlannedFault], elsewhere: mpsc::UnboundedSender<Call>) -> Plan {
        let armed = faults.iter().enumerate().filter_map(|(number, fault)| match &fault.when {
            When::Step(at) => Some(Armed { number, at: at.clone(), what: fault.what.clone(), times: fault.times, seen: AtomicU32::new(0) }),
            When::At(_) | When::Between(..) => None,
        });
        Plan { witness, record, faults: armed.collect(), elsewhere, healed: AtomicBool::new(false), service: None }
    }

    /// Adapts the plan to a running service. Where the process must be killed, the runner first freezes at the exact point. Faults with
    /// late effects are reported when the effect has come.
    pub fn of_a_service(self, overs: mpsc::UnboundedSender<Injected>) -> Plan {
        Plan { service: Some(Service { open: Mutex::default(), overs }), ..self }
    }

    /// Disarms all faults. The witness continues to observe.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::SeqCst);
    }

    fn happens(&self, armed: &Armed, point: &Point<'_>, title: &str) -> usize {
        self.witness.tell(format!("FAULT  {} at {title}, {}", armed.what, point.moment));
        self.record.add(Injected {
            at_ms: self.witness.elapsed_ms(),
            fault: armed.number,
            what: armed.what.to_string(),
            saga: Some(point.id),
            kind: Some(point.saga.to_owned()),
            server: Some(point.server),
            step: Some(format!("{} {}", point.side, point.step)),
            moment: Some(point.moment),
            alone: matches!(armed.what, What::Step(_) | What::Message(_)),
            ..Injected::default()
        })
    }

    /// Returns the fault for the runner. Sends other faults to their receiver.
    fn meet(&self, point: &Point<'_>, call: Call) -> StepFault {
        let own = match (&call.what, &self.service) {
            (What::Step(fault), _) => *fault,
            (What::Restart, Some(_)) => StepFault::Freeze,
            _ => StepFault::Elsewhere,
        };
        if let Some(service) = self.service.as_ref().filter(|_| own == StepFault::Freeze || call.ends_later()) {
            let mut open = service.open.lock();
            open.push((Here::of(point), call.clone()));
        }
        if own != StepFault::Freeze {
            // The run has ended if nobody receives it.
            let _ = self.elsewhere.send(call);
        }
        own
    }
}

impl FaultPlan for Plan {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let title = format!("{} {} {} {} {}", short(point.id), point.saga, point.side, point.step, short(point.server));
        if point.moment == Moment::BeforeEffect {
            self.witness.note(format!("step   {title}"));
        }
        self.witness.step(point);
        let mut own = StepFault::None;
        for armed in self.faults.iter().filter(|armed| armed.is_here(point)) {
            if !armed.is_due() || self.healed.load(Ordering::SeqCst) {
                continue;
            }
            let place = self.happens(armed, point, &title);
            let met = self.meet(point, Call { place, what: armed.what.clone(), saga: Some(point.id) });
            if own == StepFault::None || met != StepFault::Elsewhere {
                own = met;
            }
        }
        own
    }

    fn may_be_at(&self, saga: &str, step: &str) -> bool {
        let at = |armed: &Armed| armed.at.step == step && armed.at.saga.as_ref().is_none_or(|named| named == saga);
        self.faults.iter().any(at)
    }

    fn over(&self, point: &Point<'_>) {
        let Some(service) = &self.service else { return };
        let here = Here::of(point);
        let of_here: Vec<Call> = {
            let mut open = service.open.lock();
            open.extract_if(.., |(there, _)| *there == here).map(|(_, call)| call).collect()
        };
        for call in of_here {
            if call.ends_later() {
                self.record.ended(call.place, self.witness.elapsed_ms());
                if let Some(injected) = self.record.at(call.place) {
                    // The service has ended if nobody receives it.
                    let _ = service.overs.send(injected);
                }
            } else {
                // The runner freezes where the process must be killed.
                let _ = self.elsewhere.send(call);
            }
        }
    }
}
