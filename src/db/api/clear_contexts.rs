//! Older releases kept guests' passwords in clear text in sagas. A migration lists these sagas; the next start rewrites them.

use diesel::prelude::*;

use super::debts::debts;
use super::operations::{Operations, sagas};
use crate::db::DbError;
use crate::domain::saga_state::SagaState;

diesel::table! {
    clear_contexts (saga_id) {
        saga_id -> Text,
    }
}

/// The number of sagas that one transaction rewrites.
const BATCH: i64 = 100;

impl Operations {
    /// Rewrites the contexts of a batch of ended sagas, and of their debts, with `erase`. `erase` returns None for a text that it cannot
    /// read, and the text stays. False if no listed saga is left. A saga in flight is rewritten when it ends.
    pub async fn erase_clear_contexts(&self, erase: impl Fn(&str) -> Option<String> + Send + 'static) -> Result<bool, DbError> {
        self.db()
            .write(move |conn| {
                let waiting = clear_contexts::table.select(clear_contexts::saga_id).order(clear_contexts::saga_id).limit(BATCH);
                let ids: Vec<String> = waiting.load(conn)?;
                for id in &ids {
                    let over = sagas::table.find(id).filter(sagas::state.eq_any(SagaState::OVER));
                    let context: Option<String> = over.select(sagas::context).first(conn).optional()?;
                    if let Some(bare) = context.as_deref().and_then(&erase) {
                        diesel::update(sagas::table.find(id)).set(sagas::context.eq(bare)).execute(conn)?;
                    }
                    let owed: Vec<(i64, String)> =
                        debts::table.filter(debts::saga_id.eq(id)).select((debts::owed_seq, debts::context)).load(conn)?;
                    for (seq, context) in owed {
                        if let Some(bare) = erase(&context) {
                            diesel::update(debts::table.find((id, seq))).set(debts::context.eq(bare)).execute(conn)?;
                        }
                    }
                    diesel::delete(clear_contexts::table.find(id)).execute(conn)?;
                }
                conn.note_erasure();
                Ok(!ids.is_empty())
            })
            .await
    }

    /// True if a saga still has to be rewritten.
    pub async fn has_clear_contexts(&self) -> Result<bool, DbError> {
        self.db().read(|conn| Ok(clear_contexts::table.count().get_result::<i64>(conn)? > 0)).await
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::db::api::debts::NewDebt;
    use crate::db::api::operations::{Append, NewSaga};
    use crate::db::{Schema, fixture};

    #[tokio::test]
    async fn contexts_of_sagas_that_are_over_are_rewritten_once() {
        for db in fixture::databases(Schema::Api) {
            let operations = Operations::new(db);
            let (over, running) = (Uuid::from_u128(1), Uuid::from_u128(2));
            for saga in [over, running] {
                operations.begin(NewSaga::new(saga, saga, ("create", 1), "accept", "clear".into(), "me")).await.unwrap();
            }
            let owed = NewDebt { owed_seq: 1, step: "s".into(), side: "undo".into(), context: "clear".into(), reason: String::new() };
            let end = Append {
                saga: over,
                server: over,
                lease_epoch: 1,
                entries: vec![],
                state: SagaState::Unwound,
                step: "s".into(),
                context: None,
                error: None,
                begins: false,
                ends: true,
                owed: vec![owed],
                heeds_cancellation: false,
                follow_up: None,
            };
            operations.append(end).await.unwrap();
            for id in [over, running].map(|id| clear_contexts::saga_id.eq(id.to_string())) {
                let insert = move |conn: &mut crate::db::Conn| Ok(diesel::insert_into(clear_contexts::table).values(id).execute(conn)?);
                operations.db().write(insert).await.unwrap();
            }
            assert!(operations.has_clear_contexts().await.unwrap());
            let bare = |text: &str| (text == "clear").then(|| "bare".to_owned());
            assert!(operations.erase_clear_contexts(bare).await.unwrap());
            assert!(!operations.erase_clear_contexts(bare).await.unwrap());
            assert!(!operations.has_clear_contexts().await.unwrap());
            assert_eq!(operations.saga(over).await.unwrap().unwrap().context, "bare");
            assert_eq!(operations.debts(None).await.unwrap()[0].context, "bare");
            assert_eq!(operations.saga(running).await.unwrap().unwrap().context, "clear", "it needs them until its end");
        }
    }
}
