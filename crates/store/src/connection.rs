//! Opens databases of either kind behind one connection type and brings their schema up to date.
//!
//! A PostgreSQL server that goes away costs no thread: connecting and each statement have a deadline, and the network notices a dead peer.
//! A URL may set these itself. A server that is only stopped blocks at most [`crate::POOL_SIZE`] threads until it continues.

mod alone;
mod statements;
mod trust;

use std::collections::BTreeSet;
use std::time::Duration;

use cellshift_domain::reason::Reason;
use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::r2d2::{ConnectionManager, CustomizeConnection};
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, SqliteConnection};
use diesel_migrations::MigrationHarness;
use percent_encoding::{AsciiSet, utf8_percent_encode};

use crate::claim::Claim;
use crate::error::DbError;
use crate::migrations::{Migration, Migrations};
use statements::Either;
pub use statements::{Conn, MultiBackend};
use trust::Failures;

/// The ASCII characters with a meaning of their own in the path of a SQLite URI.
const SPECIAL_IN_PATH: AsciiSet = AsciiSet::EMPTY.add(b'%').add(b'?').add(b'#');

/// A pool of connections to either kind of database.
pub type Pool = diesel::r2d2::Pool<ConnectionManager<Conn>>;

/// URL settings that demand TLS.
const TLS_DEMANDED: [&str; 3] = ["sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"];

/// True if this build can meet the URL's demand: TLS needs the feature `tls`.
pub fn has_what_it_demands(url: &str) -> bool {
    cfg!(feature = "tls") || !TLS_DEMANDED.iter().any(|setting| url.contains(setting))
}

/// True for a PostgreSQL URL. Any other text is the path of a SQLite file.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// SQLite needs these settings on each connection. FULL: an acknowledged write survives a power cut. `secure_delete` overwrites deleted
/// data.
const SQLITE_SETTINGS: &str =
    "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;";

/// Makes SQLite write commits into a log beside the file.
const KEEP_LOG: &str = "PRAGMA journal_mode = WAL;";

/// Waits for whoever changes the file, and changes nothing.
const WAIT_FOR_WRITERS: &str = "BEGIN IMMEDIATE; COMMIT;";

/// The tries to give a file its log: each failed one means that another start has changed the file meanwhile.
const LOG_TRIES: usize = 100;

/// Moves the log's pages into the file and empties the log. If a reader needs the log for longer than the time-out, the log stays.
const EMPTY_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE);";

/// Time limits for a server that does not answer: `tcp_user_timeout` in milliseconds, the others in seconds.
const POSTGRES_SETTINGS: &[(&str, &str)] = &[
    ("connect_timeout", "3"),
    ("tcp_user_timeout", "10000"),
    ("keepalives_idle", "5"),
    ("keepalives_interval", "2"),
    ("keepalives_count", "3"),
];

/// The time limit of one statement. Migrations have no limit.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '30s'";

/// The longest wait for a connection. A connection is available at once unless the server refuses or does not answer.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(3);

/// Adds the settings that the URL does not set itself.
fn with_settings(url: &str) -> String {
    let said = |key: &str| url.contains(&format!("{key}="));
    let missing = POSTGRES_SETTINGS.iter().filter(|(key, _)| !said(key)).map(|(key, value)| format!("{key}={value}"));
    let missing = missing.collect::<Vec<_>>().join("&");
    match (missing.is_empty(), url.contains('?')) {
        (true, _) => url.to_owned(),
        (false, true) => format!("{url}&{missing}"),
        (false, false) => format!("{url}?{missing}"),
    }
}

/// Opens one connection, outside any pool.
pub fn open(url: &str) -> Result<Conn, DbError> {
    let unreachable = |e: diesel::ConnectionError| DbError::Unavailable { name: url_without_password(url), reason: Reason::inside(e) };
    if is_postgres(url) {
        // Otherwise OpenSSL would clean up when the process ends, while a pool's thread still opens a connection with it.
        #[cfg(feature = "tls")]
        openssl_sys::init();
        return Ok(Conn::new(Either::Pg(PgConnection::establish(&with_settings(url)).map_err(unreachable)?)));
    }
    let mut conn = SqliteConnection::establish(url).map_err(unreachable)?;
    conn.batch_execute(SQLITE_SETTINGS)?;
    Ok(Conn::new(Either::Sqlite(conn)))
}

/// Opens a read-only connection. It leaves even the files beside a SQLite file unchanged, unless a killed process left commits there that
/// must be read.
pub fn open_to_look(url: &str) -> Result<Conn, DbError> {
    if is_postgres(url) {
        let mut conn = open(url)?;
        conn.batch_execute(STATEMENT_TIMEOUT)?;
        conn.batch_execute("SET default_transaction_read_only = on")?;
        return Ok(conn);
    }
    let settings = if has_log(url) { "mode=ro" } else { "mode=ro&immutable=1" };
    let unreachable = |e: diesel::ConnectionError| DbError::Unavailable { name: url.to_owned(), reason: Reason::inside(e) };
    let mut conn = SqliteConnection::establish(&file_with(url, settings)).map_err(unreachable)?;
    conn.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA query_only = ON;")?;
    Ok(Conn::new(Either::Sqlite(conn)))
}

/// Returns the URI of a SQLite file with settings.
fn file_with(path: &str, settings: &str) -> String {
    let absolute = std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned());
    format!("file:{}?{settings}", utf8_percent_encode(&absolute, &SPECIAL_IN_PATH))
}

/// Returns the URL for further connections. They fail if someone has removed the file, instead of creating a new one.
pub fn of_existing(url: &str) -> String {
    if is_postgres(url) { with_settings(url) } else { file_with(url, "mode=rw") }
}

/// Returns the names of all tables in the database.
pub fn tables(conn: &mut Conn) -> Result<BTreeSet<String>, DbError> {
    let of_postgres = "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema()";
    let of_sqlite = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let rows: Vec<TableName> = match &mut conn.either {
        Either::Pg(conn) => diesel::sql_query(of_postgres).load(conn)?,
        Either::Sqlite(conn) => diesel::sql_query(of_sqlite).load(conn)?,
    };
    Ok(rows.into_iter().map(|row| row.name).collect())
}

#[derive(QueryableByName)]
struct TableName {
    #[diesel(sql_type = diesel::sql_types::Text)]
    name: String,
}

impl Conn {
    /// Notes that this transaction erases secrets, so that the log is emptied after the commit.
    pub fn note_erasure(&mut self) {
        self.erased = true;
    }

    /// Returns and clears the note of [`Conn::note_erasure`].
    pub(crate) fn take_erasure(&mut self) -> bool {
        std::mem::take(&mut self.erased)
    }
}

/// Empties the log of a SQLite file, because the log keeps the former contents of pages. Waits for readers at most `patience`; false if
/// one still needs the log.
pub(crate) fn empty_log(conn: &mut Conn, file: &str, patience: Duration) -> bool {
    if let Either::Sqlite(conn) = &mut conn.either {
        let emptied = conn.batch_execute(&format!("PRAGMA busy_timeout = {}; {EMPTY_LOG}", patience.as_millis()));
        if let Err(error) = conn.batch_execute(SQLITE_SETTINGS).and(emptied) {
            log::debug!("the log of {file} cannot be emptied yet: {error}");
            return false;
        }
    }
    !has_log(file)
}

/// True if commits of a SQLite file are still in the log beside it.
pub fn has_log(file: &str) -> bool {
    std::fs::metadata(format!("{file}-wal")).is_ok_and(|log| log.len() > 0)
}

/// Makes a fresh database that lives as long as its connection.
pub fn open_in_memory(schema: Migrations) -> Result<Conn, DbError> {
    let mut conn = open(":memory:")?;
    migrate(&mut conn, schema)?;
    Ok(conn)
}

/// Notes the owner's claim in the database, migrates the database, and opens a pool of at most `size` connections.
pub fn open_pool(name: &str, url: &str, schema: impl Into<Migrations>, owner: Option<&dyn Claim>, size: u32) -> Result<Pool, DbError> {
    let mut first = open(url)?;
    if let Either::Sqlite(conn) = &mut first.either {
        // Once, before the pool opens: connections that set the mode concurrently lock each other out.
        keep_log(conn)?;
    }
    let schema = schema.into();
    first.alone(name, |conn| prepare(conn, schema, owner))?;
    drop(first);
    Pool::builder()
        .max_size(size)
        // A spare would cost a server a process for each database, and a connection is made in milliseconds.
        .min_idle(Some(0))
        .connection_timeout(CONNECTION_PATIENCE)
        // Only a server can go away between two calls; a file cannot.
        .test_on_check_out(is_postgres(url))
        .connection_customizer(Box::new(Settings {
            statements_are_bound: url.contains("statement_timeout"),
            failures: Failures::default(),
        }))
        .build(ConnectionManager::new(of_existing(url)))
        .map_err(|e| DbError::Unavailable { name: name.to_owned(), reason: Reason::inside(e) })
}

/// Makes a database its owner's and brings it up to date.
fn prepare(conn: &mut Conn, schema: Migrations, owner: Option<&dyn Claim>) -> Result<(), DbError> {
    if let Some(owner) = owner {
        owner.note(conn)?;
    }
    migrate(conn, schema)?;
    owner.map_or(Ok(()), |owner| owner.renew(conn))
}

/// Gives a SQLite file its log. SQLite does not wait when another start changes the same file at this moment, so this function waits.
fn keep_log(conn: &mut SqliteConnection) -> Result<(), DbError> {
    for _ in 1..LOG_TRIES {
        if conn.batch_execute(KEEP_LOG).is_ok() {
            return Ok(());
        }
        conn.batch_execute(WAIT_FOR_WRITERS)?;
    }
    Ok(conn.batch_execute(KEEP_LOG)?)
}

/// Brings the schema up to date. Refuses a schema with migrations that this release does not know.
fn migrate(conn: &mut Conn, schema: Migrations) -> Result<(), DbError> {
    let migrated = match &mut conn.either {
        Either::Pg(conn) => migrate_with(conn, schema),
        Either::Sqlite(conn) => migrate_with(conn, schema),
    };
    migrated.map_err(|error| {
        let refuses_writes = matches!(
            error.downcast_ref(),
            Some(diesel::result::Error::DatabaseError(diesel::result::DatabaseErrorKind::ReadOnlyTransaction, _))
        );
        // Asks the database, to tell a database that went away from a wrong schema.
        match refuses_writes || look(conn).is_err() {
            true => DbError::Unavailable { name: String::new(), reason: Reason::inside(error) },
            false => DbError::Defect(format!("the schema cannot be brought up to date: {error}")),
        }
    })
}

/// Reads a table that every database has: a connection alone says nothing about a file.
pub fn look(conn: &mut Conn) -> Result<(), DbError> {
    let table = match &conn.either {
        Either::Pg(_) => "pg_class",
        Either::Sqlite(_) => "sqlite_master",
    };
    Ok(conn.batch_execute(&format!("SELECT 1 FROM {table} LIMIT 1"))?)
}

type MigrationError = Box<dyn std::error::Error + Send + Sync>;

fn migrate_with<B, C>(conn: &mut C, schema: Migrations) -> Result<(), MigrationError>
where
    B: diesel::backend::Backend,
    C: MigrationHarness<B>,
    Migrations: MigrationSource<B>,
{
    let versions: BTreeSet<String> = schema.all().iter().map(Migration::version).collect();
    let newer = conn.applied_migrations()?.into_iter().map(|version| version.to_string()).find(|version| !versions.contains(version));
    if let Some(version) = newer {
        return Err(format!("it has been changed by a newer release ({version})").into());
    }
    conn.run_pending_migrations(schema)?;
    Ok(())
}

#[derive(Debug)]
struct Settings {
    /// The URL sets the statement timeout.
    statements_are_bound: bool,
    failures: Failures,
}

impl CustomizeConnection<Conn, diesel::r2d2::Error> for Settings {
    fn on_acquire(&self, conn: &mut Conn) -> Result<(), diesel::r2d2::Error> {
        conn.join(&self.failures);
        match &mut conn.either {
            Either::Sqlite(conn) => conn.batch_execute(SQLITE_SETTINGS).map_err(diesel::r2d2::Error::QueryError),
            Either::Pg(_) if self.statements_are_bound => Ok(()),
            Either::Pg(conn) => conn.batch_execute(STATEMENT_TIMEOUT).map_err(diesel::r2d2::Error::QueryError),
        }
    }
}

/// Returns the URL for messages, without its password.
pub(crate) fn url_without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://{}", place.split('?').next().unwrap_or_default()),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gets_the_settings_that_it_does_not_say() {
        let whole = with_settings("postgres://me@db/cell1");
        assert!(whole.starts_with("postgres://me@db/cell1?connect_timeout=3&tcp_user_timeout=10000&keepalives_idle=5&"), "{whole}");
        let some = with_settings("postgres://me@db/cell1?connect_timeout=9");
        assert!(some.starts_with("postgres://me@db/cell1?connect_timeout=9&tcp_user_timeout=10000"), "{some}");
        assert_eq!(with_settings(&whole), whole);
    }
}
