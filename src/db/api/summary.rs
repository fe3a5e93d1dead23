//! The numbers of what is in flight, owed and waiting, for operators.

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::dsl::{count_star, min};
use diesel::prelude::*;

use super::debts::debts;
use super::operations::{Operations, sagas};
use super::schema::instance_mappings as mappings;
use crate::db::DbError;
use crate::domain::saga_state::SagaState;

/// The numbers of operations in flight, of debts, and of waiting deletes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations that go forward.
    pub running: i64,
    /// Operations that go back.
    pub unwinding: i64,
    /// Operations that this release cannot go on with.
    pub needs_operator: i64,
    /// Debts that are tried again.
    pub debts_waiting: i64,
    /// Debts whose participant refuses.
    pub debts_need_operator: i64,
    pub oldest_debt: Option<DateTime<Utc>>,
    /// Deletes that wait for their cells.
    pub queued_deletes: i64,
}

impl Operations {
    /// Counts everything in one transaction.
    pub async fn summary(&self) -> Result<Summary, DbError> {
        self.db()
            .read(|conn| {
                let in_flight = sagas::table.filter(sagas::state.ne_all(SagaState::OVER)).group_by(sagas::state);
                let states: Vec<(String, i64)> = in_flight.select((sagas::state, count_star())).load(conn)?;
                // A state that this release does not know needs an operator.
                let of = |wanted: SagaState| -> i64 {
                    let state = |text: &str| SagaState::parse(text).unwrap_or(SagaState::NeedsOperator);
                    states.iter().filter(|(text, _)| state(text) == wanted).map(|(_, number)| number).sum()
                };
                let owed: Vec<(bool, i64)> =
                    debts::table.group_by(debts::needs_operator).select((debts::needs_operator, count_star())).load(conn)?;
                let owed_in = |wanted: bool| owed.iter().filter(|(state, _)| *state == wanted).map(|(_, number)| number).sum();
                let oldest: Option<NaiveDateTime> = debts::table.select(min(debts::created_at)).first(conn)?;
                let queued = mappings::table.filter(mappings::delete_request.is_not_null()).count().get_result(conn)?;
                Ok(Summary {
                    running: of(SagaState::Running),
                    unwinding: of(SagaState::Unwinding),
                    needs_operator: of(SagaState::NeedsOperator),
                    debts_waiting: owed_in(false),
                    debts_need_operator: owed_in(true),
                    oldest_debt: oldest.map(|oldest| oldest.and_utc()),
                    queued_deletes: queued,
                })
            })
            .await
    }
}
