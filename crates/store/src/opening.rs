//! Opens a database, now or later if it did not answer when the service started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_env::Blocking;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::claim::Claim;
use crate::connection::{self, Conn};
use crate::db::{POOL_SIZE, WriterMetrics};
use crate::error::DbError;
use crate::migrations::Migrations;
use crate::writer;

/// The longest wait for readers when a database is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// An opened database.
pub(crate) enum Access {
    /// A connection pool. On SQLite a single writer makes all writes.
    Pooled { pool: connection::Pool, permits: Arc<Semaphore>, writer: Option<writer::Writer> },
    /// A single in-memory SQLite connection, used directly on the caller's thread: a simulation.
    Inline { conn: Mutex<Conn> },
}

/// A database's place, schema and owner.
#[derive(Clone, Debug)]
pub struct Location {
    /// `postgres://…`, or a SQLite file's path.
    pub url: String,
    /// The migrations that make the database's schema.
    pub schema: Migrations,
    /// The claim of the database's owner; none for tests, which accept any database.
    pub owner: Option<Arc<dyn Claim>>,
}

/// A database that is open or will be opened.
pub(crate) struct Opening {
    location: Location,
    blocking: Blocking,
    access: OnceLock<Access>,
    /// The last try's error.
    failure: Mutex<Reason>,
    /// True once the service stops: calls are refused.
    closed: AtomicBool,
    metrics: WriterMetrics,
    /// Held by the caller that tries to open; the others wait.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Opening {
    pub(crate) fn new(location: Location, blocking: Blocking, metrics: WriterMetrics) -> Opening {
        let failure = Mutex::new("it has not been opened yet".into());
        Opening { location, blocking, access: OnceLock::new(), failure, closed: AtomicBool::new(false), metrics, turn: Arc::default() }
    }

    /// Returns the opened database, or the reason why it is not open.
    pub(crate) fn access(&self) -> Result<&Access, Reason> {
        if self.closed.load(Ordering::Acquire) {
            return Err("it is closed".into());
        }
        self.access.get().ok_or_else(|| self.failure.lock().clone())
    }

    /// Opens the database and brings its schema up to date, unless it is open. Blocks. Messages and the writer's thread use `name`.
    pub(crate) fn open(&self, name: &str) -> Result<(), DbError> {
        if self.access.get().is_some() {
            return Ok(());
        }
        match self.reach(name) {
            Ok(access) => {
                // A faster caller may have opened the same database.
                let _ = self.access.set(access);
                Ok(())
            }
            Err(error) => {
                let reason = match &error {
                    DbError::Unavailable { reason, .. } => reason.clone(),
                    other => reason!("{other}"),
                };
                *self.failure.lock() = reason;
                Err(error)
            }
        }
    }

    /// Refuses further calls and moves the log of a SQLite file into the file. Blocks while readers need the log, at most [`PATIENCE`].
    pub(crate) fn close(&self, name: &str) {
        // Services that share a file are closed at once: one of them empties its log.
        let was_closed = self.closed.swap(true, Ordering::AcqRel);
        let url = &self.location.url;
        if was_closed || self.access.get().is_none() || self.blocking == Blocking::Inline || connection::is_postgres(url) {
            return;
        }
        let emptied = connection::open(&connection::of_existing(url)).map(|mut conn| connection::empty_log(&mut conn, url, PATIENCE));
        if !emptied.is_ok_and(|emptied| emptied) {
            log::warn!("the last commits of {name} are in {url}-wal: this file belongs to {url}, keep the two together");
        }
    }

    fn reach(&self, name: &str) -> Result<Access, DbError> {
        let Location { url, schema, owner } = &self.location;
        if self.blocking == Blocking::Inline {
            return Ok(Access::Inline { conn: Mutex::new(connection::open_in_memory(*schema)?) });
        }
        let is_file = !connection::is_postgres(url);
        if let Some(owner) = owner {
            owner.check(url)?.map_err(|misfit| DbError::Unavailable {
                name: name.to_owned(),
                reason: Reason::inside(format!("{}: {misfit}", connection::url_without_password(url))),
            })?;
        }
        let pool = connection::open_pool(name, url, *schema, owner.as_deref(), POOL_SIZE)?;
        let writer = if is_file { Some(writer::Writer::start(name, url, &self.metrics)?) } else { None };
        Ok(Access::Pooled { pool, permits: Arc::new(Semaphore::new(POOL_SIZE as usize)), writer })
    }
}
