//! Databases for tests, of this crate and of those above it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use cellshift_env::{Blocking, Clock, Env, RandomIds};
use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;

use crate::connection::{self, Conn, Migrations};
use crate::db::Db;
use crate::error::DbError;

/// Tables for this crate's own tests: the program's API database, because its triggers write what [`crate::mirror`] reads.
#[cfg(test)]
pub(crate) const TABLES: Migrations = {
    use diesel_migrations::{EmbeddedMigrations, embed_migrations};
    const POSTGRES: EmbeddedMigrations = embed_migrations!("../../migrations/api/postgres");
    const SQLITE: EmbeddedMigrations = embed_migrations!("../../migrations/api/sqlite");
    Migrations { postgres: || POSTGRES, sqlite: || SQLITE }
};

/// The database of this process's tests. Each has a schema of its own in it, which PostgreSQL makes much faster than a database.
static DATABASE: LazyLock<Option<String>> = LazyLock::new(|| {
    let server = std::env::var("CELLSHIFT_TEST_POSTGRES").ok()?;
    let name = format!("test_{}", Env::system().uuid().simple());
    connection::open(&server).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    let (address, _) = server.rsplit_once('/').unwrap();
    Some(format!("{address}/{name}"))
});

/// Makes an empty place for the tables of one database on the PostgreSQL server that `CELLSHIFT_TEST_POSTGRES` names, and returns its URL.
/// None if the variable is not set.
pub fn fresh_postgres() -> Option<String> {
    let database = DATABASE.as_ref()?;
    let schema = format!("test_{}", Env::system().uuid().simple());
    connection::open(database).unwrap().batch_execute(&format!("CREATE SCHEMA {schema}")).unwrap();
    Some(format!("{database}?options=-csearch_path%3D{schema}"))
}

/// Opens a database of each available kind: SQLite in memory, and [`fresh_postgres`]. Each reading of their clock moves it forward by a
/// second.
pub fn databases(schema: impl Into<Migrations>) -> Vec<Db> {
    let schema = schema.into();
    let env = |blocking| Env::new(Arc::new(Ticking(AtomicI64::new(0))), Arc::new(RandomIds), blocking);
    let mut databases = vec![Db::open("memory", "", schema, &env(Blocking::Inline)).unwrap()];
    if let Some(url) = fresh_postgres() {
        databases.push(Db::open("postgres", &url, schema, &env(Blocking::Pool)).unwrap());
    }
    databases
}

struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(10_000) + TimeDelta::seconds(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Makes a fresh database of this name and its environment: on PostgreSQL if `CELLSHIFT_TEST_POSTGRES` is set, else in memory.
pub fn database(name: &str, schema: impl Into<Migrations>, clock: Arc<dyn Clock>) -> (Env, Db) {
    let (blocking, url) = match fresh_postgres() {
        Some(url) => (Blocking::Pool, url),
        None => (Blocking::Inline, String::new()),
    };
    let env = Env::new(clock, Arc::new(RandomIds), blocking);
    let db = Db::open(name, &url, schema, &env).unwrap();
    (env, db)
}

/// Returns each kind of error that contains a database's own message, which names a constraint, a table and a file.
pub fn errors_from_inside() -> Vec<DbError> {
    use diesel::result::{DatabaseErrorKind as Kind, Error as DieselError};
    let words = || "UNIQUE constraint failed: ports.mac in /var/lib/x.db".to_owned();
    let kinds = [Kind::UniqueViolation, Kind::ForeignKeyViolation, Kind::NotNullViolation, Kind::CheckViolation, Kind::Unknown];
    let refused = kinds.into_iter().map(|kind| DieselError::DatabaseError(kind, Box::new(words())).into());
    let others = [
        DieselError::BrokenTransactionManager.into(),
        DieselError::QueryBuilderError(words().into()).into(),
        DbError::Defect(words()),
        DbError::unreadable("ports.mac", &words()),
    ];
    refused.chain(others).collect()
}

/// Runs the statements of a migration.
pub fn run_sql(conn: &mut Conn, sql: &str) -> Result<(), DbError> {
    Ok(conn.batch_execute(sql)?)
}
