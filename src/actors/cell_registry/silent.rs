//! Servers whose cell does not answer: what the API database alone knows of them (docs/DOWN-CELLS.md).

use std::collections::BTreeSet;

use uuid::Uuid;

use super::CellRegistry;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::api::instance_mappings::{InstanceMapping, MappingFilter};

/// A cell that did not answer a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentCell {
    pub uuid: Uuid,
    pub name: String,
    /// What its database, or the cell's health, said.
    pub reason: String,
}

impl SilentCell {
    /// The cell that gave this error.
    pub fn new(cell: &CellHandle, error: &DbError) -> SilentCell {
        SilentCell { uuid: cell.uuid, name: cell.name.clone(), reason: error.to_string() }
    }
}

/// A server in such a cell.
#[derive(Debug)]
pub struct SilentServer {
    /// The cell's name.
    pub cell: String,
    pub mapping: InstanceMapping,
    /// Why the cell was not heard: [`DbError::Unavailable`].
    pub error: DbError,
}

impl SilentServer {
    /// True when its deletion has been asked for: to its users it is gone.
    pub fn is_gone(&self) -> bool {
        self.mapping.queued_for_delete == Some(true)
    }
}

/// Why a server was not found.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// It is in a cell that does not answer.
    #[error("{}", .0.error)]
    Silent(Box<SilentServer>),
    /// There is none, or the API database does not answer.
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
    /// The servers of these cells (of one project, when given) that are not being deleted, each with its cell's name, newest
    /// first in each cell: at most `limit`, and none of those that are `known` otherwise.
    pub async fn servers_of_silent(
        &self,
        cells: &[SilentCell],
        project_id: Option<&str>,
        known: &BTreeSet<Uuid>,
        limit: usize,
    ) -> Result<Vec<(String, InstanceMapping)>, DbError> {
        let mut found = Vec::new();
        for cell in cells {
            let missing = limit.saturating_sub(found.len());
            if missing == 0 {
                break;
            }
            let wanted = MappingFilter {
                cell: Some(Some(cell.uuid)),
                project_id: project_id.map(str::to_owned),
                living: true,
                limit: i64::try_from(missing.saturating_add(known.len())).ok(),
                ..MappingFilter::default()
            };
            let mappings = self.inner.api.instance_mappings(wanted).await?;
            let others = mappings.into_iter().filter(|mapping| !known.contains(&mapping.instance_uuid));
            found.extend(others.take(missing).map(|mapping| (cell.name.clone(), mapping)));
        }
        Ok(found)
    }
}
