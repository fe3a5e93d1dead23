//! Servers whose cell does not answer, as the API database knows them (docs/DOWN-CELLS.md).

use std::collections::BTreeSet;

use uuid::Uuid;

use super::CellRegistry;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::api::instance_mappings::MappingFilter;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::reason;
use crate::domain::reason::Reason;

/// A cell that did not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentCell {
    pub uuid: Uuid,
    pub name: String,
    /// The reason, from the database or from the cell's health.
    pub reason: Reason,
}

impl SilentCell {
    /// Returns the cell that gave this error.
    pub fn new(cell: &CellHandle, error: &DbError) -> SilentCell {
        SilentCell { uuid: cell.uuid, name: cell.name.clone(), reason: reason!("{error}") }
    }
}

/// A server of a silent cell.
#[derive(Debug)]
pub struct SilentServer {
    /// The cell's name.
    pub cell: String,
    pub mapping: InstanceMapping,
    /// The reason of the silence: [`DbError::Unavailable`].
    pub error: DbError,
}

impl SilentServer {
    /// True if the server's delete has been requested: its users see no server.
    pub fn is_gone(&self) -> bool {
        self.mapping.queued_for_delete == Some(true)
    }
}

/// The reason why a server was not found.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Its cell does not answer.
    #[error("{}", .0.error)]
    Silent(Box<SilentServer>),
    /// There is no such server, or the API database does not answer.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<LookupError> for DbError {
    fn from(error: LookupError) -> DbError {
        match error {
            LookupError::Silent(silent) => silent.error,
            LookupError::Db(error) => error,
        }
    }
}

impl CellRegistry {
    /// Returns at most `limit` servers of these cells (of one project if given) with their cells' names, newest first in each cell. Leaves
    /// out servers that are being deleted and those in `exceptions`.
    pub async fn servers_of_silent(
        &self,
        cells: &[SilentCell],
        project_id: Option<&str>,
        exceptions: &BTreeSet<Uuid>,
        limit: usize,
    ) -> Result<Vec<(String, InstanceMapping)>, DbError> {
        let mut servers = Vec::new();
        for cell in cells {
            let missing = limit.saturating_sub(servers.len());
            if missing == 0 {
                break;
            }
            let filter = MappingFilter {
                cell: Some(Some(cell.uuid)),
                project_id: project_id.map(str::to_owned),
                living: true,
                limit: i64::try_from(missing.saturating_add(exceptions.len())).ok(),
                ..MappingFilter::default()
            };
            let mappings = self.inner.api.instance_mappings(filter).await?;
            let others = mappings.into_iter().filter(|mapping| !exceptions.contains(&mapping.instance_uuid));
            servers.extend(others.take(missing).map(|mapping| (cell.name.clone(), mapping)));
        }
        Ok(servers)
    }
}
