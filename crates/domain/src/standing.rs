//! Whether a compute host runs guests, as far as a controller can say. Silence is not death: a host behind a cut network goes on with its
//! guests, so only a host that is surely off lets another host run them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::agent::ForcedDown;
use super::reason::Reason;

/// The standing of a compute host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Standing {
    /// The host takes requests.
    Up,
    /// The host takes no requests, and may run its guests.
    Silent {
        /// The moment from which on the host has not answered.
        since: DateTime<Utc>,
        /// The cause, as far as the controller knows it.
        reason: Reason,
    },
    /// The host runs no guest, and asks its controllers before it runs one again.
    Off(OffBy),
}

/// The word by which a host is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OffBy {
    /// The host's own: its guests had ended when it went.
    Host,
    /// The operator's, who forced the host down.
    Operator,
    /// The host's promise to stop its guests by itself, whose time is over.
    SelfFence {
        /// The moment at which the host's agent renewed its word last, as far as the link knows.
        heard_at: DateTime<Utc>,
    },
}

impl Standing {
    /// True if the host takes requests.
    pub fn is_up(&self) -> bool {
        matches!(self, Standing::Up)
    }

    /// True if the host surely runs no guest.
    pub fn is_off(&self) -> bool {
        matches!(self, Standing::Off(_))
    }

    /// Returns the standing by the records, in which the host's agent was last heard of at `heard_at`. A promise counts if it has not been
    /// renewed since: another controller may have heard of the agent later than the link.
    #[must_use]
    pub fn recorded(self, heard_at: Option<DateTime<Utc>>) -> Standing {
        match self {
            Standing::Off(OffBy::SelfFence { heard_at: last }) if heard_at != Some(last) => {
                Standing::Silent { since: heard_at.unwrap_or(last), reason: "another controller has heard of its agent".into() }
            }
            other => other,
        }
    }

    /// Returns the standing once an operator has forced the host down. A host that takes requests is asked itself. A host whose agent was heard
    /// of since, at `heard_at` by the records or when its silence began, may run guests again: the word is about an earlier time.
    pub fn forced_down(self, word: ForcedDown, heard_at: Option<DateTime<Utc>>) -> Standing {
        match self {
            Standing::Silent { since, .. } if word.holds_since(heard_at.map(|heard_at| heard_at.max(since))) => {
                Standing::Off(OffBy::Operator)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_turns_silence_into_off() {
        let silent = Standing::Silent { since: DateTime::UNIX_EPOCH, reason: "no connection".into() };
        assert!(!silent.is_up() && !silent.is_off());
        let word = ForcedDown { at: None };
        assert_eq!(silent.forced_down(word, None), Standing::Off(OffBy::Operator));
        assert_eq!(Standing::Up.forced_down(word, None), Standing::Up, "a host that answers is asked to stop its guests");
        assert_eq!(Standing::Off(OffBy::Host).forced_down(word, None), Standing::Off(OffBy::Host));
    }

    #[test]
    fn an_operators_word_ends_when_the_host_is_heard_again() {
        let at = |seconds| DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(seconds);
        let silent = || Standing::Silent { since: at(10), reason: "no connection".into() };
        let forced = |seconds| ForcedDown { at: Some(at(seconds)) };
        assert_eq!(silent().forced_down(forced(11), Some(at(5))), Standing::Off(OffBy::Operator));
        assert_eq!(silent().forced_down(forced(9), Some(at(5))), silent(), "it reported after the word");
        assert_eq!(silent().forced_down(forced(11), Some(at(12))), silent(), "it said hello after the word");
        assert_eq!(silent().forced_down(ForcedDown { at: None }, Some(at(5))), silent(), "the word is older than the agent");
    }

    #[test]
    fn a_promise_ends_with_the_word_that_it_was_about() {
        let at = |seconds| DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(seconds);
        let off = || Standing::Off(OffBy::SelfFence { heard_at: at(10) });
        assert_eq!(off().recorded(Some(at(10))), off());
        for renewed in [at(12), at(8)] {
            // The clocks of two controllers differ.
            assert!(matches!(off().recorded(Some(renewed)), Standing::Silent { since, .. } if since == renewed));
        }
        assert!(!off().recorded(None).is_off(), "the records of the agent are gone");
        assert_eq!(Standing::Off(OffBy::Host).recorded(None), Standing::Off(OffBy::Host));
        assert_eq!(Standing::Up.recorded(Some(at(1))), Standing::Up);
    }
}
