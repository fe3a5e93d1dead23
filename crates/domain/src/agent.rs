//! The agents of compute hosts: the lives of their processes, and the words by which a life begins and ends.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The data directory of a host's agent, and how often an agent has started in it. A directory is locked by one process, so of two lives of one
/// directory the one with the higher number has begun after the end of the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The directory's id.
    pub id: Uuid,
    /// The number of the start, from 1.
    pub start: u64,
}

/// The last word of an agent that ends in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LastWord {
    /// No guest runs, and none will before an agent of this name has been accepted again: the host is off.
    NoGuestRuns,
    /// Guests may run on without their agent.
    GuestsGoOn,
}

impl LastWord {
    /// Returns the word as databases have it.
    pub fn as_str(self) -> &'static str {
        match self {
            LastWord::NoGuestRuns => "no_guest_runs",
            LastWord::GuestsGoOn => "guests_go_on",
        }
    }

    /// Reads a word from a database.
    pub fn parse(text: &str) -> Option<LastWord> {
        [LastWord::NoGuestRuns, LastWord::GuestsGoOn].into_iter().find(|word| word.as_str() == text)
    }
}

/// A life of a host's agent that asks to be accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The life's id.
    pub life: Uuid,
    /// The agent's data directory; none of an agent that has none.
    pub place: Option<Place>,
    /// The agent's promise: the time without a renewed word after which it stops the host's guests itself; none if it promises nothing.
    pub self_fence: Option<Duration>,
}

/// The last renewal of an agent's word in the records of the host's cell: its agent said hello, and a controller has written that down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// The moment, by the clock of the controller that wrote it down.
    pub heard_at: DateTime<Utc>,
    /// The promise of that hello; see [`Hello::self_fence`].
    pub self_fence: Option<Duration>,
}

/// The accepted life of a host's agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedLife {
    /// The life's id.
    pub life: Uuid,
    /// The agent's data directory.
    pub place: Option<Place>,
    /// The moment of its last hello or word.
    pub heard_at: DateTime<Utc>,
    /// Its promise; see [`Hello::self_fence`].
    pub self_fence: Option<Duration>,
    /// Its last word, if it has ended in order.
    pub last_word: Option<LastWord>,
}

impl AcceptedLife {
    /// Returns the last renewal of the life's word.
    pub fn renewal(&self) -> Renewal {
        Renewal { heard_at: self.heard_at, self_fence: self.self_fence }
    }
}

/// The operator's word about a host, with its moment; none of a word that an earlier release wrote down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForcedDown {
    /// The moment of the word.
    pub at: Option<DateTime<Utc>>,
}

/// The agent of a host, as the host's cell records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentRecord {
    /// The host's name.
    pub host: String,
    /// The accepted life; none before the first.
    pub accepted: Option<AcceptedLife>,
    /// The operator's word that the host is off.
    pub forced_down: Option<ForcedDown>,
}

/// A hello as it was received: the decision, and the moment that was written down if the life is accepted or known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The decision.
    pub decision: Decision,
    /// The moment.
    pub at: DateTime<Utc>,
}

/// The decision on a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The life is accepted from now on.
    Accept,
    /// The life has been accepted before.
    Known,
    /// The life has been accepted before, and has ended: its hello is a late message.
    Ended,
    /// Another agent has the name.
    Taken(AcceptedLife),
}

impl AgentRecord {
    /// Decides on a hello. Silence is not death: the name passes to another life only by the word of whoever knows that the earlier life runs
    /// no guest.
    pub fn decide(&self, hello: &Hello) -> Decision {
        let Some(accepted) = self.accepted else { return Decision::Accept };
        if accepted.life == hello.life {
            return if accepted.last_word.is_none() { Decision::Known } else { Decision::Ended };
        }
        let successive = match (accepted.place, hello.place) {
            // The lock of the directory proves which life has ended.
            (Some(before), Some(now)) if before.id == now.id => now.start > before.start,
            _ => accepted.last_word == Some(LastWord::NoGuestRuns),
        };
        match successive || self.is_off_by_operator() {
            true => Decision::Accept,
            false => Decision::Taken(accepted),
        }
    }

    /// True if an operator has said that the host is off, and its agent has not been heard of since.
    pub fn is_off_by_operator(&self) -> bool {
        let heard_at = self.accepted.map(|accepted| accepted.heard_at);
        self.forced_down.is_some_and(|word| word.holds_since(heard_at))
    }
}

impl ForcedDown {
    /// True if the word was said after the host had last been heard of. A host without an agent has no such moment.
    pub fn holds_since(self, heard_at: Option<DateTime<Utc>>) -> bool {
        heard_at.is_none_or(|heard_at| self.at.is_some_and(|at| at > heard_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_word_is_read_as_it_was_written() {
        for word in [LastWord::NoGuestRuns, LastWord::GuestsGoOn] {
            assert_eq!(LastWord::parse(word.as_str()), Some(word));
        }
        assert_eq!(LastWord::parse("goodbye"), None);
    }

    const FIRST: Uuid = Uuid::from_u128(1);
    const SECOND: Uuid = Uuid::from_u128(2);

    fn moment(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(seconds)
    }

    fn place(id: u128, start: u64) -> Option<Place> {
        Some(Place { id: Uuid::from_u128(id), start })
    }

    /// The first life, heard at second 10 in start 3 of directory 7.
    fn record(last_word: Option<LastWord>) -> AgentRecord {
        let accepted = AcceptedLife { life: FIRST, place: place(7, 3), heard_at: moment(10), self_fence: None, last_word };
        AgentRecord { host: "h1".to_owned(), accepted: Some(accepted), forced_down: None }
    }

    fn decision(record: &AgentRecord, life: Uuid, place: Option<Place>) -> Decision {
        record.decide(&Hello { life, place, self_fence: None })
    }

    #[test]
    fn a_name_without_a_life_takes_any() {
        let record = AgentRecord { accepted: None, ..record(None) };
        assert_eq!(decision(&record, SECOND, None), Decision::Accept);
    }

    #[test]
    fn an_accepted_life_stays_until_its_last_word() {
        assert_eq!(decision(&record(None), FIRST, place(7, 3)), Decision::Known);
        for word in [LastWord::NoGuestRuns, LastWord::GuestsGoOn] {
            assert_eq!(decision(&record(Some(word)), FIRST, place(7, 3)), Decision::Ended);
        }
    }

    #[test]
    fn silence_passes_a_name_to_nobody() {
        let record = record(None);
        let refusal = Decision::Taken(record.accepted.unwrap());
        for place in [None, place(8, 9), place(7, 3), place(7, 2)] {
            assert_eq!(decision(&record, SECOND, place), refusal, "{place:?}");
        }
    }

    #[test]
    fn a_later_start_in_one_directory_has_the_name() {
        assert_eq!(decision(&record(None), SECOND, place(7, 4)), Decision::Accept);
        let late = decision(&record(Some(LastWord::NoGuestRuns)), SECOND, place(7, 2));
        assert!(matches!(late, Decision::Taken(_)), "the message of an earlier life is late");
    }

    #[test]
    fn a_last_word_gives_the_name_away_if_no_guest_runs() {
        assert_eq!(decision(&record(Some(LastWord::NoGuestRuns)), SECOND, place(8, 1)), Decision::Accept);
        assert_eq!(decision(&record(Some(LastWord::NoGuestRuns)), SECOND, None), Decision::Accept);
        assert!(matches!(decision(&record(Some(LastWord::GuestsGoOn)), SECOND, place(8, 1)), Decision::Taken(_)));
    }

    #[test]
    fn the_operators_word_counts_until_the_host_is_heard_again() {
        let forced = |at| AgentRecord { forced_down: Some(ForcedDown { at }), ..record(None) };
        assert_eq!(decision(&forced(Some(moment(11))), SECOND, None), Decision::Accept);
        for stale in [Some(moment(9)), None] {
            assert!(matches!(decision(&forced(stale), SECOND, None), Decision::Taken(_)), "{stale:?}");
        }
        let never_heard = AgentRecord { accepted: None, ..forced(None) };
        assert!(never_heard.is_off_by_operator());
    }
}
