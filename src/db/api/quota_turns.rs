//! Turns: a commit that uses up a quota first takes the turn of the quota's holder. Two commits of one holder then run one after the other
//! on either database, and the second counts what the first used.

use diesel::prelude::*;

use super::ApiDb;
use crate::db::{Conn, DbError};

diesel::table! {
    quota_turns (holder) {
        holder -> Text,
        turns -> BigInt,
    }
}

impl ApiDb {
    /// Runs `work` in one commit, in the holder's turn.
    pub(super) async fn in_turn<T, F>(&self, holder: String, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: Fn(&mut Conn) -> Result<T, DbError> + Clone + Send + 'static,
    {
        let run = |holder: String, work: F| {
            self.db.write(move |conn| {
                take_turn(conn, &holder)?;
                work(conn)
            })
        };
        match run(holder.clone(), work.clone()).await {
            // Two commits inserted the holder's first turn at once. The row exists now, so try again.
            Err(DbError::Conflict(_)) => run(holder, work).await,
            other => other,
        }
    }
}

/// Forgets a holder that is gone.
pub(super) fn forget_turn(conn: &mut Conn, holder: &str) -> Result<(), DbError> {
    diesel::delete(quota_turns::table.find(holder)).execute(conn)?;
    Ok(())
}

/// Takes the holder's turn: other transactions wait for it until this one ends.
pub(super) fn take_turn(conn: &mut Conn, holder: &str) -> Result<(), DbError> {
    let raised = diesel::update(quota_turns::table.find(holder)).set(quota_turns::turns.eq(quota_turns::turns + 1)).execute(conn)?;
    if raised == 0 {
        diesel::insert_into(quota_turns::table).values((quota_turns::holder.eq(holder), quota_turns::turns.eq(1_i64))).execute(conn)?;
    }
    Ok(())
}
