//! The trace: all events line by line with their virtual time, and a hash of all lines. Two runs of one seed have equal hashes.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::Teller;
use super::virtual_env::RunClock;

/// The number of lines kept for the report of a failed run.
const KEPT: usize = 400;

/// A run's trace. Clones write to the same trace.
#[derive(Clone)]
pub struct Trace {
    clock: Arc<RunClock>,
    inner: Arc<Mutex<Inner>>,
    teller: Option<Teller>,
}

struct Inner {
    digest: Sha256,
    lines: u64,
    /// The last lines, or all.
    kept: VecDeque<String>,
    keep: usize,
}

impl Trace {
    /// Makes an empty trace. `whole` keeps all lines.
    pub fn new(clock: Arc<RunClock>, whole: bool) -> Trace {
        let keep = if whole { usize::MAX } else { KEPT };
        let inner = Inner { digest: Sha256::new(), lines: 0, kept: VecDeque::new(), keep };
        Trace { clock, inner: Arc::new(Mutex::new(inner)), teller: None }
    }

    /// Adds a watcher who gets the important lines at once.
    pub fn with_teller(self, teller: Option<Teller>) -> Trace {
        Trace { teller, ..self }
    }

    /// Returns the milliseconds since the beginning.
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
        let mut inner = self.inner.lock();
        inner.digest.update(line.as_bytes());
        inner.digest.update(b"\n");
        inner.lines += 1;
        if inner.kept.len() >= inner.keep {
            inner.kept.pop_front();
        }
        inner.kept.push_back(line);
    }

    /// Returns the hash of all lines so far, in hex.
    pub fn hash(&self) -> String {
        let digest = self.inner.lock().digest.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the number of lines.
    pub fn len(&self) -> u64 {
        self.inner.lock().lines
    }

    /// Returns the kept lines.
    pub fn lines(&self) -> Vec<String> {
        self.inner.lock().kept.iter().cloned().collect()
    }
}
