//! The id of an aggregate, which is kept as its writer spelt it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A uuid with its spelling: with capitals or without, with dashes or without. Two spellings of one uuid are two aggregates of a
/// provider, as in Placement; whoever searches by a uuid finds both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AggregateId {
    text: String,
    id: Uuid,
}

impl AggregateId {
    /// Gives back a text that is no uuid.
    pub fn read(text: String) -> Result<AggregateId, String> {
        match Uuid::parse_str(&text) {
            Ok(id) => Ok(AggregateId { text, id }),
            Err(_) => Err(text),
        }
    }

    /// The uuid, however it is spelt.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// As it was written.
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
