//! Databases: one [`Db`] per schema and place (the API's, one per cell, the embedded services'), on SQLite or PostgreSQL.
//!
//! `connection` opens either kind, `deployment` checks a database's owner, `writer` groups SQLite's commits, and `fence` refuses late
//! effects. `api`, `cell` and `services` hold the records, one file per aggregate. Each call of a [`Db`] is one transaction, runs where
//! blocking work belongs, and is answered only after its commit.

pub mod api;
pub mod cell;
mod clock;
pub mod columns;
pub mod connection;
pub mod deployment;
pub mod error;
pub mod fence;
#[cfg(test)]
pub mod fixture;
mod opening;
pub mod place;
pub mod retention;
pub mod services;
mod writer;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use diesel::Connection;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

use crate::domain::fence::Fence;
use crate::domain::inside;
use crate::env::{Env, erased};
pub use connection::{Conn, Schema};
pub use error::DbError;
pub use opening::Location;
use opening::{Access, Opening};

/// The maximum number of connections to one database. Further calls wait without a thread, so a database that hangs keeps at most this many
/// threads of the blocking pool, even after callers have given up.
pub const POOL_SIZE: u32 = 8;

/// A database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    /// Dropped before `env`: once no environment is held any more, nothing writes.
    opening: Arc<Opening>,
    env: Env,
    outage: AtomicU8,
    /// The number of further calls that the outage affects.
    spoils: AtomicU32,
    /// The number of writes through this handle.
    writes: AtomicU64,
    /// Notified when the outage changes.
    changed: Notify,
    counters: Arc<Counters>,
}

/// The calls through all handles of a database.
#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    transactions: AtomicU64,
}

/// The number of calls to a [`Db`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Calls that read.
    pub reads: u64,
    /// Committed transactions.
    pub transactions: u64,
    /// Commits of the database: fewer than the transactions if the writer grouped some.
    pub commits: u64,
}

/// A fault of a database, set by an experiment or a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outage {
    /// The database works.
    None = 0,
    /// Refuses each call at once.
    Refuses = 1,
    /// Does not answer while the outage lasts; then the connections fail.
    Hangs = 2,
    /// Does its work and then reports a failure.
    LosesReplies = 3,
}

impl Db {
    /// Opens `url` (`postgres://…` or a SQLite file's path) and brings its schema up to date. Errors name the database `name`.
    pub fn open(name: &str, url: &str, schema: Schema, env: &Env) -> Result<Db, DbError> {
        let db = Db::unopened(name, Location { url: url.to_owned(), schema, owner: None }, env);
        db.inner.opening.open(name)?;
        Ok(db)
    }

    /// Makes a database that [`Db::open_now`] opens. Until then each call is refused with the last try's error.
    pub fn unopened(name: &str, location: Location, env: &Env) -> Db {
        Db::over(name, env, Arc::new(Opening::new(location, env.blocking())), Arc::default())
    }

    fn over(name: &str, env: &Env, opening: Arc<Opening>, counters: Arc<Counters>) -> Db {
        let (outage, spoils, changed) = (AtomicU8::new(Outage::None as u8), AtomicU32::new(0), Notify::new());
        let (name, env, writes) = (name.to_owned(), env.clone(), AtomicU64::new(0));
        Db { inner: Arc::new(Inner { name, env, opening, outage, spoils, writes, changed, counters }) }
    }

    /// Opens the database and brings its schema up to date; succeeds if it is open. One caller tries at a time, and the try continues even
    /// if nobody waits for it. [`DbError::Unavailable`] may pass; a schema that does not fit this release is a [`DbError::Defect`].
    pub async fn open_now(&self) -> Result<(), DbError> {
        let (opening, name) = (self.inner.opening.clone(), self.inner.name.clone());
        let turn = opening.turn.clone().lock_owned().await;
        let opened = self.inner.env.run_blocking(move || {
            let _turn = turn;
            opening.open(&name)
        });
        opened.await.map_err(|error| match error {
            DbError::Unavailable { reason, .. } => self.unavailable(&reason),
            other => other,
        })
    }

    /// Refuses further calls through all handles, and leaves every commit of a SQLite database in its one file, so that the file can be
    /// moved or copied alone. The writes that have begun end first.
    pub async fn close(&self) {
        if let Ok(Access::Pooled { writer: Some(writer), .. }) = self.inner.opening.access() {
            // The writer does its jobs in order: after this one, all earlier ones are committed.
            let _ = writer.run(boxed(|_| Ok(()))).await;
        }
        let (opening, name) = (self.inner.opening.clone(), self.inner.name.clone());
        self.inner.env.run_blocking(move || opening.close(&name)).await;
    }

    /// Returns the database under another name with its own outages, so that one of several services that share it can fail alone.
    pub fn named(&self, name: &str) -> Db {
        Db::over(name, &self.inner.env, self.inner.opening.clone(), self.inner.counters.clone())
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the environment given at opening.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the number of calls through all handles of this database.
    pub fn calls(&self) -> Calls {
        let transactions = self.inner.counters.transactions.load(Ordering::Relaxed);
        let commits = match self.inner.opening.access() {
            Ok(Access::Pooled { writer: Some(writer), .. }) => writer.commits(),
            _ => transactions,
        };
        Calls { reads: self.inner.counters.reads.load(Ordering::Relaxed), transactions, commits }
    }

    /// Sets the fault that calls meet from now on.
    pub fn set_outage(&self, outage: Outage) {
        self.set_outage_for(outage, u32::MAX);
    }

    /// Sets the fault that the next `calls` calls meet.
    pub fn set_outage_for(&self, outage: Outage, calls: u32) {
        self.inner.spoils.store(calls, Ordering::SeqCst);
        self.inner.outage.store(outage as u8, Ordering::SeqCst);
        self.inner.changed.notify_waiters();
    }

    /// True if a call would meet a fault now.
    pub fn is_spoiled(&self) -> bool {
        self.inner.outage.load(Ordering::SeqCst) != Outage::None as u8 && self.inner.spoils.load(Ordering::SeqCst) > 0
    }

    /// Returns the number of writes through this handle. A watcher need not read again while the number stays.
    pub fn writes(&self) -> u64 {
        self.inner.writes.load(Ordering::Relaxed)
    }

    /// Reads. `work` sees one connection and must not write.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.read_boxed(boxed(work)).await.map(erased::unwrap)
    }

    /// Writes in one transaction: commits if `work` succeeds, rolls back if it fails.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.write_boxed(boxed(work)).await.map(erased::unwrap)
    }

    /// Writes for an operation on a server. [`DbError::Stale`] if a higher fence has written here before.
    pub async fn write_fenced<T, F>(&self, fence: Fence, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.write(move |conn| {
            fence::obey(conn, fence)?;
            work(conn)
        })
        .await
    }

    async fn read_boxed(&self, work: Work) -> Result<erased::Value, DbError> {
        let outage = self.pass_outage().await?;
        self.inner.counters.reads.fetch_add(1, Ordering::Relaxed);
        let result = match self.access()? {
            Access::Inline { conn } => work(&mut lock(conn)),
            Access::Pooled { pool, permits, .. } => self.on_pool(pool, permits, work).await,
        };
        self.answer(outage, result)
    }

    async fn write_boxed(&self, work: Work) -> Result<erased::Value, DbError> {
        let outage = self.pass_outage().await?;
        self.inner.writes.fetch_add(1, Ordering::Relaxed);
        let result = match self.access()? {
            Access::Inline { conn } => lock(conn).transaction(work),
            Access::Pooled { writer: Some(writer), .. } => writer.run(work).await,
            Access::Pooled { writer: None, pool, permits } => self.on_pool(pool, permits, Box::new(|conn| conn.transaction(work))).await,
        };
        if result.is_ok() {
            self.inner.counters.transactions.fetch_add(1, Ordering::Relaxed);
        }
        self.answer(outage, result)
    }

    fn access(&self) -> Result<&Access, DbError> {
        self.inner.opening.access().map_err(|reason| self.unavailable(&reason))
    }

    async fn on_pool(&self, pool: &connection::Pool, permits: &Arc<Semaphore>, work: Work) -> Result<erased::Value, DbError> {
        let permit = permits.clone().acquire_owned().await.map_err(|_| self.unavailable("it is closed"))?;
        let pool = pool.clone();
        self.inner
            .env
            .run_blocking(move || {
                // The thread holds the permit, because it works on even if nobody waits for it.
                let _permit = permit;
                let mut conn = pool.get().map_err(|e| DbError::Unavailable { name: String::new(), reason: inside::of(e) })?;
                work(&mut conn)
            })
            .await
    }

    async fn pass_outage(&self) -> Result<u8, DbError> {
        let outage = self.inner.outage.load(Ordering::SeqCst);
        if outage != Outage::None as u8 {
            let left = self.inner.spoils.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                0 | u32::MAX => None,
                left => Some(left - 1),
            });
            if left == Err(0) {
                return Ok(Outage::None as u8);
            }
        }
        if outage == Outage::Hangs as u8 {
            let changed = self.inner.changed.notified();
            if self.inner.outage.load(Ordering::SeqCst) == Outage::Hangs as u8 {
                changed.await;
            }
            return Err(self.unavailable("an experiment let it hang"));
        }
        if outage == Outage::Refuses as u8 {
            return Err(self.unavailable("an experiment holds it down"));
        }
        Ok(outage)
    }

    fn answer(&self, outage: u8, result: Result<erased::Value, DbError>) -> Result<erased::Value, DbError> {
        if outage == Outage::LosesReplies as u8 {
            return Err(self.unavailable("an experiment lost the reply"));
        }
        result.map_err(|error| match error {
            DbError::Unavailable { reason, .. } => self.unavailable(&reason),
            other => other,
        })
    }

    fn unavailable(&self, reason: &str) -> DbError {
        DbError::Unavailable { name: self.inner.name.clone(), reason: reason.to_owned() }
    }
}

/// Work on a connection, of one type for all callers, so that the code that runs it is compiled once.
type Work = Box<dyn FnOnce(&mut Conn) -> Result<erased::Value, DbError> + Send>;

fn boxed<T, F>(work: F) -> Work
where
    T: Send + 'static,
    F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
{
    Box::new(|conn| work(conn).map(erased::wrap))
}

fn lock(conn: &Mutex<Conn>) -> std::sync::MutexGuard<'_, Conn> {
    conn.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
