//! The servers of projects in this cell: for quotas, for usage reports, and to complete mappings.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::instance_row::InstanceRow;
use super::schema::instances;
use crate::db::columns::Sql;
use crate::db::{DbError, row};
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::server::VmState;

/// The maximum number of servers in one statement.
const CHUNK: usize = 500;

/// Whether a server is deleted, and its user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fate {
    pub uuid: Uuid,
    /// The record is kept for the history only.
    pub deleted: bool,
    pub user_id: String,
}

impl CellDb {
    /// Returns the fates of the servers that this cell has or had.
    pub async fn fates(&self, servers: Vec<Uuid>) -> Result<Vec<Fate>, DbError> {
        self.db
            .read(move |conn| {
                let mut fates = Vec::with_capacity(servers.len());
                for chunk in servers.chunks(CHUNK) {
                    let rows = instances::table.filter(instances::uuid.eq_any(chunk.iter().copied().map(Sql)));
                    let rows: Vec<(Uuid, bool, VmState, String)> =
                        rows.select((instances::uuid, instances::deleted, instances::vm_state, instances::user_id)).load(conn)?;
                    let fate = |(uuid, deleted, state, user_id)| Fate { uuid, deleted: deleted || state == VmState::Deleted, user_id };
                    fates.extend(rows.into_iter().map(fate));
                }
                Ok(fates)
            })
            .await
    }

    /// Returns the flavors of the undeleted, visible servers of a project, or of one of its users.
    pub async fn flavors_in_use(&self, project_id: &str, user_id: Option<&str>) -> Result<Vec<(Uuid, Flavor)>, DbError> {
        let (project, user) = (project_id.to_owned(), user_id.map(str::to_owned));
        self.db
            .read(move |conn| {
                let mut rows = instances::table
                    .filter(instances::project_id.eq(project))
                    .filter(instances::deleted.eq(false))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .into_boxed();
                if let Some(user) = user {
                    rows = rows.filter(instances::user_id.eq(user));
                }
                Ok(rows.order(instances::uuid).select((instances::uuid, instances::flavor)).load(conn)?)
            })
            .await
    }

    /// Returns the visible servers, also deleted ones, that were launched by `until` and had not ended by `since`.
    pub async fn servers_between(
        &self,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        project: Option<&str>,
    ) -> Result<Vec<Instance>, DbError> {
        let project = project.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut rows = instances::table
                    .filter(instances::launched_at.le(Sql(Some(until))))
                    .filter(instances::terminated_at.is_null().or(instances::terminated_at.gt(Sql(Some(since)))))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .into_boxed();
                if let Some(project) = project {
                    rows = rows.filter(instances::project_id.eq(project));
                }
                row::load(conn, rows.order(instances::uuid).select(InstanceRow::as_select()))
            })
            .await
    }
}
