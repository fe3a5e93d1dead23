//! The events by which one state follows another, in words.

use std::fmt;

use crate::world::{Command, Kind, Place, Reply};

/// The event between two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    OperationBegins(Kind),
    LeaseTaken(usize),
    AttemptBegins(usize),
    CommandSent(usize, Place, Command),
    ReplyRead(usize, Reply),
    TurnedBack(usize),
    WentOnWithout(usize, Place),
    OwnerNamed(usize, Place),
    OperationEnds(usize),
    Obeyed(Place, Command, Reply),
    OwnerInQuestion(Place),
    StartInQuestion(Place),
    RanOn(Place),
    CutOff(Place),
    Heard(Place),
    PowerLost(Place),
    SaidOff(Place),
    PowerBack(Place),
    ForcedDown(Place),
    WordTakenBack(Place),
    TimePassed,
    ControllersClockRan,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::OperationBegins(kind) => write!(f, "an operation begins: {kind:?}"),
            Event::LeaseTaken(conductor) => write!(f, "conductor {conductor} takes the lease"),
            Event::AttemptBegins(conductor) => write!(f, "conductor {conductor} begins an attempt"),
            Event::CommandSent(conductor, to, command) => write!(f, "conductor {conductor} sends {command:?} to {to:?}"),
            Event::ReplyRead(conductor, reply) => write!(f, "conductor {conductor} reads the reply {reply:?}"),
            Event::TurnedBack(conductor) => write!(f, "conductor {conductor} turns back"),
            Event::WentOnWithout(conductor, place) => write!(f, "conductor {conductor} goes on without an answer of {place:?}"),
            Event::OwnerNamed(conductor, place) => write!(f, "conductor {conductor} names {place:?} as the owner"),
            Event::OperationEnds(conductor) => write!(f, "conductor {conductor} ends the operation"),
            Event::Obeyed(place, command, reply) => write!(f, "{place:?} obeys {command:?}: {reply:?}"),
            Event::OwnerInQuestion(place) => write!(f, "{place:?} asks whose its guest is"),
            Event::StartInQuestion(place) => write!(f, "{place:?} asks whether a start is late"),
            Event::RanOn(place) => write!(f, "{place:?} runs its guest on, as it may"),
            Event::CutOff(place) => write!(f, "the network to {place:?} is cut"),
            Event::Heard(place) => write!(f, "{place:?} is heard again"),
            Event::PowerLost(place) => write!(f, "{place:?} loses its power"),
            Event::SaidOff(place) => write!(f, "{place:?} says that its guests have ended, and goes"),
            Event::PowerBack(place) => write!(f, "{place:?} has power again"),
            Event::ForcedDown(place) => write!(f, "an operator sees that {place:?} is off, and forces it down"),
            Event::WordTakenBack(place) => write!(f, "the operator takes the word about {place:?} back"),
            Event::TimePassed => write!(f, "time passes"),
            Event::ControllersClockRan => write!(f, "the controllers' clock runs ahead"),
        }
    }
}
