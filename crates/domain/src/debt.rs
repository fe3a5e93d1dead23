//! Debts: undos and clean-ups whose participant did not answer (INVARIANTS S5).

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// A debt that is not paid yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Debt {
    pub saga: Uuid,
    pub owed_seq: i64,
    pub server: Uuid,
    /// The kind of the saga that owes it.
    pub kind: String,
    /// The version of the kind's table in which the step stands.
    pub table_version: i32,
    pub step: String,
    pub side: String,
    pub context: String,
    pub reason: String,
    pub tries: i64,
    /// The participant answers and refuses, so an operator must look.
    pub needs_operator: bool,
    pub created_at: DateTime<Utc>,
}
