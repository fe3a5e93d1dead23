//! What happened, line by line with its virtual time, and the hash of all of it: two runs of one seed have the same.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::Teller;
use super::virtual_env::RunClock;

/// Lines kept for the report of a run that failed.
const KEPT: usize = 400;

/// A run's trace. Clones write to the same one.
#[derive(Clone)]
pub struct Trace {
    clock: Arc<RunClock>,
    inner: Arc<Mutex<Inner>>,
    teller: Option<Teller>,
}

struct Inner {
    digest: Sha256,
    lines: u64,
    /// The last ones, or all.
    kept: VecDeque<String>,
    keep: usize,
}

impl Trace {
    /// Nothing yet; with `whole`, every line is kept.
    pub fn new(clock: Arc<RunClock>, whole: bool) -> Trace {
        let keep = if whole { usize::MAX } else { KEPT };
        let inner = Inner { digest: Sha256::new(), lines: 0, kept: VecDeque::new(), keep };
        Trace { clock, inner: Arc::new(Mutex::new(inner)), teller: None }
    }

    /// The same, with someone who is told what a watcher should see at once.
    pub fn told_to(self, teller: Option<Teller>) -> Trace {
        Trace { teller, ..self }
    }

    /// Milliseconds since the beginning.
    pub fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    /// Adds a line that a watcher should see at once.
    pub fn tell(&self, line: impl Display) {
        let line = line.to_string();
        if let Some(teller) = &self.teller {
            teller.tell(self.clock.elapsed_ms(), &line);
        }
        self.note(line);
    }

    /// Adds a line.
    pub fn note(&self, line: impl Display) {
        let at = self.clock.elapsed_ms();
        let line = format!("{:>7}.{:03} {line}", at / 1000, at % 1000);
        let mut inner = self.inner();
        inner.digest.update(line.as_bytes());
        inner.digest.update(b"\n");
        inner.lines += 1;
        if inner.kept.len() >= inner.keep {
            inner.kept.pop_front();
        }
        inner.kept.push_back(line);
    }

    /// The hash of all lines so far, in hex.
    pub fn hash(&self) -> String {
        let digest = self.inner().digest.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// How many lines there are.
    pub fn len(&self) -> u64 {
        self.inner().lines
    }

    /// Those that were kept.
    pub fn lines(&self) -> Vec<String> {
        self.inner().kept.iter().cloned().collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
