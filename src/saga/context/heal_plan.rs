//! The plan by which a server's allocation changes where it is: a heal makes one, and an attach or detach of an interface.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Amounts by provider and class.
pub type Amounts = BTreeMap<Uuid, BTreeMap<String, i64>>;

/// A server's allocation and its ports' keys, as they are and as they are to be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HealPlan {
    pub before: Amounts,
    pub after: Amounts,
    /// The `allocation` of each port's binding to the host.
    pub keys: BTreeMap<Uuid, (Option<Value>, Option<Value>)>,
}

impl HealPlan {
    /// True if something is to be changed.
    pub fn changes(&self) -> bool {
        self.before != self.after || self.keys.values().any(|(before, after)| before != after)
    }
}
