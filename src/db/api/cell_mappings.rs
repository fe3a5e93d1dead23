//! Cell mappings: the cells, and the addresses of their databases.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ApiDb;
use super::schema::cell_mappings as cells;
use crate::db::DbError;
use crate::db::columns::Sql;

/// The cell of servers that found no host. Its uuid is all zeros.
pub const CELL0: Uuid = Uuid::nil();

/// The row of a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = cells)]
pub struct CellMapping {
    #[diesel(serialize_as = Sql<Uuid>)]
    pub uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub updated_at: Option<DateTime<Utc>>,
    /// No two cells share a name.
    pub name: String,
    /// A PostgreSQL URL, or the path of a SQLite file.
    pub database_url: String,
    /// A disabled cell gets no new servers; its servers are still listed.
    pub disabled: bool,
}

/// A change of a cell. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, AsChangeset)]
#[diesel(table_name = cells)]
pub struct CellMappingChange {
    pub name: Option<String>,
    pub database_url: Option<String>,
    pub disabled: Option<bool>,
}

impl ApiDb {
    /// Creates a cell. Conflict if its uuid or name is taken.
    pub async fn create_cell_mapping(&self, cell: CellMapping) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                diesel::insert_into(cells::table).values(cell).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Returns all cells, oldest first.
    pub async fn cell_mappings(&self) -> Result<Vec<CellMapping>, DbError> {
        self.db.read(|conn| Ok(cells::table.order(cells::id).select(CellMapping::as_select()).load(conn)?)).await
    }

    /// Changes a cell.
    pub async fn update_cell_mapping(&self, uuid: Uuid, change: CellMappingChange) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let row = cells::table.filter(cells::uuid.eq(Sql(uuid)));
                match diesel::update(row).set((change, cells::updated_at.eq(Sql(Some(now))))).execute(conn)? {
                    0 => Err(not_found(uuid)),
                    _ => Ok(()),
                }
            })
            .await
    }
}

fn not_found(uuid: Uuid) -> DbError {
    DbError::NotFound(format!("Cell mapping {uuid}"))
}
