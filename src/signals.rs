//! The signals that tell a process to end: SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation on: from then on these signals do not end the process by themselves.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen. Fails if the system refuses it.
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Returns once a signal has come since the beginning, or since the last call.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
