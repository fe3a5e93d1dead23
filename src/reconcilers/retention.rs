//! Removes old records of one cell, or of the API and the services' databases. What does not answer is purged by a later run.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::PeriodicParts;
use crate::db::DbError;
use crate::db::retention::{Before, Removed, Retention};

/// The ages in days at which databases remove old records; 0 keeps them for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetentionOptions {
    /// The pause between two runs; zero never runs.
    pub interval: Duration,
    pub deleted_servers_days: u32,
    pub operations_days: u32,
    pub history_days: u32,
}

impl RetentionOptions {
    /// Returns the moments before which records are removed now.
    fn before(&self, now: DateTime<Utc>) -> Before {
        let ago = |days: u32| (days > 0).then(|| now.checked_sub_signed(TimeDelta::days(i64::from(days)))).flatten();
        Before { deleted_servers: ago(self.deleted_servers_days), operations: ago(self.operations_days), history: ago(self.history_days) }
    }
}

/// Purges the cell with this name; without a name, the API and the services' databases.
pub async fn run(parts: &PeriodicParts, cell: Option<&str>) {
    let name = cell.unwrap_or("the API and the services");
    match purge(parts, cell).await {
        Ok(removed) if removed == Removed::default() => {}
        Ok(removed) => log::info!("old records of {name} are removed: {removed:?}"),
        Err(error) => log::warn!("old records of {name} are removed by a later run: {error}"),
    }
}

async fn purge(parts: &PeriodicParts, cell: Option<&str>) -> Result<Removed, DbError> {
    let world = &parts.world;
    let before = parts.options.retention.before(world.env.now());
    let retention = Retention { operations: world.operations.clone(), before, removes: true };
    let Some(name) = cell else {
        let mut removed = retention.of_operations().await?;
        removed.fences = retention.fences(&parts.services).await?;
        return Ok(removed);
    };
    match world.cells.get(name) {
        Some(cell) => {
            let mut removed = retention.of_cell(cell.uuid, name, &cell.db, None).await?;
            removed.fences = retention.fences(cell.db.db()).await?;
            Ok(removed)
        }
        None => Ok(Removed::default()),
    }
}
