//! Moments of a database's own clock. On PostgreSQL several machines write leases, and their clocks may differ, so the server's clock decides.
//! A SQLite file is written on one machine, whose clock decides.

use cellshift_env::Env;
use chrono::{NaiveDateTime, TimeDelta};
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::{Double, Timestamp};

use crate::columns::Multi;
use crate::{Conn, DbError};

/// A moment before or after the present, as an expression of a statement.
#[derive(Clone, Copy, Debug, QueryId)]
pub struct ClockTime {
    /// The moment by this machine's clock.
    ours: NaiveDateTime,
    /// Seconds from the present.
    after: f64,
}

impl ClockTime {
    /// Returns the present.
    pub fn now(env: &Env) -> ClockTime {
        ClockTime::after(env, TimeDelta::zero())
    }

    /// Returns the moment so long after the present; before it if the span is negative.
    pub fn after(env: &Env, span: TimeDelta) -> ClockTime {
        let ours = env.now().naive_utc().checked_add_signed(span).unwrap_or(NaiveDateTime::MAX);
        // A lease of years ends no sooner than one of a year.
        ClockTime { ours, after: span.num_microseconds().map_or(f64::MAX, |micros| micros as f64 / 1e6).min(1e8) }
    }

    /// Returns the seconds from the present, for a statement that PostgreSQL alone gets.
    pub fn seconds(self) -> f64 {
        self.after
    }

    /// Asks the database for the moment.
    pub fn read(self, conn: &mut Conn) -> Result<NaiveDateTime, DbError> {
        Ok(diesel::select(self).get_result(conn)?)
    }
}

impl Expression for ClockTime {
    type SqlType = Timestamp;
}

impl<Table> AppearsOnTable<Table> for ClockTime {}

impl<Table> SelectableExpression<Table> for ClockTime {}

impl<GroupBy> ValidGrouping<GroupBy> for ClockTime {
    type IsAggregate = is_aggregate::Never;
}

impl QueryFragment<Multi> for ClockTime {
    fn walk_ast<'b>(&'b self, mut pass: AstPass<'_, 'b, Multi>) -> QueryResult<()> {
        match pass.backend() {
            Multi::Pg(_) => {
                pass.push_sql("(clock_timestamp() AT TIME ZONE 'UTC' + ");
                pass.push_bind_param::<Double, _>(&self.after)?;
                pass.push_sql(" * INTERVAL '1 second')");
            }
            Multi::Sqlite(_) => pass.push_bind_param::<Timestamp, _>(&self.ours)?,
        }
        Ok(())
    }
}
