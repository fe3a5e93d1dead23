//! The work of each start in a cell's database: the schema is brought up to date, and the cell's hosts are recorded there and in placement.
//! If the database does not answer, the cell is down, and the work is done when it answers.

use std::time::Duration;

use async_trait::async_trait;

use super::BootstrapError;
use super::deployment::MarkNote;
use super::host_records::{HostRecords, Patience, RecordedHost};
use crate::actors::cell::CellSetup;
use crate::db::DbError;
use crate::domain::reason;
use crate::domain::reason::Reason;

/// The part of a start that concerns a cell. It can be repeated, also if it was half done.
pub(super) struct Setup {
    pub records: HostRecords,
    /// The cell's hosts in this process, all mapped.
    pub hosts: Vec<RecordedHost>,
    /// Written once the database has been opened as this deployment's; none if that is recorded already.
    pub note: Option<MarkNote>,
}

impl Setup {
    /// Tries the work now. Returns the reason if an answer takes longer than `patience` or the database is away, so that the work must be
    /// done later. The whole work may take longer: a cell with many hosts is not down.
    pub(super) async fn try_now(&self, patience: Duration) -> Result<Option<Reason>, BootstrapError> {
        match self.run(Some(patience)).await {
            Ok(()) => Ok(None),
            Err(BootstrapError::Database(DbError::Unavailable { reason, .. })) => Ok(Some(reason)),
            Err(error) => Err(error),
        }
    }

    async fn run(&self, patience: Option<Duration>) -> Result<(), BootstrapError> {
        let wait = Patience { cell: &self.records.cell, longest: patience };
        wait.for_answer(self.records.db.db().open_now()).await?;
        if let Some(note) = &self.note {
            wait.for_answer(note.write()).await?;
        }
        self.records.record(&self.hosts, &wait).await
    }
}

#[async_trait]
impl CellSetup for Setup {
    async fn set_up(&self) -> Result<(), DbError> {
        self.run(None).await.map_err(|error| match error {
            BootstrapError::Database(error @ DbError::Unavailable { .. }) => error,
            // The service runs already, so any other error only delays this cell.
            other => DbError::Unavailable { name: self.records.cell.clone(), reason: reason!("{other}") },
        })
    }
}
