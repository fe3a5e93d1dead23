//! The signals by which a process is told to end: SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its making on: from then on these signals end nothing by themselves.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen; an error when the system refuses it.
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Returns when one has come since the beginning, or since the last time.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
