//! The agents of compute hosts: the lives of their processes, and the words by which a life begins and ends.

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

/// The accepted life of a host's agent, as the host's cell records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptedLife {
    /// The host's name.
    pub host: String,
    /// The life's id.
    pub life: Uuid,
    /// The moment of its last hello or word.
    pub heard_at: DateTime<Utc>,
    /// Its last word, if it has ended in order.
    pub last_word: Option<LastWord>,
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
}
