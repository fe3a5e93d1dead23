//! A cell whose database did not answer at the start of the service. It is down, and the first successful probe does the work of the start
//! there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CellHandle, record_seen};
use crate::db::DbError;
use crate::domain::reason::Reason;

/// The time limit of setting a cell up, which may include changes of its schema. The cell is being probed meanwhile.
const SETUP_PATIENCE: Duration = Duration::from_secs(3600);

/// The work of a start in a cell's database.
#[async_trait]
pub trait CellSetup: Send + Sync {
    /// Does the work. May be repeated.
    async fn set_up(&self) -> Result<(), DbError>;
}

/// The reason and the work of a cell that is down from the start.
#[derive(Clone)]
pub struct Silent {
    /// The reason.
    pub reason: Reason,
    /// The work for when the database answers.
    pub setup: Arc<dyn CellSetup>,
}

impl CellHandle {
    /// Sets the cell down until a probe has set it up.
    pub fn silent_at_start(self, silent: Silent) -> CellHandle {
        self.health.begin_down(&silent.reason);
        *self.setup.lock() = Some(silent.setup);
        self
    }

    /// Asks the database whether it answers. Sets the cell up first if that is still to be done.
    pub(super) async fn probe(&self, deadline: Duration) {
        let (was_up, setup) = (self.health.is_up(), self.setup.lock().clone());
        let deadline = if setup.is_some() { SETUP_PATIENCE } else { deadline };
        let question = async {
            if let Some(setup) = setup {
                setup.set_up().await?;
                *self.setup.lock() = None;
            }
            self.db.look().await?;
            if !was_up && let Err(error) = record_seen(self).await {
                log::debug!(cell = self.name.as_str(); "hosts are not recorded as seen: {error}");
            }
            Ok(())
        };
        self.health.probe(deadline, question).await;
    }
}
