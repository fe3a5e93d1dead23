//! The single row about all accounts: their revision, whether the first accounts were made, and the key of stored credentials.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use super::schema::identity_state;

/// Raises the revision. Changes take turns at this row until they commit, so that each change can rely on its checks.
pub fn advance(conn: &mut Conn) -> Result<(), DbError> {
    let raised = diesel::update(identity_state::table).set(identity_state::revision.eq(identity_state::revision + 1)).execute(conn)?;
    match raised {
        1 => Ok(()),
        _ => Err(DbError::Defect("identity_state does not hold its one row".into())),
    }
}

/// Returns the revision of the last change.
pub fn revision(conn: &mut Conn) -> Result<i64, DbError> {
    Ok(identity_state::table.select(identity_state::revision).first(conn)?)
}

/// Writes the row unchanged: takes as long as a real change, and changes nothing.
pub fn rewrite(conn: &mut Conn) -> Result<(), DbError> {
    diesel::update(identity_state::table).set(identity_state::accounts_made.eq(identity_state::accounts_made)).execute(conn)?;
    Ok(())
}

/// True once the first accounts were made, even if they were deleted later.
pub fn accounts_made(conn: &mut Conn) -> Result<bool, DbError> {
    Ok(identity_state::table.select(identity_state::accounts_made).first(conn)?)
}

/// Records that the first accounts were made.
pub fn note_accounts_made(conn: &mut Conn) -> Result<(), DbError> {
    diesel::update(identity_state::table).set(identity_state::accounts_made.eq(true)).execute(conn)?;
    Ok(())
}

/// Returns the sealed key that seals stored credentials, once it was made.
pub fn credential_key(conn: &mut Conn) -> Result<Option<String>, DbError> {
    Ok(identity_state::table.select(identity_state::credential_key).first(conn)?)
}

/// Stores the key that seals stored credentials in place of the one that was seen. False if another process has changed it meanwhile.
pub fn replace_credential_key(conn: &mut Conn, seen: Option<&str>, sealed: &str) -> Result<bool, DbError> {
    let change = diesel::update(identity_state::table).set(identity_state::credential_key.eq(sealed));
    let changed = match seen {
        Some(seen) => change.filter(identity_state::credential_key.eq(seen)).execute(conn)?,
        None => change.filter(identity_state::credential_key.is_null()).execute(conn)?,
    };
    Ok(changed == 1)
}
