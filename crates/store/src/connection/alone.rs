//! A transaction that excludes all others that make, mark or migrate the same database: of two starts at once, one waits for the other.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::prelude::*;
use diesel::sql_types::Bool;

use super::Conn;
use super::statements::Either;
use crate::DbError;

/// The number by which starts exclude each other, with that of the schema.
const START: i32 = 0x6365_6c6c;

impl Conn {
    /// Runs `work` in a transaction while no other process does the same with this database. Waits as long as another does.
    pub(super) fn alone<T>(&mut self, name: &str, work: impl FnOnce(&mut Conn) -> Result<T, DbError>) -> Result<T, DbError> {
        match &mut self.either {
            Either::Pg(conn) => {
                AnsiTransactionManager::begin_transaction(conn)?;
                exclude_others(conn, name)?;
            }
            // With the right to write from the beginning.
            Either::Sqlite(conn) => AnsiTransactionManager::begin_transaction_sql(conn, "BEGIN IMMEDIATE")?,
        }
        match work(self) {
            Ok(value) => {
                Conn::commit_transaction(self)?;
                Ok(value)
            }
            Err(error) => {
                // The first error is the reason.
                let _ = Conn::rollback_transaction(self);
                Err(error)
            }
        }
    }
}

/// Takes the lock of this database's schema until the transaction ends.
fn exclude_others(conn: &mut PgConnection, name: &str) -> Result<(), DbError> {
    let lock = format!("advisory_xact_lock({START}, hashtext(coalesce(current_schema(), '')))");
    let has_lock: bool = diesel::select(diesel::dsl::sql::<Bool>(&format!("pg_try_{lock}"))).get_result(conn)?;
    if !has_lock {
        log::info!("another process makes or migrates the database {name}: waiting for it");
        diesel::sql_query(format!("SELECT pg_{lock}")).execute(conn)?;
    }
    Ok(())
}
