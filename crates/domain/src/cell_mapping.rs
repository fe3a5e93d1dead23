//! Cells, as the API database knows them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The cell of servers that found no host. Its uuid is all zeros.
pub const CELL0: Uuid = Uuid::nil();

/// A cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CellMapping {
    pub uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    /// No two cells share a name.
    pub name: String,
    /// A PostgreSQL URL, or the path of a SQLite file.
    pub database_url: String,
    /// A disabled cell gets no new servers; its servers are still listed.
    pub disabled: bool,
}

/// A change of a cell. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CellMappingChange {
    pub name: Option<String>,
    pub database_url: Option<String>,
    pub disabled: Option<bool>,
}
