//! How long a pool takes a connection to a server for sound without asking. A look before each call is a round trip to the server, as much as
//! many a call itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellshift_env::metrics::Stopwatch;

/// The time for which an answer proves its connection sound: less than a server needs to restart.
const PROOF: Duration = Duration::from_millis(500);

/// The number of failed calls on a pool's connections. A failure voids the proofs of all of them, because what ended a connection may have
/// ended them all.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(Arc<AtomicU64>);

/// The proof that a connection's last call gave.
#[derive(Default)]
pub(super) struct Trust {
    failures: Failures,
    /// The time since the last answer, and the number of failures then.
    answered: Option<(Stopwatch, u64)>,
}

impl Trust {
    /// Begins without a proof, beside the pool's other connections.
    pub fn beside(failures: &Failures) -> Trust {
        Trust { failures: failures.clone(), answered: None }
    }

    /// Notes that the server has answered, as of this moment.
    pub fn proved(&mut self, at: Stopwatch) {
        self.answered = Some((at, self.failures.0.load(Ordering::Relaxed)));
    }

    /// Voids the proofs of all connections of the pool.
    pub fn failed(&mut self) {
        self.failures.0.fetch_add(1, Ordering::Relaxed);
    }

    /// True while the last answer proves the connection sound.
    pub fn holds(&self) -> bool {
        self.answered.is_some_and(|(at, failures)| at.elapsed() < PROOF && failures == self.failures.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use cellshift_env::Env;
    use diesel::connection::SimpleConnection;

    use super::*;
    use crate::connection::open;
    use crate::fixture::{TABLES, fresh_postgres};
    use crate::{Db, DbError};

    #[test]
    fn an_answer_is_a_proof_until_any_connection_fails() {
        let failures = Failures::default();
        let (mut one, mut other) = (Trust::beside(&failures), Trust::beside(&failures));
        assert!(!one.holds());
        one.proved(Stopwatch::start());
        assert!(one.holds() && !other.holds());
        other.failed();
        assert!(!one.holds());
        one.proved(Stopwatch::start());
        assert!(one.holds() && !other.holds());
    }

    #[tokio::test]
    async fn a_server_that_ends_its_connections_is_noticed_once() {
        let Some(url) = fresh_postgres() else { return };
        let db = Db::open("postgres", &url, TABLES, &Env::system()).unwrap();
        let look = || db.read(|conn| Ok(conn.batch_execute("SELECT pg_sleep(0.05)")?));
        // At once, so that the pool has several connections.
        futures::future::try_join_all((0..4).map(|_| look())).await.unwrap();
        let mut admin = open(&url).unwrap();
        let others = "datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep(0.05)%'";
        admin.batch_execute(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")).unwrap();
        let first = look().await;
        assert!(matches!(first, Ok(()) | Err(DbError::Unavailable { .. })), "{first:?}");
        futures::future::try_join_all((0..4).map(|_| look())).await.unwrap();
    }
}
