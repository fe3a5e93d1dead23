//! An aggregate's id, which keeps its writer's spelling.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A uuid with its spelling: upper or lower case, with or without dashes. Two spellings of one uuid are two aggregates of a provider, as in
/// Placement; a search for the uuid finds both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AggregateId {
    text: String,
    id: Uuid,
}

impl AggregateId {
    /// Parses a uuid. Returns the text if it is none.
    pub fn read(text: String) -> Result<AggregateId, String> {
        match Uuid::parse_str(&text) {
            Ok(id) => Ok(AggregateId { text, id }),
            Err(_) => Err(text),
        }
    }

    /// Returns the uuid, without its spelling.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns the text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for AggregateId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<AggregateId, &'static str> {
        AggregateId::read(text).map_err(|_| "an aggregate's id is a uuid")
    }
}

impl From<AggregateId> for String {
    fn from(aggregate: AggregateId) -> String {
        aggregate.text
    }
}
