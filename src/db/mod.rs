//! Databases: one [`Db`] per schema and place (the API's, one per cell, the embedded services'), on SQLite or PostgreSQL.
//!
//! `connection` opens either kind behind one type, `deployment` says whose a database is, `writer` groups SQLite's commits,
//! `fence` refuses late effects; `api`, `cell` and `services` hold the records, one file per aggregate. Every call of a [`Db`] is one transaction, runs
//! where blocking work belongs and is answered only after its commit.

pub mod api;
pub mod cell;
pub mod columns;
pub mod connection;
pub mod deployment;
pub mod error;
pub mod fence;
#[cfg(test)]
pub mod fixture;
mod opening;
pub mod place;
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

/// How many connections to one database may work at once; calls past it wait their turn without a thread. So a database that
/// hangs keeps at most so many threads of the blocking pool, whoever has given up waiting for them.
pub const POOL_SIZE: u32 = 8;

/// A database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    /// Closed before `env` goes: when nobody holds an environment any more, nothing is written any more.
    opening: Arc<Opening>,
    env: Env,
    outage: AtomicU8,
    /// Calls that the outage has left to spoil.
    spoils: AtomicU32,
    /// Writes through this handle so far.
    writes: AtomicU64,
    /// Told when the outage changes.
    changed: Notify,
    counters: Arc<Counters>,
}

/// What all handles of a database have asked of it.
#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    transactions: AtomicU64,
}

/// How much a [`Db`] has been asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Calls that read.
    pub reads: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Commits that the database made for them: fewer where the writer grouped some.
    pub commits: u64,
}

/// A fault point: what a database does when an experiment or a test says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outage {
    /// Works.
    None = 0,
    /// Refuses every call at once.
    Refuses = 1,
    /// Does not answer as long as this lasts; then the connections are found dead.
    Hangs = 2,
    /// Does what it is asked and then says that it failed.
    LosesReplies = 3,
}

impl Db {
    /// Opens `url` (`postgres://…` or a SQLite file's path), brings its schema up to date and says under which `name` errors
    /// speak of it.
    pub fn open(name: &str, url: &str, schema: Schema, env: &Env) -> Result<Db, DbError> {
        let db = Db::unopened(name, Location { url: url.to_owned(), schema, owner: None }, env);
        db.inner.opening.open(name)?;
        Ok(db)
    }

    /// A database that [`Db::open_now`] opens. Until it has, every call is refused with what the last try met.
    pub fn unopened(name: &str, location: Location, env: &Env) -> Db {
        Db::over(name, env, Arc::new(Opening::new(location, env.blocking())), Arc::default())
    }

    fn over(name: &str, env: &Env, opening: Arc<Opening>, counters: Arc<Counters>) -> Db {
        let (outage, spoils, changed) = (AtomicU8::new(Outage::None as u8), AtomicU32::new(0), Notify::new());
        let (name, env, writes) = (name.to_owned(), env.clone(), AtomicU64::new(0));
        Db { inner: Arc::new(Inner { name, env, opening, outage, spoils, writes, changed, counters }) }
    }

    /// Opens it and brings its schema up to date; fine when it is open. One tries at a time, and goes on when nobody waits for it
    /// any more. [`DbError::Unavailable`] may pass; a schema that does not fit this release is a [`DbError::Defect`].
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

    /// The same database under another name, with outages of its own: one of several services that share it may fail alone.
    pub fn named(&self, name: &str) -> Db {
        Db::over(name, &self.inner.env, self.inner.opening.clone(), self.inner.counters.clone())
    }

    /// The name given at opening.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The environment given at opening.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// How much was asked through all handles of this database.
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

    /// Whether a call would meet a fault now.
    pub fn is_spoiled(&self) -> bool {
        self.inner.outage.load(Ordering::SeqCst) != Outage::None as u8 && self.inner.spoils.load(Ordering::SeqCst) > 0
    }

    /// How many writes were asked for through this handle: who watches it need not look again while the number stands.
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

    /// Writes in one transaction: committed when this answers `Ok`, rolled back when `work` gives an error.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.write_boxed(boxed(work)).await.map(erased::unwrap)
    }

    /// Writes for an operation on a server: refused as [`DbError::Stale`] when a higher fence has written here before.
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
                // Held by the thread, which works on when nobody waits for it any more.
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

/// What is done with a connection, of one type for all callers: everything that runs it is compiled once.
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
