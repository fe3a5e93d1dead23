//! The numbers of what is in flight, owed and waiting, for operators.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::drain::OpenDrains;
use crate::saga_record::UnknownTable;

/// The numbers of operations in flight, of debts, and of waiting deletes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations that go forward.
    pub running: i64,
    /// Operations that go back.
    pub unwinding: i64,
    /// Operations that this release cannot go on with.
    pub needs_operator: i64,
    /// Operations that wait for a release that knows their tables, by the table. They are in no other number.
    pub left_alone: BTreeMap<UnknownTable, i64>,
    /// Debts that wait for such a release, by the table. They are in no other number.
    pub debts_left_alone: BTreeMap<UnknownTable, i64>,
    /// Debts that are tried again.
    pub debts_waiting: i64,
    /// Debts whose participant refuses.
    pub debts_need_operator: i64,
    pub oldest_debt: Option<DateTime<Utc>>,
    /// Deletes that wait for their cells.
    pub queued_deletes: i64,
    /// Drains that have not ended.
    pub drains: OpenDrains,
}
