//! The search: every state that the rules allow within the bounds, breadth first, so that the trace of a breach is as short as can be.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use crate::events::Event;
use crate::setting::Setting;
use crate::world::{Guest, Place, World};

/// A promise about every state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Never two running guests of one server (INVARIANTS I1).
    OneRunningGuest,
    /// A guest runs only on the host that owns its server (INVARIANTS I2).
    OnlyTheOwnerRuns,
}

impl Promise {
    /// Both promises.
    pub const ALL: [Promise; 2] = [Promise::OneRunningGuest, Promise::OnlyTheOwnerRuns];

    fn holds(self, world: &World) -> bool {
        let runs = |place: Place| world.host(place).guest == Guest::Running;
        match self {
            Promise::OneRunningGuest => !Place::ALL.into_iter().all(runs),
            Promise::OnlyTheOwnerRuns => !Place::ALL.into_iter().any(|place| runs(place) && world.owner != place),
        }
    }
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Breach {
    pub promise: Promise,
    /// The events in order, each with the guests at the source and the target after it.
    pub trace: Vec<(Event, [Guest; 2])>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (event, [source, target])) in self.trace.iter().enumerate() {
            let event = event.to_string();
            writeln!(f, "  {:2} {event:<66} source {source:?}, target {target:?}", number + 1)?;
        }
        Ok(())
    }
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The number of states that were visited.
    pub states: usize,
    /// The first breach; none if every promise holds.
    pub breach: Option<Breach>,
}

/// The states that follow another.
#[derive(Default)]
pub(crate) struct Next(Vec<(Event, World)>);

impl Next {
    pub(crate) fn add(&mut self, event: Event, world: World) {
        self.0.push((event, world));
    }
}

impl World {
    fn followed(&self, setting: &Setting) -> Vec<(Event, World)> {
        let mut next = Next::default();
        self.operations_begin(setting, &mut next);
        self.conductors_work(setting, &mut next);
        self.messages_arrive(setting, &mut next);
        self.hosts_fare(setting, &mut next);
        self.time_passes(setting, &mut next);
        next.0
    }
}

/// A state, and the event by which it followed another.
type Visited = (Rc<World>, Option<(Event, usize)>);

/// Visits every state under these rules until one breaks a promise.
pub fn explore(setting: &Setting, promises: &[Promise]) -> Explored {
    let first = Rc::new(World::first());
    let mut numbers = HashMap::from([(first.clone(), 0_usize)]);
    let mut states: Vec<Visited> = vec![(first, None)];
    let mut waiting = VecDeque::from([0]);
    while let Some(number) = waiting.pop_front() {
        let world = states[number].0.clone();
        for (event, mut followed) in world.followed(setting) {
            followed.forget_what_is_over(setting);
            if numbers.contains_key(&followed) {
                continue;
            }
            let (followed, reached) = (Rc::new(followed), states.len());
            numbers.insert(followed.clone(), reached);
            states.push((followed.clone(), Some((event, number))));
            if let Some(promise) = promises.iter().copied().find(|promise| !promise.holds(&followed)) {
                return Explored { states: states.len(), breach: Some(Breach { promise, trace: trace(&states, reached) }) };
            }
            waiting.push_back(reached);
        }
    }
    Explored { states: states.len(), breach: None }
}

fn trace(states: &[Visited], last: usize) -> Vec<(Event, [Guest; 2])> {
    let mut trace = Vec::new();
    let mut number = last;
    while let (world, Some((event, before))) = &states[number] {
        trace.push((*event, Place::ALL.map(|place| world.host(place).guest)));
        number = *before;
    }
    trace.reverse();
    trace
}
