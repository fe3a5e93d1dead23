//! The names of all subjects. Each begins with `cellshift.CELL`, so that one NATS server can carry several cells.
//!
//! | subject | sent by | received by |
//! |---|---|---|
//! | `cellshift.CELL.host.NAME.LIFE.request`, `….query` | controllers | the agent with that life |
//! | `cellshift.CELL.hello.NAME` | the agent | one controller, which answers |
//! | `cellshift.CELL.report.NAME` | the agent | every controller |
//! | `cellshift.CELL.ask.NAME` | the agent | one controller, which answers |
//! | `cellshift.CELL.roll` | a controller | every agent, which reports |
//! | `cellshift.CELL.inbox.host.NAME.…` | controllers | the agent, for answers |
//! | `cellshift.CELL.inbox.controllers.…` | agents, when they were asked | controllers, for replies |
//!
//! The agent's name is a part of what it publishes to, so the server's permissions keep an agent from speaking as another.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The maximum length of a name in bytes. A subject has at most two names, and NATS takes 4096 bytes for a line of its protocol.
const NAME_MAX: usize = 255;
/// The character that stands for a dot of a name. Names cannot contain it.
const DOT: &str = "~";

/// The queue group of all controllers of a cell: one of them gets each message.
pub const CONTROLLERS: &str = "controllers";

/// The reason why a text cannot be the name of a cell or a host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} cannot be the name of a cell or a host on NATS: it must have 1 to {NAME_MAX} ASCII letters, digits, dots, hyphens and underscores"
)]
pub struct NameError(String);

/// The name of a cell or a host that can be a part of a subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// Checks a name from the configuration.
    pub fn parse(text: &str) -> Result<Name, NameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_allowed) {
            true => Ok(Name(text.to_owned())),
            false => Err(NameError(text.to_owned())),
        }
    }

    /// Returns the name as the configuration has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part of a subject: NATS takes a dot for the end of a part.
    fn token(&self) -> String {
        self.0.replace('.', DOT)
    }

    fn of_token(token: &str) -> Option<Name> {
        Name::parse(&token.replace(DOT, ".")).ok()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of one life of an agent, from the start of its process to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Life(Uuid);

impl Life {
    /// Makes a life of a new id.
    pub fn new(id: Uuid) -> Life {
        Life(id)
    }

    /// Returns the id.
    pub fn id(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// A cell on its NATS server, with the subjects that controllers use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellAddress {
    /// The cell's name.
    pub cell: Name,
}

impl CellAddress {
    /// Makes the address of a cell.
    pub fn new(cell: Name) -> CellAddress {
        CellAddress { cell }
    }

    /// Returns the address of a host of the cell.
    pub fn host(&self, host: Name) -> HostAddress {
        HostAddress { cell: self.clone(), host }
    }

    /// Returns the subjects of all hellos.
    pub fn hellos(&self) -> String {
        self.subject("hello.*")
    }

    /// Returns the subjects of all reports.
    pub fn reports(&self) -> String {
        self.subject("report.*")
    }

    /// Returns the subjects of all questions of agents.
    pub fn questions(&self) -> String {
        self.subject("ask.*")
    }

    /// Returns the subject by which a controller asks all agents for their reports.
    pub fn roll_call(&self) -> String {
        self.subject("roll")
    }

    /// Returns the subjects of all requests and queries to agents.
    pub fn to_hosts(&self) -> String {
        self.subject("host.>")
    }

    /// Returns the subjects of all answers to agents.
    pub fn answers_to_hosts(&self) -> String {
        self.subject("inbox.host.>")
    }

    /// Returns the beginning of the subjects of replies to controllers.
    pub fn inbox(&self) -> String {
        self.subject("inbox.controllers")
    }

    /// Returns the host that published to this subject of hellos, reports or questions; none if no host can have done that.
    pub fn sender(subject: &str) -> Option<Name> {
        Name::of_token(subject.rsplit('.').next()?)
    }

    fn subject(&self, rest: &str) -> String {
        format!("cellshift.{}.{rest}", self.cell.token())
    }
}

/// A host of a cell, with the subjects that its agent uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// The host's cell.
    pub cell: CellAddress,
    /// The host's name.
    pub host: Name,
}

impl HostAddress {
    /// Returns the subject of requests to this life.
    pub fn requests(&self, life: Life) -> String {
        self.subject("host", &format!(".{life}.request"))
    }

    /// Returns the subject of queries to this life.
    pub fn queries(&self, life: Life) -> String {
        self.subject("host", &format!(".{life}.query"))
    }

    /// Returns the subjects of all messages to any life of the agent.
    pub fn to_any_life(&self) -> String {
        self.subject("host", ".*.*")
    }

    /// Returns the subject of the agent's hellos.
    pub fn hello(&self) -> String {
        self.subject("hello", "")
    }

    /// Returns the subject of the agent's reports.
    pub fn report(&self) -> String {
        self.subject("report", "")
    }

    /// Returns the subject of the agent's questions.
    pub fn question(&self) -> String {
        self.subject("ask", "")
    }

    /// Returns the beginning of the subjects of answers to the agent.
    pub fn inbox(&self) -> String {
        self.subject("inbox.host", "")
    }

    fn subject(&self, class: &str, rest: &str) -> String {
        self.cell.subject(&format!("{class}.{}{rest}", self.host.token()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cell: &str, name: &str) -> HostAddress {
        CellAddress::new(Name::parse(cell).unwrap()).host(Name::parse(name).unwrap())
    }

    #[test]
    fn a_name_with_dots_is_one_part_of_a_subject() {
        let host = host("cell.1", "node-7.example.org");
        let life = Life::new(Uuid::from_u128(0xab));
        assert_eq!(host.requests(life), "cellshift.cell~1.host.node-7~example~org.000000000000000000000000000000ab.request");
        assert_eq!(host.queries(life), "cellshift.cell~1.host.node-7~example~org.000000000000000000000000000000ab.query");
        assert_eq!(host.to_any_life(), "cellshift.cell~1.host.node-7~example~org.*.*");
        assert_eq!(host.hello(), "cellshift.cell~1.hello.node-7~example~org");
        assert_eq!(host.inbox(), "cellshift.cell~1.inbox.host.node-7~example~org");
    }

    #[test]
    fn the_sender_is_read_from_the_subject() {
        for name in ["h1", "node-7.example.org", "a_b", ".", "controllers"] {
            let host = host("c", name);
            for subject in [host.hello(), host.report(), host.question()] {
                assert_eq!(CellAddress::sender(&subject), Some(host.host.clone()), "{subject}");
            }
        }
        for subject in ["", "cellshift.c.hello.", "cellshift.c.hello.a b", "cellshift.c.hello.*"] {
            assert_eq!(CellAddress::sender(subject), None, "{subject}");
        }
    }

    #[test]
    fn two_names_never_share_a_subject() {
        let names = ["a.b", "a-b", "a_b", "ab", "a..b"];
        let subjects: std::collections::BTreeSet<String> = names.iter().map(|name| host("c", name).hello()).collect();
        assert_eq!(subjects.len(), names.len());
    }

    #[test]
    fn a_name_that_nats_would_misread_is_refused() {
        let long = "x".repeat(NAME_MAX + 1);
        for wrong in ["", "*", ">", "a b", "a~b", "h\n1", "größe", "a/b", "a$b", &long] {
            let refusal = Name::parse(wrong).unwrap_err().to_string();
            assert!(refusal.contains("cannot be the name of a cell or a host on NATS"), "{refusal}");
        }
        assert!(Name::parse(&long[1..]).is_ok());
    }
}
