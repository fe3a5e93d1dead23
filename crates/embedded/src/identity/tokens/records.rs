//! Single tokens that were revoked. A valid token needs no record.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::schema::revoked_tokens;

/// Revokes a token by its audit id, and removes the records of tokens that have expired by `now`. Succeeds if it is revoked already.
pub fn revoke(conn: &mut Conn, audit_id: &str, expires_at: NaiveDateTime, now: NaiveDateTime) -> Result<(), DbError> {
    diesel::delete(revoked_tokens::table.filter(revoked_tokens::expires_at.lt(now))).execute(conn)?;
    if !is_revoked(conn, audit_id)? {
        diesel::insert_into(revoked_tokens::table)
            .values((revoked_tokens::audit_id.eq(audit_id), revoked_tokens::expires_at.eq(expires_at)))
            .execute(conn)?;
    }
    Ok(())
}

/// True if the token with this audit id is revoked.
pub fn is_revoked(conn: &mut Conn, audit_id: &str) -> Result<bool, DbError> {
    Ok(diesel::select(diesel::dsl::exists(revoked_tokens::table.find(audit_id))).get_result(conn)?)
}
