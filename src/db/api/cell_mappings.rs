//! Cell mappings: the cells, and the addresses of their databases.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::cell_mappings as cells;
use crate::db::DbError;
use crate::db::columns::Sql;
use crate::db::row::{self, changes, row};
use crate::domain::cell_mapping::{CellMapping, CellMappingChange};

row! {
    #[diesel(table_name = cells)]
    CellMappingRow of CellMapping {
        uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
        name: String,
        database_url: String,
        disabled: bool,
    }
}

changes! {
    #[diesel(table_name = cells)]
    CellMappingColumns of CellMappingChange {
        name: Option<String>,
        database_url: Option<String>,
        disabled: Option<bool>,
    }
}

impl ApiDb {
    /// Creates a cell. Conflict if its uuid or name is taken.
    pub async fn create_cell_mapping(&self, cell: CellMapping) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                diesel::insert_into(cells::table).values(CellMappingRow::from(cell)).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Returns all cells, oldest first.
    pub async fn cell_mappings(&self) -> Result<Vec<CellMapping>, DbError> {
        self.db.read(|conn| row::load(conn, cells::table.order(cells::id).select(CellMappingRow::as_select()))).await
    }

    /// Changes a cell.
    pub async fn update_cell_mapping(&self, uuid: Uuid, change: CellMappingChange) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let row = cells::table.filter(cells::uuid.eq(Sql(uuid)));
                match diesel::update(row).set((CellMappingColumns::from(change), cells::updated_at.eq(Sql(Some(now))))).execute(conn)? {
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
