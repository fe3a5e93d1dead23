//! When the last operations of a kind were at work, to measure how long the next ones will take.

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::prelude::*;

use super::operations::{Operations, sagas};
use crate::db::DbError;
use crate::domain::saga_state::SagaState;

impl Operations {
    /// Returns the beginning and the end of the last `limit` operations of this kind that are done, newest first.
    pub async fn last_times(&self, kind: &'static str, limit: i64) -> Result<Vec<(DateTime<Utc>, DateTime<Utc>)>, DbError> {
        self.db()
            .read(move |conn| {
                let done = sagas::table
                    .filter(sagas::kind.eq(kind))
                    .filter(sagas::state.eq(SagaState::Done.as_str()))
                    .order((sagas::created_at.desc(), sagas::id.desc()))
                    .limit(limit)
                    .select((sagas::created_at, sagas::updated_at));
                let times: Vec<(NaiveDateTime, NaiveDateTime)> = done.load(conn)?;
                Ok(times.into_iter().map(|(began, ended)| (began.and_utc(), ended.and_utc())).collect())
            })
            .await
    }
}
