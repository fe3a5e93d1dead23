//! The kinds of sagas as words. The kinds themselves are made from the list of operations in `mod.rs`.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Kind;

impl Kind {
    /// Returns the word that journals, routes and metrics have.
    pub const fn as_str(self) -> &'static str {
        self.operation().word
    }

    /// Returns the kind of a word; none if this release has no such operation.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// Returns the kinds that take a server's guest to another host, or back to the host where it was.
    pub fn moves() -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(|kind| kind.operation().is_move)
    }
}

impl fmt::Display for Kind {
    /// Writes the word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    /// Stores the word.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        Kind::parse(&word).ok_or_else(|| D::Error::custom(format!("this release knows no operation {word:?}")))
    }
}
