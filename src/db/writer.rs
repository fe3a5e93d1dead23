//! The one writer of a SQLite file: groups waiting transactions into a commit, so that many operations at once pay for one
//! flush to disk. Each job runs in a savepoint of its own and is answered only after the commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use diesel::Connection;
use tokio::sync::oneshot;

use super::Work;
use super::connection::{self, Conn};
use super::error::DbError;
use crate::env::erased;

/// Jobs in one commit at most, so that no one waits long behind a burst.
const GROUP_MAX: usize = 64;
/// Jobs that may wait; past it a write is refused as busy.
const QUEUE_MAX: usize = 4096;

type Answer = Box<dyn FnOnce(Result<(), String>) + Send>;
type Job = Box<dyn FnOnce(&mut Conn) -> Answer + Send>;

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
        let (mut conn, url) = (connection::open(url)?, url.to_owned());
        let commits = Arc::<AtomicU64>::default();
        let counter = commits.clone();
        let thread = std::thread::Builder::new()
            .name(format!("write-{name}"))
            .spawn(move || {
                while let Ok(first) = queue.recv() {
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
                }
            })
            .map_err(|e| DbError::Unavailable { name: name.to_owned(), reason: e.to_string() })?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), name: name.to_owned(), commits })
    }

    /// Groups committed so far.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in the next group and answers after its commit.
    pub(super) async fn run(&self, work: Work) -> Result<erased::Value, DbError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |conn| {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_savepoint(conn, work)))
                .unwrap_or_else(|_| Err(DbError::Defect("a database call panicked; it was rolled back".into())));
            Box::new(move |committed| {
                let answer = match (committed, result) {
                    (Ok(()), result) => result,
                    // Why the commit failed, if this job is the reason.
                    (Err(_), Err(error @ DbError::Unavailable { .. })) => Err(error),
                    (Err(reason), _) => Err(DbError::Unavailable { name: String::new(), reason }),
                };
                // The caller may have given up waiting; its write stands all the same.
                let _ = sender.send(answer);
            })
        });
        let ended = || self.unavailable("its writer has ended");
        self.jobs.as_ref().ok_or_else(ended)?.try_send(job).map_err(|e| match e {
            mpsc::TrySendError::Full(_) => self.unavailable("too many writes wait"),
            mpsc::TrySendError::Disconnected(_) => ended(),
        })?;
        receiver.await.unwrap_or_else(|_| Err(self.unavailable("its writer ended before it answered")))
    }

    fn unavailable(&self, reason: &str) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason: reason.to_owned() }
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

/// Does the work in a savepoint. A full disk takes the savepoint too: its own reason counts, not that the savepoint is gone.
fn in_savepoint(conn: &mut Conn, work: Work) -> Result<erased::Value, DbError> {
    let mut unavailable = None;
    let result = conn.transaction(|conn| {
        work(conn).inspect_err(|error| {
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

fn commit_group(conn: &mut Conn, group: Vec<Job>) -> Result<(), String> {
    let mut answers: Vec<Answer> = Vec::with_capacity(group.len());
    let committed = conn.transaction::<(), diesel::result::Error, _>(|conn| {
        answers.extend(group.into_iter().map(|job| job(conn)));
        Ok(())
    });
    let outcome = committed.map_err(|e| e.to_string());
    for answer in answers {
        answer(outcome.clone());
    }
    outcome
}
