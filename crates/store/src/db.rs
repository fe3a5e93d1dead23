//! A database as its users have it. Each call of a [`Db`] is one transaction, runs where blocking work belongs, and is answered only after
//! its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellshift_domain::fence::Fence;
use cellshift_domain::reason::Reason;
use cellshift_env::borders::{Gate, Reply};
use cellshift_env::metrics::{CallKind, DatabaseMetrics, Level, Tally};
use cellshift_env::{Env, erased};
use diesel::Connection;
use tokio::sync::Semaphore;

use crate::connection::{self, Conn};
use crate::error::DbError;
use crate::fence;
use crate::migrations::Migrations;
use crate::opening::{Access, Location, Opening};

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
    /// None if calls pass without being asked.
    gate: Option<Box<dyn Gate>>,
    /// The number of writes through this handle.
    writes: AtomicU64,
    counters: Arc<Counters>,
    /// None if metrics are switched off.
    metrics: Option<DatabaseMetrics>,
}

/// The metrics of a single writer.
pub(crate) struct WriterMetrics {
    pub(crate) commits: Tally,
    pub(crate) waiting: Level,
}

/// The calls through all handles of a database.
#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    transactions: AtomicU64,
    /// Counts commits for metrics; the single writer of a SQLite file counts its own.
    commits: Tally,
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

impl Db {
    /// Opens `url` (`postgres://…` or a SQLite file's path) and brings its schema up to date. Errors name the database `name`.
    pub fn open(name: &str, url: &str, schema: impl Into<Migrations>, env: &Env) -> Result<Db, DbError> {
        let db = Db::unopened(name, Location { url: url.to_owned(), schema: schema.into(), owner: None }, env);
        db.inner.opening.open(name)?;
        Ok(db)
    }

    /// Makes a database that [`Db::open_now`] opens. Until then each call is refused with the last try's error.
    pub fn unopened(name: &str, location: Location, env: &Env) -> Db {
        let (commits, waiting) = (env.metrics().commits(name), env.metrics().writes_waiting(name));
        let counters = Counters { commits: commits.clone(), ..Counters::default() };
        Db::over(name, env, Arc::new(Opening::new(location, env.blocking(), WriterMetrics { commits, waiting })), Arc::new(counters))
    }

    fn over(name: &str, env: &Env, opening: Arc<Opening>, counters: Arc<Counters>) -> Db {
        let (metrics, gate, writes) = (env.metrics().database(name), env.borders().gate(), AtomicU64::new(0));
        Db { inner: Arc::new(Inner { name: name.to_owned(), env: env.clone(), opening, gate, writes, counters, metrics }) }
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
            DbError::Unavailable { reason, .. } => self.unavailable(reason),
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

    /// Returns the database under another name with its own gate, so that one of several services that share it can fail alone.
    pub fn named(&self, name: &str) -> Db {
        Db::over(name, &self.inner.env, self.inner.opening.clone(), self.inner.counters.clone())
    }

    /// Returns the database for the renewal of this process's seat, which must be possible after the seat's time.
    pub fn for_renewal(&self) -> Db {
        Db::over(&self.inner.name, &self.inner.env.without_seat(), self.inner.opening.clone(), self.inner.counters.clone())
    }

    /// Succeeds if this process may write, and act upon what it reads.
    pub fn check_seat(&self) -> Result<(), DbError> {
        self.inner.env.seat().check().map_err(|reason| self.unavailable(reason))
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

    /// Returns the gate before this handle's calls; none if calls pass without being asked.
    pub fn gate(&self) -> Option<&dyn Gate> {
        self.inner.gate.as_deref()
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
        self.measured(CallKind::Read, self.read_boxed(boxed(work))).await.map(erased::unwrap)
    }

    /// Succeeds if the database answers.
    pub async fn look(&self) -> Result<(), DbError> {
        self.read(connection::look).await
    }

    /// Writes in one transaction: commits if `work` succeeds, rolls back if it fails.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.measured(CallKind::Write, self.write_boxed(boxed(work), Around::Transaction)).await.map(erased::unwrap)
    }

    /// Writes with what is one statement on PostgreSQL, which commits it by itself: a transaction around it would be two more round trips.
    /// On SQLite it is a transaction, as with [`Db::write`].
    pub async fn write_at_once<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.measured(CallKind::Write, self.write_boxed(boxed(work), Around::Statement)).await.map(erased::unwrap)
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

    /// Counts a call and its time. A call whose caller goes away is counted as in flight until then, and not as ended.
    async fn measured(&self, kind: CallKind, call: impl Future<Output = Result<erased::Value, DbError>>) -> Result<erased::Value, DbError> {
        let Some(metrics) = &self.inner.metrics else { return call.await };
        let (_within, watch) = (metrics.in_flight().enter(), self.inner.env.stopwatch());
        let result = call.await;
        metrics.ended(kind, result.as_ref().err().map(DbError::kind), watch.elapsed());
        result
    }

    async fn read_boxed(&self, work: Work) -> Result<erased::Value, DbError> {
        let reply = self.pass_gate().await?;
        self.inner.counters.reads.fetch_add(1, Ordering::Relaxed);
        let result = match self.access()? {
            Access::Inline { conn } => work(&mut conn.lock()),
            Access::Pooled { pool, permits, .. } => self.on_pool(pool, permits, work).await,
        };
        self.answer(reply, result)
    }

    async fn write_boxed(&self, work: Work, around: Around) -> Result<erased::Value, DbError> {
        self.check_seat()?;
        let reply = self.pass_gate().await?;
        self.inner.writes.fetch_add(1, Ordering::Relaxed);
        let result = match self.access()? {
            Access::Inline { conn } => conn.lock().transaction(work),
            Access::Pooled { writer: Some(writer), .. } => writer.run(work).await,
            Access::Pooled { writer: None, pool, permits } => {
                let work = match around {
                    Around::Transaction => Box::new(|conn: &mut Conn| conn.transaction(work)),
                    Around::Statement => work,
                };
                self.on_pool(pool, permits, work).await
            }
        };
        if result.is_ok() {
            self.inner.counters.transactions.fetch_add(1, Ordering::Relaxed);
            if !matches!(self.inner.opening.access(), Ok(Access::Pooled { writer: Some(_), .. })) {
                self.inner.counters.commits.note();
            }
        }
        self.answer(reply, result)
    }

    fn access(&self) -> Result<&Access, DbError> {
        self.inner.opening.access().map_err(|reason| self.unavailable(reason))
    }

    async fn on_pool(&self, pool: &connection::Pool, permits: &Arc<Semaphore>, work: Work) -> Result<erased::Value, DbError> {
        let watch = self.inner.env.stopwatch();
        let permit = permits.clone().acquire_owned().await.map_err(|_| self.unavailable("it is closed"))?;
        let in_use = self.inner.metrics.as_ref().map(|metrics| {
            metrics.waited(watch.elapsed());
            metrics.in_use().enter()
        });
        let pool = pool.clone();
        self.inner
            .env
            .run_blocking(move || {
                // The thread holds the permit, because it works on even if nobody waits for it.
                let _permit = (permit, in_use);
                let mut conn = pool.get().map_err(|e| DbError::Unavailable { name: String::new(), reason: Reason::inside(e) })?;
                let result = work(&mut conn);
                conn.note_answer(watch, !matches!(result, Err(DbError::Unavailable { .. } | DbError::Defect(_))));
                result
            })
            .await
    }

    /// Returns when the gate lets a call pass, with what becomes of its reply.
    async fn pass_gate(&self) -> Result<Reply, DbError> {
        match self.gate() {
            None => Ok(Reply::Kept),
            Some(gate) => gate.pass().await.map_err(|reason| self.unavailable(Reason::public(reason))),
        }
    }

    fn answer(&self, reply: Reply, result: Result<erased::Value, DbError>) -> Result<erased::Value, DbError> {
        if let Reply::Lost(reason) = reply {
            return Err(self.unavailable(Reason::public(reason)));
        }
        result.map_err(|error| match error {
            DbError::Unavailable { reason, .. } => self.unavailable(reason),
            other => other,
        })
    }

    fn unavailable(&self, reason: impl Into<Reason>) -> DbError {
        DbError::Unavailable { name: self.inner.name.clone(), reason: reason.into() }
    }
}

/// The part of a write that PostgreSQL commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Around {
    Transaction,
    Statement,
}

/// Work on a connection, of one type for all callers, so that the code that runs it is compiled once.
pub(crate) type Work = Box<dyn FnOnce(&mut Conn) -> Result<erased::Value, DbError> + Send>;

fn boxed<T, F>(work: F) -> Work
where
    T: Send + 'static,
    F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
{
    Box::new(|conn| work(conn).map(erased::wrap))
}
