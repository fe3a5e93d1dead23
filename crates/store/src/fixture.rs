//! Databases for tests, of this crate and of those above it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use cellshift_env::{Blocking, Clock, Env, RandomIds};
use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;

use crate::connection::{self, Conn};
use crate::db::Db;
use crate::error::DbError;
use crate::migrations::{Migration, Migrations, Script};

/// Tables for this crate's own tests: some of the program's API database, because its triggers write what [`crate::mirror`] reads.
#[cfg(test)]
pub(crate) const TABLES: Migrations = crate::migrations! {
    "../../migrations/api":
    "2026-11-20-000011_catalogue" (up differs),
    "2026-11-27-000901_changes" (up and down differ),
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

/// Makes the change of the migration with this name, also in a database that has its version on record.
pub fn run_up(conn: &mut Conn, schema: impl Into<Migrations>, name: &str) -> Result<(), DbError> {
    run(conn, migration(schema.into(), name).up)
}

/// Undoes the change of the migration with this name, and leaves its version on record.
pub fn run_down(conn: &mut Conn, schema: impl Into<Migrations>, name: &str) -> Result<(), DbError> {
    run(conn, migration(schema.into(), name).down)
}

fn migration(schema: Migrations, name: &str) -> &'static Migration {
    schema.all().iter().find(|migration| migration.name == name).unwrap()
}

fn run(conn: &mut Conn, script: Script) -> Result<(), DbError> {
    let text = if conn.is_postgres() { script.on_postgres() } else { script.on_sqlite() };
    Ok(conn.batch_execute(text)?)
}

/// Checks that a folder has the files of the schema's migrations and no others, and that the schema begins with these versions, which the
/// databases of releases have on record.
pub fn check_migrations(schema: impl Into<Migrations>, folder: &str, released: &str) {
    let migrations = schema.into().all();
    let versions: Vec<String> = migrations.iter().map(Migration::version).collect();
    assert!(versions.is_sorted_by(|one, next| one < next), "diesel runs migrations in the order of their versions: {versions:?}");
    let released: Vec<&str> = released.split(' ').collect();
    assert_eq!(versions.get(..released.len()).unwrap_or_default(), released);
    let files: BTreeSet<String> = migrations.iter().flat_map(files_of).collect();
    assert_eq!(files_below(Path::new(folder)), files, "the files in the folder are those of the list");
}

/// Returns the files of a migration, seen from its schema's folder.
fn files_of(migration: &Migration) -> Vec<String> {
    let name = migration.name;
    let of_script = |direction: &str, script: Script| match script {
        Script::Shared(_) => vec![format!("{name}/{direction}.sql")],
        Script::Differing { sqlite, postgres } => {
            assert_ne!(sqlite, postgres, "{name} has one {direction}.sql");
            vec![format!("{name}/{direction}.sqlite.sql"), format!("{name}/{direction}.postgres.sql")]
        }
    };
    [of_script("up", migration.up), of_script("down", migration.down)].concat()
}

/// Returns the files in the folders of a folder, seen from it.
fn files_below(folder: &Path) -> BTreeSet<String> {
    let folders = entries(folder);
    folders.iter().flat_map(|name| entries(&folder.join(name)).into_iter().map(move |file| format!("{name}/{file}"))).collect()
}

/// Returns the names in a folder.
fn entries(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
