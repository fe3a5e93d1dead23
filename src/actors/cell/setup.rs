//! A cell whose database did not answer when the service started: it is down, and what a start does there is done by the first
//! probe that is answered.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CellHandle, record_seen};
use crate::db::DbError;

/// How long setting a cell up may take: its schema may have to be brought up to date. Until then it is being probed.
const SETUP_PATIENCE: Duration = Duration::from_secs(3600);

/// What a start does in a cell's database.
#[async_trait]
pub trait CellSetup: Send + Sync {
    /// Does it. Doing it again is fine.
    async fn set_up(&self) -> Result<(), DbError>;
}

/// A cell that is down from the start.
#[derive(Clone)]
pub struct Silent {
    /// Why.
    pub reason: String,
    /// What is to be done when it answers.
    pub setup: Arc<dyn CellSetup>,
}

impl CellHandle {
    /// The same, down until a probe has set it up.
    pub fn silent_at_start(self, silent: Silent) -> CellHandle {
        self.health.begin_down(&silent.reason);
        self.kept().setup = Some(silent.setup);
        self
    }

    /// Asks the database whether it answers; sets the cell up first where that is still to be done.
    pub(super) async fn probe(&self, deadline: Duration) {
        let (was_up, setup) = (self.health.is_up(), self.kept().setup.clone());
        let deadline = if setup.is_some() { SETUP_PATIENCE } else { deadline };
        let asked = async {
            if let Some(setup) = setup {
                setup.set_up().await?;
                self.kept().setup = None;
            }
            // A statement that reads a table: that a connection is there says nothing of a file.
            self.db.services().await?;
            if !was_up && let Err(error) = record_seen(self).await {
                log::debug!(cell = self.name.as_str(); "hosts are not recorded as seen: {error}");
            }
            Ok(())
        };
        self.health.probe(deadline, asked).await;
    }
}
