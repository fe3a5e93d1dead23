//! Host mappings: the cell of each compute host.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ApiDb;
use super::schema::host_mappings as hosts;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::reason;

/// The cell of a compute host. Host names are unique over all cells (INVARIANTS C10).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = hosts)]
pub struct HostMapping {
    pub host: String,
    #[diesel(serialize_as = Sql<Uuid>)]
    pub cell_uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
}

impl ApiDb {
    /// Maps hosts to a cell, all or none. A host may be mapped to that cell already; Conflict if one is mapped to another.
    pub async fn map_hosts(&self, names: Vec<String>, cell: Uuid) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write(move |conn| names.iter().try_for_each(|host| map(conn, host, cell, now))).await
    }

    /// Returns all host mappings, ordered by host.
    pub async fn host_mappings(&self) -> Result<Vec<HostMapping>, DbError> {
        self.db.read(|conn| Ok(hosts::table.order(hosts::host).select(HostMapping::as_select()).load(conn)?)).await
    }

    /// Returns a host's mapping.
    pub async fn host_mapping(&self, host: &str) -> Result<HostMapping, DbError> {
        let host = host.to_owned();
        self.db
            .read(move |conn| {
                let mapping = hosts::table.filter(hosts::host.eq(&host)).select(HostMapping::as_select()).first(conn).optional()?;
                mapping.ok_or_else(|| DbError::NotFound(format!("Host {host}")))
            })
            .await
    }

    /// Returns the hosts of a cell, ordered by name. The API database knows them while the cell is down.
    pub async fn hosts_of_cell(&self, cell: Uuid) -> Result<Vec<HostMapping>, DbError> {
        self.db
            .read(move |conn| {
                Ok(hosts::table.filter(hosts::cell_uuid.eq(Sql(cell))).order(hosts::host).select(HostMapping::as_select()).load(conn)?)
            })
            .await
    }

    /// Removes a host's mapping. Succeeds if there is none.
    pub async fn unmap_host(&self, host: &str) -> Result<(), DbError> {
        let host = host.to_owned();
        self.db
            .write(move |conn| {
                diesel::delete(hosts::table.filter(hosts::host.eq(host))).execute(conn)?;
                Ok(())
            })
            .await
    }
}

/// Maps a host to a cell. Succeeds if it is mapped so; Conflict if it is mapped to another cell.
pub(super) fn map(conn: &mut Conn, host: &str, cell: Uuid, now: DateTime<Utc>) -> Result<(), DbError> {
    let present: Option<Uuid> = hosts::table.filter(hosts::host.eq(host)).select(hosts::cell_uuid).first(conn).optional()?;
    match present {
        Some(other) if other != cell => Err(DbError::Conflict(reason!("host {host} is in cell {other}"))),
        Some(_) => Ok(()),
        None => {
            let row = HostMapping { host: host.to_owned(), cell_uuid: cell, created_at: now };
            diesel::insert_into(hosts::table).values(row).execute(conn)?;
            Ok(())
        }
    }
}
