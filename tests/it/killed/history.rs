//! A client's history: requests, answers and looks, and what must not be among them. A request whose answer is lost may have happened or
//! not; only an answer is a promise (INVARIANTS P2, I10).

use std::fmt;

/// The statuses of a server that is made, moved and moved back, or shelved and unshelved.
const STATUSES: [&str; 7] = ["BUILD", "ACTIVE", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "SHELVED", "SHELVED_OFFLOADED"];
/// The requests that bring a server to a host.
const MOVES: [&str; 3] = ["resize", "migrate", "unshelve"];

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// 2xx: the request is durable, and the operation ends by itself.
    Accepted,
    /// 4xx: no part of the request happens.
    Refused(u16),
    /// 5xx or no answer: the request may have happened.
    Indeterminate,
}

/// A line of the history.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A request and its answer.
    Request { what: &'static str, answered: Answered },
    /// A number was written to the server's metadata.
    Wrote { number: u64, answered: Answered },
    /// A look showed the server.
    Saw { status: String, flavor: String, number: u64 },
    /// A look showed no server.
    Missing,
}

/// The history of one client in its own order. A client has one server and makes one request at a time.
#[derive(Clone, Debug)]
pub struct History {
    /// The client's number.
    pub number: usize,
    pub events: Vec<Event>,
    /// True if the service lived through outages: a server may be in ERROR as long as it owes something.
    pub outages: bool,
}

impl History {
    /// The number of accepted moves.
    pub fn moves(&self) -> usize {
        let accepted = |event: &&Event| matches!(event, Event::Request { what, answered: Answered::Accepted } if MOVES.contains(what));
        self.events.iter().filter(accepted).count()
    }

    /// Returns the violations, one per line.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        let (mut acknowledged, mut written, mut seen) = (0, 0, 0);
        for (line, event) in self.events.iter().enumerate() {
            match event {
                Event::Wrote { number, answered } => {
                    written = (*number).max(written);
                    if *answered == Answered::Accepted {
                        acknowledged = *number;
                    }
                }
                Event::Saw { number, .. } if *number < acknowledged.max(seen) || *number > written => {
                    violations.push(format!("{line}: saw {number}, after {acknowledged} was acknowledged and {seen} was seen"));
                }
                Event::Saw { status, .. } if status == "ERROR" && self.outages && line + 1 < self.events.len() => {}
                Event::Saw { status, .. } if !STATUSES.contains(&status.as_str()) => {
                    violations.push(format!("{line}: the server is in {status}"));
                }
                Event::Saw { number, .. } => seen = *number,
                Event::Missing => violations.push(format!("{line}: an acknowledged server is missing")),
                Event::Request { .. } => {}
            }
        }
        violations
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "client {}", self.number)?;
        self.events.iter().enumerate().try_for_each(|(line, event)| writeln!(f, "{line:4} {event:?}"))
    }
}

#[test]
fn a_history_tells_what_must_not_be() {
    let saw = |number| Event::Saw { status: "ACTIVE".into(), flavor: "gen1.small".into(), number };
    let wrote = |number, answered| Event::Wrote { number, answered };
    let judged = |events: &[Event]| History { number: 0, events: events.to_vec(), outages: false }.violations().len();

    assert_eq!(judged(&[wrote(1, Answered::Accepted), saw(1), wrote(2, Answered::Indeterminate), saw(1), saw(2), saw(2)]), 0);
    assert_eq!(judged(&[wrote(1, Answered::Accepted), saw(0)]), 1, "an acknowledged write is lost");
    assert_eq!(judged(&[wrote(1, Answered::Indeterminate), saw(1), saw(0)]), 1, "what was seen is gone again");
    assert_eq!(judged(&[saw(3)]), 1, "nobody wrote that");
    assert_eq!(judged(&[Event::Missing]), 1);
    assert_eq!(judged(&[Event::Saw { status: "ERROR".into(), flavor: String::new(), number: 0 }]), 1);
}
