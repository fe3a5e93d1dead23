//! The single writer of a SQLite file. It groups waiting transactions into one commit, so that many concurrent operations pay for one flush
//! to disk. Each job runs in its own savepoint, unless it is alone, and is answered only after the commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_env::erased;
use cellshift_env::metrics::{Level, Within};
use diesel::Connection;
use diesel::result::Error as DieselError;
use tokio::sync::oneshot;

use crate::connection::{self, Conn};
use crate::db::{Work, WriterMetrics};
use crate::error::{DbError, said};

/// The maximum number of jobs in one commit, so that no job waits long behind a burst.
const GROUP_MAX: usize = 64;
/// The wait before the writer tries again to empty a log that a reader needs.
const EMPTY_AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of waiting jobs. Beyond it a write is refused as busy.
const QUEUE_MAX: usize = 4096;

/// A waiting transaction, and the channel for its result.
struct Job {
    work: Work,
    answer: oneshot::Sender<Outcome>,
    /// Counts the job as waiting until it is answered.
    waiting: Within,
}

type Outcome = Result<erased::Value, DbError>;

pub(crate) struct Writer {
    /// None once the writer is dropped.
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    name: String,
    commits: Arc<AtomicU64>,
    waiting: Level,
}

impl Writer {
    /// Opens the file and starts the writer's thread. The thread ends when the writer is dropped and the queue is empty.
    pub(crate) fn start(name: &str, url: &str, metrics: &WriterMetrics) -> Result<Writer, DbError> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_MAX);
        let (mut conn, file, url) = (connection::open(url)?, url.to_owned(), connection::of_existing(url));
        let commits = Arc::<AtomicU64>::default();
        let (counter, tally) = (commits.clone(), metrics.commits.clone());
        let thread = std::thread::Builder::new()
            .name(format!("write-{name}"))
            .spawn(move || {
                // An earlier process may have died between an erasure and emptying the log.
                let mut to_empty = !connection::empty_log(&mut conn, &file, Duration::ZERO);
                while let Some(first) = next(&queue, to_empty) {
                    let Some(first) = first else {
                        to_empty = !connection::empty_log(&mut conn, &file, Duration::ZERO);
                        continue;
                    };
                    let mut group = vec![first];
                    group.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(GROUP_MAX - 1));
                    if commit_group(&mut conn, group).is_err() {
                        // A full disk makes SQLite end the transaction by itself, and the connection loses track of it. Open a new one.
                        match connection::open(&url) {
                            Ok(fresh) => conn = fresh,
                            Err(error) => log::error!("the writer of {url} goes on with a connection that failed: {error}"),
                        }
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                    tally.note();
                    if conn.take_erasure() || to_empty {
                        to_empty = !connection::empty_log(&mut conn, &file, Duration::ZERO);
                    }
                }
            })
            .map_err(|e| DbError::Unavailable { name: name.to_owned(), reason: Reason::inside(e) })?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), name: name.to_owned(), commits, waiting: metrics.waiting.clone() })
    }

    /// Returns the number of commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in the next group and answers after its commit.
    pub(crate) async fn run(&self, work: Work) -> Result<erased::Value, DbError> {
        let (answer, receiver) = oneshot::channel();
        let ended = || self.unavailable("its writer has ended");
        self.jobs.as_ref().ok_or_else(ended)?.try_send(Job { work, answer, waiting: self.waiting.enter() }).map_err(|e| match e {
            mpsc::TrySendError::Full(_) => self.unavailable("too many writes wait"),
            mpsc::TrySendError::Disconnected(_) => ended(),
        })?;
        receiver.await.unwrap_or_else(|_| Err(self.unavailable("its writer ended before it answered")))
    }

    fn unavailable(&self, reason: &'static str) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason: reason.into() }
    }
}

/// Returns the next job, or `Some(None)` if it is time to empty the log, or None once the writer is dropped.
fn next(queue: &mpsc::Receiver<Job>, to_empty: bool) -> Option<Option<Job>> {
    if !to_empty {
        return queue.recv().ok().map(Some);
    }
    match queue.recv_timeout(EMPTY_AGAIN) {
        Ok(job) => Some(Some(job)),
        Err(mpsc::RecvTimeoutError::Timeout) => Some(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => None,
    }
}

/// Waits for the queued writes, so that nothing writes to the file after its database is dropped.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // The thread does not panic, because it catches a job's panic.
            let _ = thread.join();
        }
    }
}

/// Does the work in a transaction, or in a savepoint if it shares one. A full disk ends both by itself; then returns the disk's error, not
/// the failed rollback.
fn in_transaction(conn: &mut Conn, work: Work) -> Outcome {
    let mut unavailable = None;
    let result = conn.transaction(|conn| {
        guarded(conn, work).inspect_err(|error| {
            if let DbError::Unavailable { name, reason } = error {
                unavailable = Some(DbError::Unavailable { name: name.clone(), reason: reason.clone() });
            }
        })
    });
    match unavailable {
        Some(error) => Err(error),
        None => result,
    }
}

/// Turns a panic into an error of this job alone.
fn guarded(conn: &mut Conn, work: Work) -> Outcome {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(conn)))
        .unwrap_or_else(|_| Err(DbError::Defect("a database call panicked; it was rolled back".into())))
}

fn commit_group(conn: &mut Conn, mut group: Vec<Job>) -> Result<(), Reason> {
    if group.len() == 1
        && let Some(Job { work, answer, waiting: _waiting }) = group.pop()
    {
        return commit_one(conn, work, answer);
    }
    let mut done = Vec::with_capacity(group.len());
    let committed = conn.transaction::<(), DieselError, _>(|conn| {
        done.extend(group.into_iter().map(|job| (job.answer, job.waiting, in_transaction(conn, job.work))));
        Ok(())
    });
    let committed = committed.map_err(|error| said(&error.to_string()));
    for (answer, _waiting, result) in done {
        let outcome = match (&committed, result) {
            (Ok(()), result) => result,
            // If this job caused the failed commit, it gets its own error.
            (Err(_), Err(error @ DbError::Unavailable { .. })) => Err(error),
            (Err(reason), _) => Err(DbError::Unavailable { name: String::new(), reason: reason.clone() }),
        };
        // The caller may have given up waiting, but the write stands.
        let _ = answer.send(outcome);
    }
    committed
}

/// Commits a job that shares its transaction with nobody, so that it needs no savepoint.
fn commit_one(conn: &mut Conn, work: Work, answer: oneshot::Sender<Outcome>) -> Result<(), Reason> {
    let mut result = None;
    let committed = conn.transaction(|conn| match guarded(conn, work) {
        Ok(value) => {
            result = Some(Ok(value));
            Ok(())
        }
        Err(error) => {
            result = Some(Err(error));
            Err(DieselError::RollbackTransaction)
        }
    });
    let (outcome, state) = match (committed, result) {
        // A full disk or a lock may have ended the transaction by itself.
        (_, Some(Err(error @ DbError::Unavailable { .. }))) => {
            let reason = reason!("{error}");
            (Err(error), Err(reason))
        }
        (Ok(()) | Err(DieselError::RollbackTransaction), Some(result)) => (result, Ok(())),
        (committed, _) => {
            let reason = committed.err().map_or_else(Reason::default, |error| said(&error.to_string()));
            (Err(DbError::Unavailable { name: String::new(), reason: reason.clone() }), Err(reason))
        }
    };
    // The caller may have given up waiting, but the write stands.
    let _ = answer.send(outcome);
    state
}
