//! The numbers of what is in flight, owed and waiting, for operators.

use std::collections::BTreeMap;

use chrono::NaiveDateTime;
use diesel::dsl::{count_star, min};
use diesel::prelude::*;

use super::debts::debts;
use super::drains::driver;
use super::operations::{Operations, sagas};
use super::schema::instance_mappings as mappings;
use crate::db::{Conn, DbError};
use crate::domain::saga_record::UnknownTable;
use crate::domain::saga_state::SagaState;
use crate::domain::summary::Summary;

/// Counts the debts that need an operator and the others, by the table in which they stand.
fn owed(conn: &mut Conn) -> Result<Vec<(bool, String, i32, i64)>, DbError> {
    let by_table = (debts::needs_operator, sagas::kind, sagas::table_version);
    let of_sagas = debts::table.inner_join(sagas::table.on(sagas::id.eq(debts::saga_id))).group_by(by_table);
    Ok(of_sagas.select((debts::needs_operator, sagas::kind, sagas::table_version, count_star())).load(conn)?)
}

/// Adds up the numbers of each table.
fn sums(counts: impl Iterator<Item = (String, i32, i64)>) -> BTreeMap<UnknownTable, i64> {
    let mut sums = BTreeMap::new();
    for (kind, version, number) in counts {
        *sums.entry(UnknownTable { kind, version }).or_default() += number;
    }
    sums
}

impl Operations {
    /// Counts everything in one transaction.
    pub async fn summary(&self) -> Result<Summary, DbError> {
        let knows_table = self.knows_table;
        self.db()
            .read(move |conn| {
                let by_table = (sagas::state, sagas::kind, sagas::table_version);
                let in_flight = sagas::table.filter(sagas::state.ne_all(SagaState::OVER)).group_by(by_table);
                let in_flight: Vec<(String, String, i32, i64)> =
                    in_flight.select((sagas::state, sagas::kind, sagas::table_version, count_star())).load(conn)?;
                let (states, others): (Vec<_>, Vec<_>) =
                    in_flight.into_iter().partition(|(_, kind, version, _)| knows_table(kind, *version));
                let left_alone = sums(others.into_iter().map(|(_, kind, version, number)| (kind, version, number)));
                // A state that this release does not know needs an operator.
                let of = |class: SagaState| -> i64 {
                    let state = |text: &str| SagaState::parse(text).unwrap_or(SagaState::NeedsOperator);
                    states.iter().filter(|(text, ..)| state(text) == class).map(|(.., number)| number).sum()
                };
                let (owed, others): (Vec<_>, Vec<_>) =
                    owed(conn)?.into_iter().partition(|(_, kind, version, _)| knows_table(kind, *version));
                let debts_left_alone = sums(others.into_iter().map(|(_, kind, version, number)| (kind, version, number)));
                let owed_in =
                    |needs_operator: bool| owed.iter().filter(|(state, ..)| *state == needs_operator).map(|(.., number)| number).sum();
                let oldest: Option<NaiveDateTime> = debts::table.select(min(debts::created_at)).first(conn)?;
                let queued = mappings::table.filter(mappings::delete_request.is_not_null()).count().get_result(conn)?;
                Ok(Summary {
                    running: of(SagaState::Running),
                    unwinding: of(SagaState::Unwinding),
                    needs_operator: of(SagaState::NeedsOperator),
                    left_alone,
                    debts_left_alone,
                    debts_waiting: owed_in(false),
                    debts_need_operator: owed_in(true),
                    oldest_debt: oldest.map(|oldest| oldest.and_utc()),
                    queued_deletes: queued,
                    drains: driver::numbers_of(&driver::open(conn)?),
                })
            })
            .await
    }
}
