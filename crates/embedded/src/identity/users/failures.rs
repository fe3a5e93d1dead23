//! Wrong passwords, counted per user over all processes.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::schema::users;

/// Returns the number of wrong passwords since the count began, and the moment of the last one.
pub fn of_user(conn: &mut Conn, user_id: &str) -> Result<(i32, Option<NaiveDateTime>), DbError> {
    let counted = users::table.find(user_id).select((users::failed_logins, users::last_failed_login));
    Ok(counted.first(conn).optional()?.unwrap_or_default())
}

/// Counts one more wrong password. Begins a new count if the last wrong password came before `since`.
pub fn count(conn: &mut Conn, user_id: &str, now: NaiveDateTime, since: NaiveDateTime) -> Result<(), DbError> {
    diesel::update(users::table.find(user_id).filter(users::last_failed_login.lt(since))).set(users::failed_logins.eq(0)).execute(conn)?;
    diesel::update(users::table.find(user_id))
        .set((users::failed_logins.eq(users::failed_logins + 1), users::last_failed_login.eq(Some(now))))
        .execute(conn)?;
    Ok(())
}

/// Resets the user's count. Writes nothing if the count is zero.
pub fn forget(conn: &mut Conn, user_id: &str) -> Result<(), DbError> {
    diesel::update(users::table.find(user_id).filter(users::failed_logins.gt(0)))
        .set((users::failed_logins.eq(0), users::last_failed_login.eq(None::<NaiveDateTime>)))
        .execute(conn)?;
    Ok(())
}
