//! The parts of the bench's stage that all its measurements use.

use std::fmt;
use std::time::Duration;

use cellshift_nats::testkit::Broker;

use crate::process::status_kib;

/// Longer than any part of the bench takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// The cell of the parts that have one.
pub const CELL: &str = "cell1";

/// Makes a runtime for this process's part.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Returns the URL of a NATS server.
pub fn url_of(broker: &Broker) -> String {
    format!("nats://{}", broker.address())
}

/// Waits for what must come.
pub async fn soon<T>(what: &str, outcome: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, outcome).await.unwrap_or_else(|_| panic!("still not so: {what}"))
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The memory of processes: the mean of all.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    resident_kib: u64,
    pub anonymous_kib: u64,
    /// Of the program and its libraries, which processes share and the system can drop.
    of_files_kib: u64,
}

impl Memory {
    pub fn of(processes: &[u32]) -> Memory {
        let mean = |key: &str| processes.iter().map(|id| status_kib(*id, key)).sum::<u64>() / processes.len() as u64;
        Memory { resident_kib: mean("VmRSS"), anonymous_kib: mean("RssAnon"), of_files_kib: mean("RssFile") }
    }
}

impl fmt::Display for Memory {
    /// Three columns of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |kib: u64| kib as f64 / 1024.0;
        write!(f, "{:.1} MiB | {:.1} MiB | {:.1} MiB", mib(self.resident_kib), mib(self.anonymous_kib), mib(self.of_files_kib))
    }
}
