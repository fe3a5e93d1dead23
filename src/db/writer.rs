//! The one writer of a SQLite file: groups waiting transactions into a commit, so that many operations at once pay for one
//! flush to disk. Each job runs in a savepoint of its own, unless it is alone, and is answered only after the commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use diesel::Connection;
use diesel::result::Error as DieselError;
use tokio::sync::oneshot;

use super::Work;
use super::connection::{self, Conn};
use super::error::{DbError, said};
use crate::domain::inside;
use crate::env::erased;

/// Jobs in one commit at most, so that no one waits long behind a burst.
const GROUP_MAX: usize = 64;
/// How long a log that a reader needs is left before it is tried again to empty it.
const EMPTY_AGAIN: Duration = Duration::from_millis(200);
/// Jobs that may wait; past it a write is refused as busy.
const QUEUE_MAX: usize = 4096;

/// A transaction that waits, and who waits for it.
struct Job {
    work: Work,
    answer: oneshot::Sender<Outcome>,
}

type Outcome = Result<erased::Value, DbError>;

pub(super) struct Writer {
    /// None once it is dropped.
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    name: String,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Opens the file and starts the writer's thread; it ends when this is dropped and the queue is empty.
    pub(super) fn start(name: &str, url: &str) -> Result<Writer, DbError> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_MAX);
        let (mut conn, file, url) = (connection::open(url)?, url.to_owned(), connection::of_existing(url));
        let commits = Arc::<AtomicU64>::default();
        let counter = commits.clone();
        let thread = std::thread::Builder::new()
            .name(format!("write-{name}"))
            .spawn(move || {
                // The process before may have died between an erasure and this.
                let mut to_empty = !connection::empty_log(&mut conn, &file);
                while let Some(first) = next(&queue, to_empty) {
                    let Some(first) = first else {
                        to_empty = !connection::empty_log(&mut conn, &file);
                        continue;
                    };
                    let mut group = vec![first];
                    group.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(GROUP_MAX - 1));
                    if commit_group(&mut conn, group).is_err() {
                        // A full disk ends SQLite's transaction by itself, and the connection no longer knows where it is.
                        match connection::open(&url) {
                            Ok(fresh) => conn = fresh,
                            Err(error) => log::error!("the writer of {url} goes on with a connection that failed: {error}"),
                        }
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                    if conn.take_erasure() || to_empty {
                        to_empty = !connection::empty_log(&mut conn, &file);
                    }
                }
            })
            .map_err(|e| DbError::Unavailable { name: name.to_owned(), reason: inside::of(e) })?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), name: name.to_owned(), commits })
    }

    /// Groups committed so far.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in the next group and answers after its commit.
    pub(super) async fn run(&self, work: Work) -> Result<erased::Value, DbError> {
        let (answer, receiver) = oneshot::channel();
        let ended = || self.unavailable("its writer has ended");
        self.jobs.as_ref().ok_or_else(ended)?.try_send(Job { work, answer }).map_err(|e| match e {
            mpsc::TrySendError::Full(_) => self.unavailable("too many writes wait"),
            mpsc::TrySendError::Disconnected(_) => ended(),
        })?;
        receiver.await.unwrap_or_else(|_| Err(self.unavailable("its writer ended before it answered")))
    }

    fn unavailable(&self, reason: &str) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason: reason.to_owned() }
    }
}

/// The next job, or none when the log is to be emptied meanwhile; nothing when the writer is dropped.
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

/// Waits for the writes that were queued: once a database is dropped, nothing more is written to its file.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // It panics nowhere: a job's panic is caught.
            let _ = thread.join();
        }
    }
}

/// Does the work in a transaction, or in a savepoint when it shares one. A full disk takes both by itself: its own reason counts,
/// not that there is nothing left to roll back.
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

/// A panic is an error of this work alone.
fn guarded(conn: &mut Conn, work: Work) -> Outcome {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(conn)))
        .unwrap_or_else(|_| Err(DbError::Defect("a database call panicked; it was rolled back".into())))
}

fn commit_group(conn: &mut Conn, mut group: Vec<Job>) -> Result<(), String> {
    if group.len() == 1
        && let Some(Job { work, answer }) = group.pop()
    {
        return commit_one(conn, work, answer);
    }
    let mut done = Vec::with_capacity(group.len());
    let committed = conn.transaction::<(), DieselError, _>(|conn| {
        done.extend(group.into_iter().map(|job| (job.answer, in_transaction(conn, job.work))));
        Ok(())
    });
    let committed = committed.map_err(|error| said(&error.to_string()));
    for (answer, result) in done {
        let outcome = match (&committed, result) {
            (Ok(()), result) => result,
            // Why the commit failed, if this job is the reason.
            (Err(_), Err(error @ DbError::Unavailable { .. })) => Err(error),
            (Err(reason), _) => Err(DbError::Unavailable { name: String::new(), reason: reason.clone() }),
        };
        // The caller may have given up waiting; its write stands all the same.
        let _ = answer.send(outcome);
    }
    committed
}

/// Nobody shares the transaction: no savepoint has to tell one failure from the others.
fn commit_one(conn: &mut Conn, work: Work, answer: oneshot::Sender<Outcome>) -> Result<(), String> {
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
        // An unavailable disk or lock may have ended the transaction by itself.
        (_, Some(Err(error @ DbError::Unavailable { .. }))) => {
            let reason = error.to_string();
            (Err(error), Err(reason))
        }
        (Ok(()) | Err(DieselError::RollbackTransaction), Some(result)) => (result, Ok(())),
        (committed, _) => {
            let reason = committed.err().map_or_else(String::new, |error| said(&error.to_string()));
            (Err(DbError::Unavailable { name: String::new(), reason: reason.clone() }), Err(reason))
        }
    };
    // The caller may have given up waiting; its write stands all the same.
    let _ = answer.send(outcome);
    state
}
